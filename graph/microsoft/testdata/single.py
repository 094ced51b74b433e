"""Writes models of one operator of ONNX Runtime's own domains each, with random attributes, operands and types, and what ONNX Runtime
computes of them: in the form of ONNX's own test data. Usage: single.py FOLDER SEED COUNT [FAMILY]"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"
rng = None


def real(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def whole(lo, hi, *shape, dtype=np.int64):
    return rng.integers(lo, hi, shape).astype(dtype)


def pick(*options):
    return options[rng.integers(len(options))]


def flip(p=0.5):
    return rng.random() < p


class Case:
    """A node: operands by name, None for one that is left out; those in const are initializers."""

    def __init__(self, op, inputs, outputs=1, const=(), domain=MS, opset=17, **attrs):
        self.op, self.inputs, self.const, self.domain, self.opset = op, inputs, const, domain, opset
        self.outputs = [f"y{i}" if want else "" for i, want in enumerate([1] * outputs if isinstance(outputs, int) else outputs)]
        self.shared = attrs.pop("shared", None)  # whether results 1 and 2 lie where operands 3 and 4 do
        self.attrs = {k: v for k, v in attrs.items() if v is not None}
        self.symbolic = False  # whether batches and lengths are open

    def model(self):
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.inputs)]
        while names and not names[-1]:
            names.pop()
        node = helper.make_node(self.op, names, self.outputs, name="node", domain=self.domain, **self.attrs)
        inits, ins = [], []
        for i, x in enumerate(self.inputs):
            if x is None:
                continue
            if i in self.const:
                inits.append(numpy_helper.from_array(x, f"x{i}"))
                continue
            shape = [f"d{i}_{k}" if self.symbolic and k < x.ndim - 1 and (k == 0 or k == 1 and x.ndim == 3) else n for k, n in enumerate(x.shape)]
            ins.append(helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), shape))
        outs = [onnx.ValueInfoProto(name=n) for n in self.outputs if n]
        g = helper.make_graph([node], "g", ins, outs, inits)
        m = helper.make_model(g, opset_imports=[helper.make_opsetid("", self.opset), helper.make_opsetid(MS, 1)])
        m.ir_version = 9
        return m


def byte_type():
    return pick(np.int8, np.uint8)


def byte_values(dt, *shape):
    return whole(np.iinfo(dt).min, np.iinfo(dt).max + 1, *shape, dtype=dt)


def weights(dt, *shape):
    """Weights of a product with bytes: signed ones of 7 bits, whose pairs of products ONNX Runtime does not bound to 16 bits on processors without VNNI."""
    return whole(-64, 64, *shape, dtype=dt) if dt == np.int8 else byte_values(dt, *shape)


def scale(*shape):
    return (rng.random(shape) * 0.05 + 0.01).astype(np.float32)


def zero(dt):
    return np.array(rng.integers(np.iinfo(dt).min // 2, np.iinfo(dt).max // 2 + 1), dtype=dt)


def shape(most=4, least=1):
    return [int(rng.integers(1, 6)) for _ in range(rng.integers(least, most + 1))]


def gelu():
    s = shape()
    return Case("Gelu", [real(*s)])


def bias_gelu():
    s = shape()
    return Case("BiasGelu", [real(*s), real(s[-1])])


def fast_gelu():
    s = shape()
    return Case("FastGelu", [real(*s), real(s[-1]) if flip() else None])


def quick_gelu():
    return Case("QuickGelu", [real(*shape())], alpha=pick(None, 1.0, 1.702, 0.5))


def fused_matmul():
    batch = shape(2, 0)
    m, k, n = shape(3, 3)
    ta, tb = int(flip()), int(flip())
    a = real(*batch, *((k, m) if ta else (m, k)))
    b = real(*batch, *((n, k) if tb else (k, n)))
    attrs = dict(transA=ta, transB=tb, alpha=pick(None, 0.5))
    if batch and flip(0.3):
        attrs.update(transBatchA=1, transBatchB=1)
        a, b = np.moveaxis(a, -2, 0).copy(), np.moveaxis(b, -2, 0).copy()
    return Case("FusedMatMul", [a, b], const=pick((), (1,)), **attrs)


def transpose_matmul():
    m, k, n = shape(3, 3)
    return Case("TransposeMatMul", [real(k, m), real(k, n)], transA=1, alpha=2.0)


ACTIVATIONS = [("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.1]), ("Clip", [-0.5, 0.6]), ("HardSigmoid", [0.3, 0.4])]


def fused_gemm():
    m, k, n = shape(3, 3)
    ta, tb = int(flip()), int(flip())
    name, p = pick(*ACTIVATIONS[:4])
    return Case("FusedGemm", [real(*((k, m) if ta else (m, k))), real(*((n, k) if tb else (k, n))), real(n) if flip() else None], transA=ta, transB=tb,
                alpha=pick(None, 0.7), beta=pick(None, 1.5), activation=name, activation_alpha=p[0] if p else None)


def fused_conv():
    group, ci, co = int(rng.integers(1, 3)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    k = int(rng.integers(1, 4))
    x, w = real(2, ci * group, 7, 8), real(co * group, ci, k, k)
    name, p = pick(*ACTIVATIONS)
    pads, strides = [int(rng.integers(0, 2)) for _ in range(4)], [int(rng.integers(1, 3)) for _ in range(2)]
    h = (7 + pads[0] + pads[2] - k) // strides[0] + 1
    v = (8 + pads[1] + pads[3] - k) // strides[1] + 1
    return Case("FusedConv", [x, w, real(co * group) if flip() else None, real(2, co * group, h, v) if flip(0.3) else None], group=group, kernel_shape=[k, k],
                pads=pads, strides=strides, activation=name, activation_params=p)


def cdist():
    d = int(rng.integers(1, 9))
    return Case("CDist", [real(5, d), real(3, d)], metric=pick("euclidean", "sqeuclidean"))


def skip_layer_norm():
    b, s, h = shape(3, 3)
    h *= 4
    skip = pick((b, s, h), (1, s, h), (s, h))
    return Case("SkipLayerNormalization", [real(b, s, h), real(*skip), real(h), real(h) if flip() else None, real(h) if flip() else None],
                outputs=pick([1], [1, 0, 0, 1]), epsilon=pick(None, 1e-5))


def skip_rms_norm():
    b, s, h = shape(3, 3)
    h *= 4
    return Case("SkipSimplifiedLayerNormalization", [real(b, s, h), real(b, s, h), real(h), real(h) if flip() else None], outputs=pick([1], [1, 0, 0, 1]), epsilon=pick(None, 1e-5))


def old_layer_norm():
    s = shape(3, 2)
    axis = pick(-1, 1)
    n = s[axis:] if axis < 0 else s[1:]
    return Case("LayerNormalization", [real(*s), real(*n), real(*n) if flip() else None], domain="", opset=12, axis=axis)


def rms_norm():
    s = shape(3, 2)
    return Case("SimplifiedLayerNormalization", [real(*s), real(s[-1])], domain="", opset=pick(12, 17), axis=-1, epsilon=1e-5, stash_type=1)


def embed():
    b, s, h = 2, 5, 8
    segments = flip()
    mask = None
    if flip():
        mask = (np.arange(s)[None] < whole(1, s + 1, b, 1)).astype(np.int32)
    return Case("EmbedLayerNormalization", [whole(0, 11, b, s, dtype=np.int32), whole(0, 2, b, s, dtype=np.int32) if segments else None, real(11, h), real(7, h),
                real(2, h) if segments else None, real(h), real(h), mask, whole(0, 7, b, s, dtype=np.int32) if flip(0.3) else None], outputs=pick([1, 1], [1, 1, 1]), epsilon=pick(None, 1e-5),
                const=(2, 3, 4, 5, 6))


def q_embed():
    b, s, h = 2, 5, 8
    dt = np.uint8
    mask = (np.arange(s)[None] < whole(1, s + 1, b, 1)).astype(np.int32)
    q = [byte_values(dt, 11, h), byte_values(dt, 7, h), byte_values(dt, 2, h), byte_values(dt, h), byte_values(dt, h)]
    return Case("QEmbedLayerNormalization", [whole(0, 11, b, s, dtype=np.int32), whole(0, 2, b, s, dtype=np.int32), *q, mask if flip() else None,
                *[scale() for _ in range(5)], *[zero(dt) for _ in range(5)]], outputs=2, const=range(2, 18), epsilon=1e-5)


def attention():
    b, s, n, d = 2, int(rng.integers(1, 6)), int(rng.integers(1, 4)), pick(4, 8)
    hin, h = 12, n * d
    past = int(rng.integers(1, 4)) if flip(0.4) else 0
    t = past + s
    mask = pick(None, whole(1, t + 1, b, dtype=np.int32), whole(0, 2, b, t, dtype=np.int32), whole(0, 2, b, s, t, dtype=np.int32),
                np.concatenate([whole(t // 2 + 1, t + 1, b, dtype=np.int32), whole(0, t // 2 + 1, b, dtype=np.int32)]))
    if mask is not None and mask.ndim > 1:
        mask[..., 0] = 1
    if mask is not None and mask.ndim == 1 and past:
        mask = None
    bias = real(pick(1, b), pick(1, n), s, t) if flip(0.3) else None
    sizes, vh = None, h
    if flip(0.2) and not past:
        vh = 2 * h
        sizes = [h, h, vh]
    return Case("Attention", [real(b, s, hin), real(hin, 2 * h + vh), real(2 * h + vh), mask, real(2, b, n, past, d) if past else None, bias],
                outputs=[1, 1] if past or flip(0.3) and not sizes else [1], const=(1, 2), num_heads=n, unidirectional=pick(0, 1), qkv_hidden_sizes=sizes, scale=pick(None, 0.3),
                mask_filter_value=pick(None, -500.0))


def q_attention():
    b, s, n, d = 2, int(rng.integers(1, 6)), int(rng.integers(1, 4)), 8
    hin, h = 12, n * d
    xt, wt = np.uint8, byte_type()
    mask = pick(None, whole(1, s + 1, b, dtype=np.int32), np.concatenate([np.ones((b, 1), np.int32), whole(0, 2, b, s - 1, dtype=np.int32)], 1))
    return Case("QAttention", [byte_values(xt, b, s, hin), weights(wt, hin, 3 * h), real(3 * h), scale(), scale() if flip() else scale(3 * h), mask,
                zero(xt), zero(wt) if wt == np.uint8 else np.array(0, wt)], const=(1, 2, 3, 4, 6, 7), num_heads=n, unidirectional=pick(0, 1))


def multi_head():
    b, s, l, n, d = 2, int(rng.integers(1, 5)), int(rng.integers(1, 6)), int(rng.integers(1, 4)), pick(4, 8)
    h, past = n * d, 0
    form = pick("apart", "packed", "packed_kv", "cross")
    q, k, v, bias, pk, pv = real(b, s, h), real(b, l, h), real(b, l, h), None, None, None
    if form == "packed":
        q, k, v, l = real(b, s, n, 3, d), None, None, s
    elif form == "packed_kv":
        k, v = real(b, l, n, 2, d), None
    elif form == "cross":
        k, v = real(b, n, l, d), real(b, n, l, d)
    else:
        if flip():
            bias = real(3 * h)
        if flip(0.4):
            l = s
            k, v = real(b, l, h), real(b, l, h)
            past = int(rng.integers(1, 4))
            pk, pv = real(b, n, past, d), real(b, n, past, d)
    t = past + l
    mask = pick(None, whole(1, t + 1, b, dtype=np.int32), whole(0, 2, b, t, dtype=np.int32))
    if mask is not None and mask.ndim > 1:
        mask[..., 0] = 1
    if form == "cross" or past and mask is not None and mask.ndim == 1:
        mask = None
    outputs = [1, 1, 1] if past else [1]
    return Case("MultiHeadAttention", [q, k, v, bias, mask, real(pick(1, b), pick(1, n), s, t) if flip(0.3) else None, pk, pv], outputs=outputs, num_heads=n,
                scale=pick(None, 0.3), unidirectional=1 if form in ("apart", "packed") and l == s and flip(0.4) else None)


def decoder_heads():
    b, n, d, most = 2, 2, 8, 6
    past = int(rng.integers(0, most - 1))
    h = n * d
    return Case("DecoderMaskedMultiHeadAttention", [real(b, 1, h), real(b, 1, h), real(b, 1, h), None, None, real(b, n, most, d), real(b, n, most, d),
                np.array([past], np.int32), None, None, real(3 * h) if flip() else None], outputs=3, num_heads=n, past_present_share_buffer=1)


def rotary():
    b, s, n, d = 2, int(rng.integers(1, 5)), int(rng.integers(1, 4)), 8
    width = pick(0, 4)
    half = (width or d) // 2
    x = real(b, n, s, d) if flip() else real(b, s, n * d)
    ids = np.array([int(rng.integers(0, 4))]) if flip() else whole(0, 9, b, s)
    return Case("RotaryEmbedding", [x, ids, real(9, half), real(9, half)], interleaved=pick(0, 1), num_heads=n if width or flip() else None, rotary_embedding_dim=width or None)


def group_query():
    b, g, d = pick(1, 2), pick(1, 2), 16
    n = g * pick(1, 2, 3)
    prompt, more = flip(), b == 1 and flip(0.3)
    s = int(rng.integers(2, 6)) if prompt or more else 1
    past = 0 if prompt else int(rng.integers(1, 5))
    room = past + (int(rng.integers(0, 9)) if flip(0.3) else 0)
    total = past + s
    lens = whole(total // 2, total, b, dtype=np.int32) if b > 1 and not prompt else np.full(b, total - 1, np.int32)
    lens[0] = total - 1
    packed = flip()
    rope = flip()
    q = real(b, s, (n + 2 * g) * d) if packed else real(b, s, n * d)
    k, v = (None, None) if packed else (real(b, s, g * d), real(b, s, g * d))
    interleaved = pick(0, 1) if rope else None
    window = pick(None, None, 2, 3)
    return Case("GroupQueryAttention", [q, k, v, real(b, g, room, d), real(b, g, room, d), lens, np.array(total, np.int32),
                real(16, d // 2) if rope else None, real(16, d // 2) if rope else None, None, real(1, pick(1, n), s, total) if flip(0.2) else None,
                real(n) if flip(0.2) else None], outputs=3, shared=None if room == past else 1, num_heads=n, kv_num_heads=g, do_rotary=int(rope), rotary_interleaved=interleaved,
                scale=pick(None, 0.2), softcap=pick(None, 5.0), local_window_size=window, const=(6,) if flip() and room == past else ())


def q_binary():
    s = shape()
    dt = byte_type()
    other = s if flip() else s[-1:]
    return Case(pick("QLinearAdd", "QLinearMul"), [byte_values(dt, *s), scale(), zero(dt), byte_values(dt, *other), scale(), zero(dt), scale() * 3, zero(dt)], const=(1, 2, 4, 5, 6, 7))


def q_unary():
    dt = byte_type()
    op = pick("QLinearSigmoid", "QLinearLeakyRelu")
    return Case(op, [byte_values(dt, *shape()), scale(), zero(dt), scale() / 5, zero(dt)], const=(1, 2, 3, 4), alpha=0.2 if op[-1] == "u" else None)


def q_softmax():
    dt = byte_type()
    x = byte_values(dt, *shape(2, 1), int(rng.integers(2, 6)))  # of one element ONNX Runtime's result is 1, which overflows
    case = Case("QLinearSoftmax", [x, np.array(0.01, np.float32), zero(dt), np.array(1 / 256, np.float32), np.array(np.iinfo(dt).min, dt)], const=(1, 2, 3, 4), axis=-1)
    case.attrs["opset"] = pick(11, 13)
    return case


def q_pool():
    dt, last = byte_type(), pick(0, 1)
    x = byte_values(dt, 2, 6, 7, 3) if last else byte_values(dt, 2, 3, 6, 7)
    q = [x, scale(), zero(dt), scale(), zero(dt)]
    if flip():
        return Case("QLinearGlobalAveragePool", q, const=(1, 2, 3, 4), channels_last=last)
    return Case("QLinearAveragePool", q, const=(1, 2, 3, 4), channels_last=last, kernel_shape=[2, 3], strides=[pick(1, 2), 2], pads=[0, 1, 1, 0], count_include_pad=pick(0, 1))


def nhwc_max_pool():
    return Case("NhwcMaxPool", [byte_values(byte_type(), 2, 6, 7, 3)], kernel_shape=[2, 3], strides=[pick(1, 2), 2], pads=[0, 1, 1, 0])


def q_concat():
    dt = byte_type()
    s = shape(3, 2)
    parts = []
    for _ in range(rng.integers(1, 4)):
        parts += [byte_values(dt, *s), scale(), zero(dt)]
    return Case("QLinearConcat", [scale(), zero(dt), *parts], const=[i for i in range(2 + len(parts)) if i < 2 or i % 3 != 2], axis=pick(0, 1, -1))


def q_where():
    dt = byte_type()
    s = shape(3, 2)
    return Case("QLinearWhere", [rng.random(s) < 0.5, byte_values(dt, *s), scale(), zero(dt), byte_values(dt, *s), scale(), zero(dt), scale(), zero(dt)], const=(2, 3, 5, 6, 7, 8))


def q_conv():
    xt, wt = np.uint8, byte_type()
    last = pick(0, 1)
    x = byte_values(xt, 2, 6, 7, 3) if last else byte_values(xt, 2, 3, 6, 7)
    ws = scale(4) / 20 if flip() else scale() / 20
    return Case("QLinearConv", [x, scale(), zero(xt), weights(wt, 4, 3, 3, 3), ws, np.zeros(ws.shape, wt) if wt == np.int8 else np.full(ws.shape, 120, wt), scale() * 4, zero(xt),
                whole(-500, 500, 4, dtype=np.int32) if flip() else None], const=range(1, 9), channels_last=last, pads=[1, 1, 1, 1])


def q_gemm():
    m, k, n = shape(3, 3)
    ta, tb = int(flip()), int(flip())
    at, bt = np.uint8, byte_type()
    out = flip()
    bs = scale(n) if flip() else scale()
    bz = byte_values(bt, n) if bs.ndim else zero(bt)
    return Case("QGemm", [byte_values(at, *((k, m) if ta else (m, k))), scale(), zero(at), weights(bt, *((n, k) if tb else (k, n))), bs, bz,
                whole(-500, 500, n, dtype=np.int32) if flip() else None, scale() * 5 if out else None, zero(at) if out else None], const=range(1, 9), transA=ta, transB=tb, alpha=pick(None, 0.7))


def dynamic_matmul():
    m, k, n = shape(3, 3)
    bt = byte_type()
    bs = scale(n) if flip() else scale()
    bz = (byte_values(bt, n) if bs.ndim else zero(bt)) if flip() else None
    return Case("DynamicQuantizeMatMul", [real(m, k), weights(bt, k, n), bs, bz, real(n) if flip() else None], const=(1, 2, 3, 4))


def integer_to_float():
    m, k, n = shape(3, 3)
    at, bt = np.uint8, byte_type()
    bs = scale(n) if flip() else scale()
    return Case("MatMulIntegerToFloat", [byte_values(at, m, k), weights(bt, k, n), scale(), bs, zero(at) if flip() else None, zero(bt) if flip() else None, real(n) if flip() else None],
                const=(1, 2, 3, 4, 5, 6))


def q_elements():
    s = shape(3, 2)
    dt = pick(np.int8, np.uint8, np.int16, np.uint16)
    if flip():
        return Case("QuantizeLinear", [real(*s), scale(), zero(dt)], const=(1, 2))
    return Case("DequantizeLinear", [byte_values(dt, *s), scale(), zero(dt)], const=(1, 2))


def dynamic_lstm():
    nd, i, h, s, b = pick(1, 2), 4, 6, 3, 2
    wt = byte_type()
    per = flip()
    start = real(nd, b, h) if flip() else None
    params = []
    for rows in (i, h):
        z = np.full((nd, 4 * h) if per else (nd,), 0 if wt == np.int8 else 128, wt)
        params.append((weights(wt, nd, rows, 4 * h), scale(*z.shape), z))
    (w, ws, wz), (r, rs, rz) = params
    x, bias = real(s, b, i), real(nd, 8 * h) if flip() else None
    # Of rows of two lengths ONNX Runtime's own results depend on which of them are asked for: by what the states of the longer row are rounded.
    lengths = np.full(2, pick(1, 2, 3), np.int32) if flip() else None
    a = dict(hidden_size=h, direction="bidirectional" if nd == 2 else pick("forward", "reverse"))
    return Case("DynamicQuantizeLSTM", [x, w, r, bias, lengths, start, None, None, ws, wz, rs, rz], outputs=3, const=(1, 2, 3, 8, 9, 10, 11), **a)


def nbits():
    bits, block = pick(4, 4, 8, 2), pick(16, 32, 64)
    k, n = int(rng.integers(10, 150)), int(rng.integers(1, 20))
    nb = -(-k // block)
    zeros = pick(None, "bytes", "real")
    z = None
    if zeros == "bytes":
        z = whole(0, 256, n, -(-nb * bits // 8), dtype=np.uint8)
    elif zeros == "real":
        z = real(n, nb) + 8
    return Case("MatMulNBits", [real(*shape(2, 0), int(rng.integers(1, 5)), k), whole(0, 256, n, nb, block * bits // 8, dtype=np.uint8), scale(n, nb), z, None, real(n) if flip(0.3) else None],
                const=(1, 2, 3, 5), K=k, N=n, bits=bits, block_size=block, accuracy_level=0)


def bnb4():
    k, n, block = int(rng.integers(10, 80)), int(rng.integers(1, 20)), pick(16, 32, 64)
    return Case("MatMulBnb4", [real(3, k), whole(0, 256, (n * k + 1) // 2, dtype=np.uint8), scale(-(-n * k // block))], const=(1, 2), K=k, N=n, block_size=block, quant_type=pick(0, 1))


def gather_blocks():
    rows, cols, block = 9, pick(64, 96, 48), pick(16, 32)
    nb = -(-cols // block)
    bits = pick(4, 8)
    per = 8 // bits
    z = whole(0, 256, rows, -(-nb // per), dtype=np.uint8) if flip() else None
    return Case("GatherBlockQuantized", [whole(0, 256, rows, cols // per, dtype=np.uint8), whole(0, rows, *shape(2, 1)), scale(rows, nb), z], const=(0, 2, 3), bits=bits, block_size=block,
                gather_axis=0, quantize_axis=1)


def packed(q, bits):
    per = 8 // bits
    q = np.pad(q, [(0, 0)] * (q.ndim - 1) + [(0, -q.shape[-1] % per)]).reshape(*q.shape[:-1], -1, per)
    return sum(q[..., i].astype(np.uint32) << (bits * i) for i in range(per)).astype(np.uint8)


def moe():
    e, h, i, t = int(rng.integers(1, 6)), int(rng.integers(1, 20)), int(rng.integers(1, 20)), int(rng.integers(1, 6))
    act = pick("relu", "gelu", "silu", "identity", "swiglu")
    n = 2 * i if act == "swiglu" else i
    a = dict(swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=pick(None, 0.5)) if act == "swiglu" else {}
    x = real(t, h) if flip() else real(1, t, h)
    return Case("MoE", [x, real(t, e), real(e, n, h), real(e, n) if flip() else None, real(e, h, i), real(e, h) if flip() else None], const=(2, 3, 4, 5),
                k=int(rng.integers(1, e + 1)), activation_type=act, normalize_routing_weights=pick(0, 1), **a)


def q_moe():
    bits, block = pick((2, 0), (2, 16), (4, 0), (4, 16), (4, 32), (8, 0))
    e, t, h, i = int(rng.integers(1, 6)), int(rng.integers(1, 6)), 32 * int(rng.integers(1, 3)), 32 * int(rng.integers(1, 3))
    act = pick("relu", "silu", "swiglu")
    a = dict(swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=pick(None, 7.0)) if act == "swiglu" else {}

    both = flip()  # with zero points of one layer alone ONNX Runtime's results for whole rows of 4 bits are not those of its definition

    def layer(n, k):
        blocks = [k // block] if block else []
        z = packed(whole(0, 2**bits, e, n, *blocks), bits) if both else None
        return packed(whole(0, 2**bits, e, n, k), bits), scale(e, n, *blocks), real(e, n) if flip() else None, z

    first, second = layer(2 * i if act == "swiglu" else i, h), layer(h, i)
    weights = np.abs(real(t, e)) if flip(0.3) else None
    return Case("QMoE", [real(t, h), real(t, e), *first[:3], *second[:3], None, None, None, first[3], second[3], None, weights], const=(2, 3, 4, 5, 6, 7, 11, 12),
                k=int(rng.integers(1, e + 1)), activation_type=act, normalize_routing_weights=pick(0, 1), expert_weight_bits=bits, block_size=block or None, **a)


WORDS = ["the quick brown fox", "a", "", "abc  def,ghi", "über straße", "x,y,,z w", "  lead", "日本 語"]


def tokenizer():
    x = np.array([pick(*WORDS) for _ in range(rng.integers(1, 4))], dtype=object)
    if flip():
        x = np.array([[pick(*WORDS) for _ in range(2)] for _ in range(2)], dtype=object)
    form = pick("chars", "separators", "regex")
    a = dict(separators=[""]) if form == "chars" else dict(separators=pick([" "], [" ", ","], [",", " "], ["[ ,]+"])) if form == "separators" else dict(tokenexp=pick("[a-z]+", "[^ ]+", "a|ab|abc"))
    return Case("Tokenizer", [x], mark=pick(0, 1), mincharnum=pick(1, 2), pad_value="#", **a)


def murmur():
    x = pick(np.array([pick(*WORDS) for _ in range(3)], dtype=object), whole(-5, 5, 3, dtype=np.int32), whole(0, 1 << 40, 3), real(3), real(2, 2).astype(np.float64))
    return Case("MurmurHash3", [x], seed=pick(None, 7), positive=pick(None, 0, 1))


def inverse():
    return Case("Inverse", [real(*shape(1, 0), 4, 4)])


def moves():
    s = shape(3, 2)
    return pick(
        lambda: Case("ExpandDims", [real(*s), np.array(pick(0, 1, -1), np.int32)], const=(1,)),
        lambda: Case("Range", [np.array(1, np.float32), np.array(6.5, np.float32), np.array(1.5, np.float32) if flip() else None]),
        lambda: Case("Trilu", [real(*s), np.array(pick(-1, 0, 1)) if flip() else None], upper=pick(0, 1)),
        lambda: Case("Unique", [whole(0, 4, 9).astype(np.float32)], outputs=3),
        lambda: Case("Pad", [real(*s), whole(0, 3, 2 * len(s)), np.array([1.5], np.float32) if flip() else None], mode="constant", const=(1,)),
        lambda: Case("GridSample", [real(1, 2, 4, 5), real(1, 3, 3, 2)], mode=pick("bilinear", "nearest"), padding_mode=pick("zeros", "border"), align_corners=pick(0, 1)),
        lambda: Case("GatherND", [real(4, 5), whole(0, 4, 3, 1, dtype=np.int32)]),
        lambda: Case("UnfoldTensor", [real(2, 9)], size=3, step=2, dim=1),
        lambda: Case("NGramRepeatBlock", [whole(0, 3, 2, 7), real(2, 5)], ngram_size=2),
        lambda: Case("MatMulInteger16", [whole(-300, 300, 3, 4, dtype=np.int16), whole(-300, 300, 4, 2, dtype=np.int16)]),
        lambda: Case("ScaledSiLU", [real(*s), real(s[-1]) if flip() else None], alpha=2.0),
    )()


def experiments():
    """What ONNX had as experiments, in its operator sets up to 9."""
    n, c, h, w = shape(4, 4)
    x, cut = real(n, c, h + 2, w + 2), [int(v) for v in rng.integers(0, 2, 4)]
    factor = lambda: pick(None, round(float(rng.standard_normal()), 2))
    return pick(
        lambda: Case("Affine", [x], domain="", opset=9, alpha=factor(), beta=factor()),
        lambda: Case("Crop", [x], domain="", opset=9, border=cut, scale=pick(None, [int(rng.integers(1, h + 2)), int(rng.integers(1, w + 2))])),
        lambda: Case("DynamicSlice", [x, whole(-2, 2, 2), whole(1, 4, 2), np.array([2, 3]) if flip() else None], domain="", opset=9),
        lambda: Case("ImageScaler", [x], domain="", opset=9, bias=[round(float(v), 2) for v in real(c)], scale=factor()),
        lambda: Case("MeanVarianceNormalization", [x], domain="", opset=8, across_channels=pick(None, 0, 1), normalize_variance=pick(None, 0, 1)),
        lambda: Case("ParametricSoftplus", [x], domain="", opset=9, alpha=1.5, beta=0.5),
        lambda: Case("Scale", [x], domain="", opset=9, scale=factor()),
        lambda: Case("ScaledTanh", [x], domain="", opset=9, alpha=1.5, beta=0.5),
        lambda: Case("ThresholdedRelu", [x], domain="", opset=9, alpha=factor()),
    )()


def rotary_sections():
    b, s, n, half = pick(1, 2), int(rng.integers(1, 5)), pick(1, 2), pick(3, 6)
    layout = pick(0, 1)
    part = half // 3
    section = [half - 2 * part, part, part] if layout else pick([half - 2, 1, 1], [half, 0, 0], [1, half - 2, 1])
    size = 2 * half + pick(0, 4)
    return Case("MRotaryEmbedding", [real(b, s, n * size) if flip() else real(b, n, s, size), whole(0, 9, 3, b, s), real(9, half), real(9, half)], interleaved=pick(0, 1), num_heads=n,
                rotary_embedding_dim=2 * half, mrope_layout=layout, mrope_section=section)


def linear_attention():
    b, t, d, w = pick(1, 2), int(rng.integers(1, 6)), pick(4, 16), pick(3, 8, 16)
    own = pick(1, 2, 4)
    heads, keys = pick(own, 2 * own, max(own // 2, 1)), pick(own, max(own // 2, 1))
    rule = pick("linear", "gated", "delta", "gated_delta")
    gated, delta = rule.startswith("gated"), rule.endswith("delta")
    k = real(b, t, keys, d)
    k = (k / np.linalg.norm(k, axis=-1, keepdims=True)).reshape(b, t, keys * d)
    return Case("LinearAttention", [real(b, t, heads * d), k, real(b, t, own * w), real(b, own, d, w) if flip() else None,
                -np.abs(real(b, t, own * pick(1, d))) if gated else None, rng.random((b, t, pick(own, 1))).astype(np.float32) if delta else None],
                outputs=2, q_num_heads=heads, kv_num_heads=own, update_rule=rule, scale=pick(None, 0.3))


def causal_conv():
    b, c, n, k, dilation, last = pick(1, 2), int(rng.integers(1, 9)), int(rng.integers(1, 7)), int(rng.integers(1, 5)), pick(1, 1, 2), pick(0, 1)
    state = (k - 1) * dilation
    past = (real(b, state, c) if last else real(b, c, state)) if state and flip() else None
    return Case("CausalConvWithState", [real(b, n, c) if last else real(b, c, n), real(c, 1, k), real(c) if flip() else None, past], outputs=2, const=(1, 2), channels_last=last,
                dilation=dilation, activation=pick(None, "none", "silu", "swish"))


def streams():
    lead, c, h = shape(2), int(rng.integers(1, 5)), int(rng.integers(2, 9))
    flat = flip()
    x = real(*lead, c * h) if flat else real(*lead, c, h)
    n = c if flat else None
    gates = pick([c], [c, 1], [c, h])

    def norm():
        return Case("BranchwiseRMSNorm", [x, pick(None, real(h), real(c, h), real(c * h))], num_branches=n)

    def pre():
        return Case("HyperConnectionPreMix", [x, real(*lead, *gates)], num_branches=n, reduction_scale=pick(None, 0.5))

    def post():
        return Case("HyperConnectionPostMix", [x, real(*lead, h), real(*lead, *gates), real(*lead, c, c) if flip() else None], num_branches=n)

    return pick(norm, pre, post)()


def engram():
    b, s, c, h = pick(1, 2), int(rng.integers(1, 5)), pick(1, 2, 3), int(rng.integers(2, 9))
    both = flip()
    return Case("EngramGate", [real(b, s, c, h), real(b, s, c, h), real(b, s, h), real(c, h), real(c, h), real(c, h) if both else None], outputs=2 if both else 1, epsilon=pick(None, 1e-3))


def attention_gate():
    b, t, h = shape(3, 3)
    both = flip()
    return Case("LinearAttentionGate", [real(b, t, h), real(h), -np.abs(real(h)), real(b, t, h) if both else None], outputs=2 if both else 1)


def sparse():
    b, g, d, size, layouts = pick(1, 2), pick(1, 2), 16, 16, pick(1, 2)
    heads = g * 2
    blocks = 3
    room = blocks * size
    prompt = flip()
    total = int(rng.integers(1, room + 1)) if prompt else int(rng.integers(2, room + 1))
    s = total if prompt else 1
    mask = np.tril(rng.random((layouts, blocks, blocks)) < 0.6)
    mask[:, np.arange(blocks), np.arange(blocks)] = True
    rows = np.concatenate([np.zeros((layouts, 1)), mask.sum(-1).cumsum(-1)], 1).astype(np.int32)
    columns = np.full((layouts, int(mask.sum((1, 2)).max())), -1, np.int32)
    for i in range(layouts):
        at = np.nonzero(mask[i])[1]
        columns[i, :len(at)] = at
    lens = np.full(b, total, np.int32)
    rope = flip()
    packed_ = flip()
    q = real(b, s, (heads + 2 * g) * d) if packed_ else real(b, s, heads * d)
    k, v = (None, None) if packed_ else (real(b, s, g * d), real(b, s, g * d))
    return Case("SparseAttention", [q, k, v, real(b, g, room, d), real(b, g, room, d), rows, columns, np.array([total], np.int32), lens, real(room, d // 2) if rope else None,
                real(room, d // 2) if rope else None], outputs=3, shared=1, num_heads=heads, kv_num_heads=g, sparse_block_size=size, do_rotary=int(rope), scale=pick(None, 0.2))


def decoding():
    def bifurcation():
        n = int(rng.integers(3, 9))
        source, at = whole(0, 4, n), int(rng.integers(0, n))
        predicted = np.concatenate([source[at:], whole(0, 4, 1)])
        predicted[rng.integers(0, len(predicted))] = 9
        return Case("BifurcationDetector", [source, whole(0, 4, int(rng.integers(1, 5))), np.array([at]), predicted if flip() else None], outputs=2, min_ngram_size=pick(1, 2), max_ngram_size=pick(2, 3))

    def warping():
        m, n = int(rng.integers(1, 9)), int(rng.integers(1, 9))
        x = real(m, n) if flip() else real(1, m, n)
        return Case("DynamicTimeWarping", [x if flip() else np.round(x)])

    return pick(bifurcation, warping)()


def crop():
    n = int(rng.integers(1, 4))
    rois = np.sort(rng.random((n, 2, 2)), 1).reshape(n, 4).astype(np.float32) * pick(1, 1.2)
    return Case("CropAndResize", [real(2, 3, int(rng.integers(1, 7)), int(rng.integers(1, 7))), rois, whole(0, 2, n, dtype=np.int32), whole(1, 5, 2, dtype=np.int32)], const=(3,) if flip() else (),
                mode=pick(None, "bilinear", "nearest"), extrapolation_value=pick(None, 2.5))


def word_conv():
    words = whole(1, 9, int(rng.integers(1, 5)), 7, dtype=np.int32)
    for row in words:
        row[rng.integers(1, 8):] = 0
    return Case("WordConvEmbedding", [words, real(4, 1, pick(2, 3), 5), real(4), real(9, 5)], const=(1, 2, 3))


FAMILIES = {f.__name__: f for f in (gelu, bias_gelu, fast_gelu, quick_gelu, fused_matmul, transpose_matmul, fused_gemm, fused_conv, cdist, skip_layer_norm, skip_rms_norm,
            old_layer_norm, rms_norm, embed, q_embed, attention, q_attention, multi_head, decoder_heads, rotary, group_query, q_binary, q_unary, q_softmax, q_pool, nhwc_max_pool,
            q_concat, q_where, q_conv, q_gemm, dynamic_matmul, integer_to_float, q_elements, dynamic_lstm, nbits, bnb4, gather_blocks, moe, q_moe, tokenizer, murmur, inverse, moves,
            rotary_sections, linear_attention, causal_conv, streams, engram, attention_gate, sparse, decoding, crop, word_conv, experiments)}


def write(path, name, value):
    with open(path, "wb") as f:
        f.write(numpy_helper.from_array(np.asarray(value), name).SerializeToString())


def run(session, feeds, shared):
    if not shared:
        return session.run(None, feeds)
    io = session.io_binding()
    copies = {name: x.copy() for name, x in feeds.items()}
    held = {name: ort.OrtValue.ortvalue_from_numpy(x) for name, x in copies.items()}
    for name, v in held.items():
        io.bind_ortvalue_input(name, v)
    io.bind_output("y0")
    io.bind_ortvalue_output("y1", held["x3"])
    io.bind_ortvalue_output("y2", held["x4"])
    session.run_with_iobinding(io)
    return [io.get_outputs()[0].numpy().copy(), held["x3"].numpy().copy(), held["x4"].numpy().copy()]


def main():
    global rng
    folder, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    o = ort.SessionOptions()
    o.log_severity_level = 4
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.intra_op_num_threads = 1
    for name, family in FAMILIES.items():
        if len(sys.argv) > 4 and name not in sys.argv[4].split(","):
            continue
        for i in range(count):
            rng = np.random.default_rng([seed, i, *name.encode()])
            case = family()
            case.symbolic = flip(0.4)
            m = case.model()
            feeds = {f"x{k}": x for k, x in enumerate(case.inputs) if x is not None and k not in case.const}
            try:
                results = run(ort.InferenceSession(m.SerializeToString(), o, providers=["CPUExecutionProvider"]), feeds, case.shared)
            except Exception as e:  # what ONNX Runtime itself turns down is no case
                print("skipped", name, i, str(e).splitlines()[0][:200], file=sys.stderr)
                continue
            at = os.path.join(folder, f"{name}_{i}", "test_data_set_0")
            os.makedirs(at)
            onnx.save(m, os.path.join(folder, f"{name}_{i}", "model.onnx"))
            for k, (x, v) in enumerate(feeds.items()):
                write(os.path.join(at, f"input_{k}.pb"), x, v)
            names = [y for y in case.outputs if y]
            for k, (y, v) in enumerate(zip(names, results)):
                write(os.path.join(at, f"output_{k}.pb"), y, v)


main()
