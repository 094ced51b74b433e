"""Quantises a model as users of ONNX Runtime do: one process, driven by the benchmark beside this file.

usage: quantise.py MODEL.onnx FORM FEEDS_DIR OUT.onnx

FORM is dynamic (integers of 8 bits in products, activations quantised in each run); qdq, qdq-unsigned or qdq-channel (static,
written as QuantizeLinear and DequantizeLinear around operators, with signed activations, unsigned ones, or a scale for each
channel of weights); qdq-16, qdq-s16 or qdq-4 (the same with unsigned or signed activations of 16 bits, or with weights of 4); qoperator or
qoperator-channel (static, as QLinearConv and the like, with unsigned activations); nbits4, nbits4-a, nbits4-128, nbits8 or nbits4-4 (MatMulNBits in blocks
of 32, with zero points, in blocks of 128, of 8 bits, or at accuracy level 4); transformers (what onnxruntime.transformers makes of it);
float16, bfloat16 or float64: everything in that type, behind casts of inputs and in front of casts of outputs; or basic, extended or all: what
ONNX Runtime saves as it has optimised it, also behind another form, as in qdq+all. FEEDS_DIR holds NAME.npy per input: what static
forms are calibrated with, beside variations of it.
"""

import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime import quantization as q
from onnxruntime.quantization import shape_inference

path, form, folder, out = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4]


class Reader(q.CalibrationDataReader):
    """Gives the inputs, and copies in which floats are scaled."""

    def __init__(self):
        feeds = {f.name[: -len(".npy")]: np.load(f) for f in sorted(folder.glob("*.npy"))}
        floats = [k for k in feeds if feeds[k].dtype == np.float32]
        self.left = [{k: v * by if k in floats else v for k, v in feeds.items()} for by in ([1.0, 0.5, 1.5] if floats else [1])]
        for feed in self.left:
            for k in floats:
                feed[k] = feed[k].astype(np.float32)

    def get_next(self):
        return self.left.pop() if self.left else None


def retype(graph, to, outer=True):
    """Makes what is float32 in a graph, and in the graphs of its nodes, of another type; inputs and outputs of the outer one keep theirs."""
    single = onnx.TensorProto.FLOAT
    scales = {i for n in graph.node if n.op_type in ("Resize", "Upsample") for i in n.input[1:]}

    def narrow(t):
        if t.data_type == single and t.name not in scales:
            numbers = onnx.numpy_helper.to_array(t).astype(onnx.helper.tensor_dtype_to_np_dtype(to))
            t.CopyFrom(onnx.numpy_helper.from_array(numbers, t.name))

    for t in graph.initializer:
        narrow(t)
    del graph.value_info[:]
    for n in graph.node:
        for a in n.attribute:
            if a.HasField("t"):
                narrow(a.t)
            if n.op_type == "Cast" and a.name == "to" and a.i == single:
                a.i = to
            if a.HasField("g"):
                retype(a.g, to, False)
    floats = [v for v in [*graph.input, *graph.output] if v.type.tensor_type.elem_type == single]
    if not outer:
        for v in floats:
            v.type.tensor_type.elem_type = to
        return
    names = {v.name: v.name + "_inner" for v in floats}
    for n in graph.node:
        n.input[:] = [names.get(i, i) for i in n.input]
        n.output[:] = [names.get(o, o) for o in n.output]
    inputs = {v.name for v in graph.input}
    for name, inner in names.items():
        if name in inputs:
            graph.node.insert(0, onnx.helper.make_node("Cast", [name], [inner], to=to))
        else:
            graph.node.append(onnx.helper.make_node("Cast", [inner], [name], to=single))


STATIC = {  # format, type of activations and of weights, scales for each channel
    "qdq": (q.QuantFormat.QDQ, q.QuantType.QInt8, q.QuantType.QInt8, False),
    "qdq-unsigned": (q.QuantFormat.QDQ, q.QuantType.QUInt8, q.QuantType.QInt8, False),
    "qdq-channel": (q.QuantFormat.QDQ, q.QuantType.QInt8, q.QuantType.QInt8, True),
    "qdq-16": (q.QuantFormat.QDQ, q.QuantType.QUInt16, q.QuantType.QInt8, False),
    "qdq-s16": (q.QuantFormat.QDQ, q.QuantType.QInt16, q.QuantType.QInt8, True),
    "qdq-4": (q.QuantFormat.QDQ, q.QuantType.QUInt8, q.QuantType.QInt4, False),
    "qoperator": (q.QuantFormat.QOperator, q.QuantType.QUInt8, q.QuantType.QInt8, False),
    "qoperator-channel": (q.QuantFormat.QOperator, q.QuantType.QInt8, q.QuantType.QInt8, True),
}
NBITS = {  # bits, size of blocks, symmetric, accuracy level
    "nbits4": (4, 32, True, 0),
    "nbits4-a": (4, 32, False, 0),
    "nbits4-128": (4, 128, True, 0),
    "nbits8": (8, 32, True, 0),
    "nbits4-4": (4, 32, True, 4),
}
LEVELS = {
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def optimise(src, level, dst):
    """Has ONNX Runtime write what it makes of a model."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level, options.optimized_model_filepath = LEVELS[level], dst
    ort.InferenceSession(src, options, providers=["CPUExecutionProvider"])


def fuse(src, dst):
    """Writes what onnxruntime.transformers makes of a model, whose name tells its kind."""
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    kind = next((k for k in ("gpt2", "vit", "clip", "t5", "bart") if k in pathlib.Path(path).name), "bert")
    options = FusionOptions(kind)
    optimizer.optimize_model(src, kind, num_heads=0, hidden_size=0, optimization_options=options, opt_level=0).save_model_to_file(dst)


def write(src, form, dst, scratch):
    """Writes a model in a form, without what ONNX Runtime makes of that."""
    if form in ("float16", "bfloat16", "float64"):
        model = onnx.load(src)
        retype(model.graph, onnx.TensorProto.DOUBLE if form == "float64" else getattr(onnx.TensorProto, form.upper()))
        onnx.save(model, dst)
        return
    if form == "transformers":
        fuse(src, dst)
        return
    if form in NBITS:
        from onnxruntime.quantization import matmul_nbits_quantizer as nbits

        bits, block, symmetric, level = NBITS[form]
        config = nbits.DefaultWeightOnlyQuantConfig(block_size=block, is_symmetric=symmetric, accuracy_level=level, bits=bits)
        quantizer = nbits.MatMulNBitsQuantizer(onnx.load(src), algo_config=config)
        quantizer.process()
        quantizer.model.save_model_to_file(dst, False)
        return
    prepared = str(scratch / "prepared.onnx")
    shape_inference.quant_pre_process(src, prepared, skip_symbolic_shape=True)
    if form == "dynamic":
        q.quantize_dynamic(prepared, dst)
    elif form in STATIC:
        layout, activations, weights, channels = STATIC[form]
        more = {"UseQDQContribOps": True} if activations in (q.QuantType.QInt16, q.QuantType.QUInt16) else {}
        q.quantize_static(prepared, dst, Reader(), quant_format=layout, per_channel=channels, activation_type=activations, weight_type=weights, extra_options=more)
    else:
        sys.exit(f"no form {form}")


first, _, last = form.partition("+")
with tempfile.TemporaryDirectory() as made:
    whole, between = (str(pathlib.Path(made) / f) for f in ("whole.onnx", "between.onnx"))
    onnx.save(onnx.load(path), whole)  # with the weights in the file
    if first in LEVELS:
        optimise(whole, first, out)
    elif last:
        write(whole, first, between, pathlib.Path(made))
        optimise(between, last, out)
    else:
        write(whole, first, out, pathlib.Path(made))
