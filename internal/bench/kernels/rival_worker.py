"""Runs models in a rival of cpu, one thread, as the benchmark beside this file asks for on standard input.

load MODEL.onnx   answers with nothing but "ok": inputs are random numbers, bound once
run N             answers with the nanoseconds of N runs

usage: rival_worker.py RIVAL PROCESSOR: onnxruntime or openvino; true for nanoseconds of the processor
"""

import sys
import time

import numpy as np

rng = np.random.default_rng(1)


def onnxruntime():
    """Returns the version, and what loads a model and returns what runs it."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3

    def load(path):
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for x in session.get_inputs():
            binding.bind_cpu_input(x.name, rng.uniform(-1, 1, x.shape).astype(np.float32))
        for y in session.get_outputs():
            binding.bind_output(y.name, "cpu")
        return lambda: session.run_with_iobinding(binding)

    return ort.__version__, load


def openvino():
    """The same for OpenVINO, which computes in float32."""
    import openvino as ov

    core = ov.Core()

    def load(path):
        compiled = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"})
        request = compiled.create_infer_request()
        for x in compiled.inputs:
            request.set_tensor(x, ov.Tensor(rng.uniform(-1, 1, list(x.shape)).astype(np.float32)))
        return lambda: request.infer({}, share_outputs=True)

    return ov.__version__.split("-")[0], load


version, load = {"onnxruntime": onnxruntime, "openvino": openvino}[sys.argv[1]]()
clock = time.process_time_ns if sys.argv[2] == "true" else time.perf_counter_ns
print(version, flush=True)
run = None
for line in sys.stdin:
    command, argument = line.split(maxsplit=1)
    if command == "load":
        run = load(argument.strip())
        run()
        print("ok", flush=True)
    else:
        start = clock()
        for _ in range(int(argument)):
            run()
        print(clock() - start, flush=True)
