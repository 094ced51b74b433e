"""Runs models in ONNX Runtime, one thread, as the benchmark beside this file asks for on standard input.

load MODEL.onnx   answers with nothing but "ok": inputs are random numbers, bound once
run N             answers with the nanoseconds of N runs

usage: ort_worker.py PROCESSOR, which is true for nanoseconds of the processor
"""

import sys
import time

import numpy as np
import onnxruntime as ort

options = ort.SessionOptions()
options.intra_op_num_threads = 1
options.inter_op_num_threads = 1
options.log_severity_level = 3
rng = np.random.default_rng(1)
clock = time.process_time_ns if sys.argv[1] == "true" else time.perf_counter_ns
session = binding = None
print(ort.__version__, flush=True)
for line in sys.stdin:
    command, argument = line.split(maxsplit=1)
    if command == "load":
        session = ort.InferenceSession(argument.strip(), options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for x in session.get_inputs():
            binding.bind_cpu_input(x.name, rng.uniform(-1, 1, x.shape).astype(np.float32))
        for y in session.get_outputs():
            binding.bind_output(y.name, "cpu")
        session.run_with_iobinding(binding)
        print("ok", flush=True)
    else:
        start = clock()
        for _ in range(int(argument)):
            session.run_with_iobinding(binding)
        print(clock() - start, flush=True)
