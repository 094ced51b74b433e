"""Times OpenVINO on one model: one process, driven by the benchmark beside this file.

usage: openvino_worker.py MODEL.onnx FEEDS_DIR THREADS TURNS SECONDS

FEEDS_DIR holds NAME.npy per input. The model gets the inputs' shapes before it is compiled, one stream, and float32 where it
would otherwise compute in less. Prints JSON objects, as ort_worker.py does.
"""

import pathlib
import sys
import time

import numpy as np
import openvino as ov

import measured

path, folder, threads, turns, seconds = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
feeds = {f.name[: -len(".npy")]: np.load(f) for f in sorted(folder.glob("*.npy"))}
start = time.perf_counter()
core = ov.Core()
model = core.read_model(path)
model.reshape({name: list(x.shape) for name, x in feeds.items()})
compiled = core.compile_model(
    model, "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
)
request = compiled.create_infer_request()
create = time.perf_counter() - start
measured.measure(lambda: request.infer(feeds, share_inputs=True, share_outputs=True), {"version": ov.__version__.split("-")[0], "create_ms": create * 1e3}, turns, seconds)
