"""Runs a decoder, or an encoder of open length, on ONNX Runtime and prints times as JSON, or quantises it. See main.go.

usage: worker.py MODEL.onnx THREADS TOKENS PROMPT RUNS HEAD GROWING LENGTHS
       worker.py quantise MODEL.onnx OUT.onnx BITS BLOCK ACCURACY ASYMMETRIC
"""
import json
import statistics
import sys
import time

import numpy as np
import onnxruntime as ort

if sys.argv[1] == "quantise":
    import onnx
    from onnxruntime.quantization import matmul_nbits_quantizer as nbits

    bits, block, accuracy = map(int, sys.argv[4:7])
    config = nbits.DefaultWeightOnlyQuantConfig(block_size=block, is_symmetric=sys.argv[7] == "false", accuracy_level=accuracy, bits=bits)
    quantizer = nbits.MatMulNBitsQuantizer(onnx.load(sys.argv[2]), algo_config=config)
    quantizer.process()
    quantizer.model.save_model_to_file(sys.argv[3], False)
    sys.exit(0)

path, threads, tokens, prompt, rounds, head = sys.argv[1], *map(int, sys.argv[2:7])
lengths = [int(n) for n in sys.argv[8].split(",") if n]
options = ort.SessionOptions()
options.intra_op_num_threads = threads
options.log_severity_level = 3
session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
inputs, outputs = session.get_inputs(), session.get_outputs()
pasts = [i for i in inputs if i.name.startswith("past")]
presents = [o.name for o in outputs if o.name.startswith("present")]
shared = head > 0 and sys.argv[7] == "false" or any(i.name == "seqlens_k" for i in inputs)  # caches of all rows there will be, which are written in place
kinds = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float)": np.float32, "tensor(float16)": np.float16}


def feed(i, past, ids):
    rows, name = ids.shape[1], i.name
    kind = kinds[i.type]
    if "position" in name:
        return np.arange(past, past + rows, dtype=kind)[None]
    if name == "seqlens_k":
        return np.array([past + rows - 1], kind)
    if name == "total_sequence_length":
        return np.full([d for d in i.shape], past + rows, kind)
    if "mask" in name and kind is np.float32:
        return np.triu(np.full((rows, past + rows), -np.inf, kind), past + 1)[None, None]
    if "mask" in name:
        return np.ones((1, past + rows), kind)
    if "type" in name:
        return np.zeros((1, rows), kind)
    return ids.astype(kind)


def decode():
    ids, past, times, out = np.arange(1, prompt + 1)[None], 0, [], []
    room = prompt + tokens + 1 if shared else 0
    cache = [ort.OrtValue.ortvalue_from_numpy(np.zeros((1, p.shape[1], room, head or p.shape[3]), kinds[p.type])) for p in pasts]
    for _ in range(tokens + 1):
        start = time.perf_counter()
        binding = session.io_binding()
        for i in inputs:
            if i not in pasts:
                binding.bind_cpu_input(i.name, feed(i, past, ids))
        for p, c in zip(pasts, cache):
            binding.bind_ortvalue_input(p.name, c)
        binding.bind_output(outputs[0].name, "cpu")
        for k, name in enumerate(presents):
            if shared:
                binding.bind_ortvalue_output(name, cache[k])
            else:
                binding.bind_output(name, "cpu")
        session.run_with_iobinding(binding)
        results = binding.get_outputs()
        if not shared:
            cache = results[1:]
        past += ids.shape[1]
        ids = np.array([[int(results[0].numpy()[0, -1].argmax())]])
        out.append(int(ids[0, 0]))
        times.append(time.perf_counter() - start)
    return sum(times[1:]), times[0], out


def encode():
    start = time.perf_counter()
    for n in lengths:
        ids = np.arange(1, n + 1)[None]
        session.run(None, {i.name: feed(i, 0, ids) for i in inputs})
    return time.perf_counter() - start


if pasts:
    runs = [decode() for _ in range(rounds)]
    print(json.dumps({"steady_ms": 1e3 * statistics.median(r[0] for r in runs) / tokens, "first_ms": 1e3 * statistics.median(r[1] for r in runs), "tokens": runs[0][2],
                      "version": ort.__version__}))
else:
    first = encode()
    print(json.dumps({"steady_ms": 1e3 * statistics.median([encode() for _ in range(rounds)]), "first_ms": 1e3 * first, "version": ort.__version__}))
