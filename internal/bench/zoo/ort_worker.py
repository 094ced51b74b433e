"""Times ONNX Runtime on one model: one process, driven by the benchmark beside this file.

usage: ort_worker.py MODEL.onnx FEEDS_DIR THREADS SECONDS

FEEDS_DIR holds NAME.npy per input. Prints one JSON object: create_ms, and run_ms and cpu_ms, the times of the timed runs and
the processor's within them.
"""

import json
import pathlib
import sys
import time

import numpy as np
import onnxruntime as ort

path, folder, threads, seconds = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
options = ort.SessionOptions()
options.intra_op_num_threads = threads
options.inter_op_num_threads = 1
options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
options.log_severity_level = 3
start = time.perf_counter()
session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
create = time.perf_counter() - start
feeds = {f.name[: -len(".npy")]: np.load(f) for f in sorted(folder.glob("*.npy"))}
for _ in range(3):
    session.run(None, feeds)
times, used, begin = [], [], time.perf_counter()
while len(times) < 20 or time.perf_counter() - begin < seconds:
    start, cpu = time.perf_counter(), time.process_time()
    session.run(None, feeds)
    times.append((time.perf_counter() - start) * 1e3)
    used.append((time.process_time() - cpu) * 1e3)
    if len(times) >= 5 and time.perf_counter() - begin > 4 * seconds:
        break
print(json.dumps({"version": ort.__version__, "create_ms": create * 1e3, "run_ms": times, "cpu_ms": used}))
