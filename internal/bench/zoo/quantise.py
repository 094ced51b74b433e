"""Quantises a model as users of ONNX Runtime do: one process, driven by the benchmark beside this file.

usage: quantise.py MODEL.onnx FORM FEEDS_DIR OUT.onnx

FORM is dynamic (integers of 8 bits in products, activations quantised in each run); qdq, qdq-unsigned or qdq-channel (static,
written as QuantizeLinear and DequantizeLinear around operators, with signed activations, unsigned ones, or a scale for each
channel of weights); or qoperator (static, as QLinearConv and the like, with unsigned activations). FEEDS_DIR holds NAME.npy per input: what static forms are calibrated with, beside variations of it.
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
