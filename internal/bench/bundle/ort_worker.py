"""Times how long ONNX Runtime takes to create a session and to run it once: one process, driven by the command beside this file.

usage: ort_worker.py MODEL.onnx FEEDS_DIR THREADS

FEEDS_DIR holds NAME.npy per input. Prints one JSON object: open_ms, and first_ms, the time of opening and of the first run.
"""

import json
import pathlib
import sys
import time

import numpy as np
import onnxruntime as ort

path, folder, threads = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
feeds = {f.name[: -len(".npy")]: np.load(f) for f in sorted(folder.glob("*.npy"))}
options = ort.SessionOptions()
options.intra_op_num_threads = threads
options.inter_op_num_threads = 1
options.log_severity_level = 3
start = time.perf_counter()
session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
opened = time.perf_counter() - start
session.run(None, feeds)
first = time.perf_counter() - start
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"open_ms": opened * 1e3, "first_ms": first * 1e3, "peak_kib": peak}))
