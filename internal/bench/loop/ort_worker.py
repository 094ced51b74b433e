"""Times ONNX Runtime on models with loops: one process, driven by the command beside this file.

usage: ort_worker.py MODEL.onnx FEEDS_DIR THREADS RUNS

FEEDS_DIR holds NAME.npy per input. Prints one JSON object: version and run_ms, the least time of the timed runs.
"""

import json
import pathlib
import sys
import time

import numpy as np
import onnxruntime as ort

path, folder, threads, runs = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
options = ort.SessionOptions()
options.intra_op_num_threads = threads
options.inter_op_num_threads = 1
options.log_severity_level = 3
session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
feeds = {f.name[: -len(".npy")]: np.load(f) for f in sorted(folder.glob("*.npy"))}
session.run(None, feeds)
least = float("inf")
for _ in range(runs):
    start = time.perf_counter()
    session.run(None, feeds)
    least = min(least, (time.perf_counter() - start) * 1e3)
print(json.dumps({"version": ort.__version__, "run_ms": least}))
