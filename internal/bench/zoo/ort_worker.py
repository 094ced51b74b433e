"""Times ONNX Runtime on one model: one process, driven by the benchmark beside this file.

usage: ort_worker.py MODEL.onnx FEEDS_DIR THREADS TURNS SECONDS

FEEDS_DIR holds NAME.npy per input. Prints a JSON object: create_ms, first_ms of the first run and peak_mib, the most memory
until then; and one for every line that it reads: run_ms and cpu_ms, the times of runs and the processor's within them, for the given part of SECONDS.
"""

import pathlib
import sys
import time

import numpy as np
import onnxruntime as ort

import measured

path, folder, threads, turns, seconds = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
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
measured.measure(lambda: session.run(None, feeds), {"version": ort.__version__, "create_ms": create * 1e3}, turns, seconds)
