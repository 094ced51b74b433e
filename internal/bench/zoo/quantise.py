"""Quantises a model as users of ONNX Runtime do: one process, driven by the benchmark beside this file.

usage: quantise.py MODEL.onnx FORM FEEDS_DIR OUT.onnx

FORM is dynamic (integers of 8 bits in products, activations quantised in each run); qdq, qdq-unsigned or qdq-channel (static,
written as QuantizeLinear and DequantizeLinear around operators, with signed activations, unsigned ones, or a scale for each
channel of weights); or qoperator (static, as QLinearConv and the like, with unsigned activations); or float16, bfloat16 or float64: everything in that type, behind casts of
inputs and in front of casts of outputs. FEEDS_DIR holds NAME.npy per input: what static forms are calibrated with, beside variations of it.
"""

import pathlib
import sys
import tempfile

import numpy as np
import onnx
from onnxruntime import quantization as q
from onnxruntime.quantization.shape_inference import quant_pre_process

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


if form in ("float16", "bfloat16", "float64"):
    model = onnx.load(path)
    retype(model.graph, onnx.TensorProto.DOUBLE if form == "float64" else getattr(onnx.TensorProto, form.upper()))
    onnx.save(model, out)
    sys.exit(0)

with tempfile.TemporaryDirectory() as scratch:
    whole, prepared = str(pathlib.Path(scratch) / "whole.onnx"), str(pathlib.Path(scratch) / "prepared.onnx")
    onnx.save(onnx.load(path), whole)  # with the weights in the file
    quant_pre_process(whole, prepared, skip_symbolic_shape=True)
    if form == "dynamic":
        q.quantize_dynamic(prepared, out)
    elif form in ("qdq", "qdq-unsigned", "qdq-channel", "qoperator"):
        q.quantize_static(
            prepared,
            out,
            Reader(),
            quant_format=q.QuantFormat.QOperator if form == "qoperator" else q.QuantFormat.QDQ,
            per_channel=form == "qdq-channel",
            activation_type=q.QuantType.QInt8 if form in ("qdq", "qdq-channel") else q.QuantType.QUInt8,
        )
    else:
        sys.exit(f"no form {form}")
