"""Writes what ONNX Runtime's optimiser and quantiser make of models, and what it computes of them, in the form of ONNX's own test data,
with the results of the original model beside as float_K.pb. Usage: whole.py FOLDER SEED MODEL…"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from onnxruntime import quantization as q

OPTIMIZED = {"basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC, "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
             "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL}


def session(path, level=None, save=None):
    o = ort.SessionOptions()
    o.log_severity_level = 4
    o.intra_op_num_threads = 1
    o.graph_optimization_level = level or ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if save:
        o.optimized_model_filepath = save
    return ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])


def feeds(path, rng):
    out = {}
    for x in session(path).get_inputs():
        shape = [d if isinstance(d, int) else {"batch": 1}.get(d, 7) for d in x.shape]
        if "int" in x.type:
            dt = np.int64 if "64" in x.type else np.int32
            out[x.name] = np.ones(shape, dt) if "mask" in x.name else rng.integers(0, 2 if "type" in x.name else 50, shape).astype(dt)
        else:
            out[x.name] = rng.standard_normal(shape).astype(np.float32)
    return out


class Reader(q.CalibrationDataReader):
    def __init__(self, path, rng):
        self.data = iter([feeds(path, rng) for _ in range(3)])

    def get_next(self):
        return next(self.data, None)


def n_bits(src, dst, bits, symmetric, form):
    from onnxruntime.quantization import matmul_nbits_quantizer as nb
    config = nb.DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=symmetric, quant_format=form, bits=bits)
    x = nb.MatMulNBitsQuantizer(onnx.load(src), algo_config=config)
    x.process()
    x.model.save_model_to_file(dst, False)


def ways(src, name, rng):
    for level in OPTIMIZED:
        yield level, lambda dst: session(src, OPTIMIZED[level], dst)
    yield "dynamic", lambda dst: q.quantize_dynamic(src, dst)
    yield "dynamic_u8", lambda dst: q.quantize_dynamic(src, dst, weight_type=q.QuantType.QUInt8, per_channel=True)
    for form in (q.QuantFormat.QDQ, q.QuantFormat.QOperator):
        for per in (False, True):
            yield f"static_{form.name}_{int(per)}".lower(), lambda dst: q.quantize_static(src, dst, Reader(src, rng), quant_format=form, per_channel=per,
                                                                                      weight_type=q.QuantType.QInt8)
    yield "static_u8", lambda dst: q.quantize_static(src, dst, Reader(src, rng), quant_format=q.QuantFormat.QDQ, activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QUInt8)
    yield "static_16", lambda dst: q.quantize_static(src, dst, Reader(src, rng), quant_format=q.QuantFormat.QDQ, activation_type=q.QuantType.QUInt16, weight_type=q.QuantType.QInt8,
                                                     extra_options={"UseQDQContribOps": True})
    for bits, symmetric in ((4, True), (4, False), (8, True), (8, False)):
        yield f"nbits_{bits}_{int(symmetric)}", lambda dst: n_bits(src, dst, bits, symmetric, q.QuantFormat.QOperator)
    yield "nbits_qdq", lambda dst: n_bits(src, dst, 4, True, q.QuantFormat.QDQ)
    kind = {"bert": "bert", "gpt2": "gpt2"}.get(name.split("_")[0])
    if kind:
        def transformer(dst, gelu=False):
            from onnxruntime.transformers import optimizer
            from onnxruntime.transformers.fusion_options import FusionOptions
            o = FusionOptions(kind)
            o.enable_gelu_approximation = gelu
            optimizer.optimize_model(src, model_type=kind, num_heads=0, hidden_size=0, optimization_options=o, opt_level=0).save_model_to_file(dst)
        yield "transformers", transformer
        yield "transformers_fast", lambda dst: transformer(dst, True)


def twice(folder):
    """What is quantised or fused is optimised as well."""
    for way in ("dynamic", "static_qdq_0", "static_qoperator_1", "static_u8", "transformers", "nbits_4_1", "static_16"):
        for level in ("extended", "all"):
            yield f"{way}_{level}", way, level


def write(path, names, values):
    for k, (n, v) in enumerate(zip(names, values)):
        with open(f"{path}_{k}.pb", "wb") as f:
            f.write(numpy_helper.from_array(np.asarray(v), n).SerializeToString())


def case(folder, name, model, data, real):
    s = session(model)
    names = [x.name for x in s.get_outputs()]
    out = s.run(names, data)
    at = os.path.join(folder, name, "test_data_set_0")
    os.makedirs(at, exist_ok=True)
    write(os.path.join(at, "input"), data, data.values())
    write(os.path.join(at, "output"), names, out)
    write(os.path.join(folder, name, "float"), names, real)


def main():
    folder, seed, models = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    for path in models:
        rng = np.random.default_rng(seed)
        name = os.path.splitext(os.path.basename(path))[0]
        alone = os.path.join(folder, name + ".onnx")  # with its weights inside
        onnx.save(onnx.load(path), alone)
        path = alone
        data = feeds(path, rng)
        real = session(path).run(None, data)
        made = {}

        def attempt(way, make):
            at = os.path.join(folder, f"{name}_{way}")
            os.makedirs(at)
            dst = os.path.join(at, "model.onnx")
            try:
                make(dst)
                case(folder, f"{name}_{way}", dst, data, real)
                made[way] = dst
            except ImportError as e:
                print("left out:", name, way, e, file=sys.stderr)
            except Exception as e:  # what ONNX Runtime does not do, or does not run, is no case
                print("skipped", name, way, str(e).splitlines()[0][:200], file=sys.stderr)
                if os.path.exists(dst):
                    os.remove(dst)

        for way, make in ways(path, name, rng):
            attempt(way, make)
        for way, base, level in twice(folder):
            if base in made:
                attempt(way, lambda dst: session(made[base], OPTIMIZED[level], dst))


main()
