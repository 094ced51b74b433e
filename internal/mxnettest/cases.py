"""Makes cases of MXNet's operators: what carve computes is compared with what MXNet does.

cases.py OUT SEED reads names of operators from the standard input, one a line. For every one that MXNet has, it writes into the
folder OUT models of that one operator with random legal attributes: CASE-symbol.json, CASE-0000.params, CASE-inputs.npz and
CASE-outputs.npz, where CASE is the operator's name and a number. cases.json says which cases there are, which attempts MXNet
itself failed, which operators got no case, and which names this version of MXNet does not know. Every operator has a process of
its own: some end MXNet's.

It needs mxnet 1.9.1, or 2.0.0b1 for the operators that only MXNet 2 has, with numpy 1.23 and Python 3.11.
"""
import ctypes
import json
import os
import subprocess
import sys
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np  # noqa: E402

warnings.simplefilter("ignore")
import mxnet as mx  # noqa: E402
from mxnet._ctypes.ndarray import _imperative_invoke  # noqa: E402
from mxnet.base import _LIB, SymbolHandle, c_str, c_str_array, check_call, mx_uint  # noqa: E402

VERSION = 20000 if mx.__version__.startswith("2.") else 10901  # as symbols say it
if VERSION >= 20000:
    mx.npx.reset_np()  # NumPy's shapes for its names alone, as in MXNet 1

FLOATS = ("float32", "float16")
rng = None
makers = {}  # operator: functions that yield cases


class Param(object):
    """An operand whose data stand in the file of parameters."""

    def __init__(self, array, aux=False):
        self.array, self.aux = array, aux


def P(array):
    return Param(array)


def real(*shape, lo=-2.0, hi=2.0, dtype="float32"):
    return np.asarray(rng.uniform(lo, hi, size=shape)).astype(dtype)


def whole(*shape, lo=-5, hi=6, dtype="float32"):
    return np.asarray(rng.randint(lo, hi, size=shape)).astype(dtype)


def distinct(*shape, dtype="float32"):
    """Numbers of which no two are near each other, so that their order is certain."""
    n = int(np.prod(shape))
    return ((rng.permutation(n) - n // 2) / 4.0).reshape(shape).astype(dtype)


def dims(rank, lo=1, hi=6):
    return [int(x) for x in rng.randint(lo, hi, size=rank)]


def choice(*list):
    return list[rng.randint(len(list))]


def broadcastable(rank=3):
    a = dims(rank, 2)
    b = [x if rng.rand() < 0.6 else 1 for x in a]
    a = [x if y == 1 or rng.rand() < 0.7 else 1 for x, y in zip(a, b)]
    return a, b


def of(*names):
    """Registers a function of an operator's name that yields tuples (operands, attributes[, options])."""
    def register(f):
        for name in names:
            makers.setdefault(name, []).append(f)
        return f
    return register


def is_np(op):
    return op.startswith("_np")


# ---- functions of one and two numbers

UNARY = {
    "abs": (-3, 3), "exp": (-3, 3), "log": (0.1, 5), "sqrt": (0, 5), "sin": (-4, 4), "cos": (-4, 4), "tan": (-1.2, 1.2),
    "arcsin": (-0.99, 0.99), "arccos": (-0.99, 0.99), "arctan": (-5, 5), "sinh": (-3, 3), "cosh": (-3, 3), "tanh": (-3, 3),
    "arcsinh": (-5, 5), "arccosh": (1.1, 5), "arctanh": (-0.95, 0.95), "ceil": (-5, 5), "floor": (-5, 5), "negative": (-3, 3),
    "reciprocal": (0.3, 4), "relu": (-3, 3), "sigmoid": (-5, 5), "softsign": (-5, 5), "erf": (-3, 3), "sign": (-3, 3),
    "square": (-3, 3), "rsqrt": (0.2, 5), "cbrt": (-5, 5), "rcbrt": (0.2, 5), "degrees": (-4, 4), "radians": (-180, 180),
    "log2": (0.1, 9), "log10": (0.1, 9), "log1p": (-0.9, 5), "expm1": (-3, 3), "rint": (-5, 5), "round": (-5, 5), "fix": (-5, 5),
    "trunc": (-5, 5), "log_sigmoid": (-6, 6), "mish": (-5, 5), "gamma": (0.3, 5), "gammaln": (0.3, 9), "digamma": (0.3, 9),
    "erfinv": (-0.95, 0.95), "identity": (-3, 3), "_copy": (-3, 3), "BlockGrad": (-3, 3), "stop_gradient": (-3, 3),
    "make_loss": (-3, 3), "MakeLoss": (-3, 3), "Dropout": (-3, 3),
    "zeros_like": (-3, 3), "ones_like": (-3, 3), "hard_sigmoid": (-4, 4), "Flatten": (-3, 3), "flatten": (-3, 3),
    "size_array": (-3, 3), "shape_array": (-3, 3), "_npi_rad2deg": (-4, 4), "_npi_deg2rad": (-180, 180), "_npi_absolute": (-3, 3),
    "_np_copy": (-3, 3), "_npx_relu": (-3, 3), "_npx_sigmoid": (-5, 5), "_npi_isnan": (-3, 3), "_npi_isinf": (-3, 3),
    "_npi_isfinite": (-3, 3), "_npi_logical_not": (-1, 2), "logical_not": (-1, 2), "_npx_dropout": (-3, 3), "_npx_shape_array": (-3, 3),
    "_npx_batch_flatten": (-3, 3), "_np_ones_like": (-3, 3), "_np_zeros_like": (-3, 3),
    "_contrib_div_sqrt_dim": (-3, 3), "_npx_nonzero": (-1, 2), "_npi_nonzero": (-1, 2), "_npi_negative": (-3, 3), "_npi_copy": (-3, 3),
    "_npi_fabs": (-3, 3), "_npx_erf": (-3, 3), "_npx_erfinv": (-0.95, 0.95), "_npx_gamma": (0.3, 5), "_npx_gammaln": (0.3, 9),
    "_npx_digamma": (0.3, 9), "_npi_exp2": (-3, 3), "_npi_around": (-5, 5),
}
STEPS = {"rint", "_npi_rint", "round", "_npi_around"}


def unary(op):
    base = op[5:] if op.startswith("_npi_") and op[5:] in UNARY else op
    lo, hi = UNARY.get(op, UNARY.get(base))
    for dtype in FLOATS:
        x = real(*dims(rng.randint(2, 5)), lo=lo, hi=hi, dtype=dtype)
        if base in STEPS:  # halves too, which go different ways
            x = (np.round(x * 2) / 2).astype(dtype) if rng.rand() < 0.7 else x
        if op in ("_npi_isnan", "_npi_isinf", "_npi_isfinite"):
            x.flat[0], x.flat[-1] = choice(np.nan, -np.inf), np.inf
        if "logical" in op or "nonzero" in op:
            x = np.trunc(x)
        yield [x], {}, {"open": 1} if "nonzero" in op else {}
    if base in ("abs", "sign", "negative", "square", "relu", "identity", "_copy", "zeros_like", "ones_like", "Flatten", "_npi_absolute"):
        yield [whole(3, 4, dtype="int32")], {}


of(*UNARY)(unary)
of(*["_npi_" + n for n in UNARY if not n.startswith("_")])(unary)

KINDS = {"add": "a", "plus": "a", "sub": "a", "subtract": "a", "minus": "a", "mul": "a", "multiply": "a", "div": "d",
         "true_divide": "d", "mod": "m", "fmod": "m", "power": "p", "maximum": "a", "minimum": "a", "fmax": "a", "fmin": "a", "hypot": "h",
         "equal": "c", "not_equal": "c", "greater": "c", "greater_equal": "c", "lesser": "c", "lesser_equal": "c", "less": "c",
         "less_equal": "c", "logical_and": "l", "logical_or": "l", "logical_xor": "l", "grad_add": "a", "arctan2": "a", "copysign": "a",
         "ldexp": "p", "floor_divide": "d"}


def operands(kind, a, b, dtype):
    if kind in "cl" or dtype not in FLOATS:
        x, y = whole(*a, lo=-2, hi=3, dtype=dtype), whole(*b, lo=-2, hi=3, dtype=dtype)
        if kind in "dm" or kind == "p":
            y = whole(*b, lo=1, hi=4, dtype=dtype)
            x = whole(*a, lo=-9, hi=10, dtype=dtype)
        return x, y
    if kind == "p":
        return real(*a, lo=0.2, hi=3, dtype=dtype), real(*b, dtype=dtype)
    if kind == "d":
        return real(*a, dtype=dtype), real(*b, lo=0.3, hi=3, dtype=dtype)
    if kind == "m":
        return real(*a, lo=-9, hi=9, dtype=dtype), choice(1, -1) * real(*b, lo=0.7, hi=4, dtype=dtype)
    return real(*a, dtype=dtype), real(*b, dtype=dtype)


def binary(op):
    name = op.lstrip("_")
    for prefix in ("elemwise_", "broadcast_", "npi_"):
        if name.startswith(prefix):
            name = name[len(prefix):]
    kind = KINDS[name.lower()]
    wide = op.startswith("broadcast_") or op.startswith("_npi_")
    types = ("float32", "float16") if kind in "hp" else ("float32", "float16", "int32")
    for dtype in types:
        a, b = broadcastable() if wide else (dims(3),) * 2
        yield list(operands(kind, a, b, dtype)), {}
    if op.startswith("_npi_"):
        x, y = operands(kind, [3, 1], [4], "float32")
        yield [x, y], {}
        if kind in "ad" and "imum" not in op:
            yield [whole(3, 4, lo=1, hi=9, dtype="int64"), real(4, lo=1, hi=2)], {}


of(*[p + n for p in ("elemwise_", "broadcast_", "_npi_", "_") for n in KINDS])(binary)
of(*["_" + n.title() for n in KINDS])(binary)
of("_Power", "_Mod", "_Hypot", "broadcast_plus", "broadcast_minus", "_sub", "_div", "_add", "_mul")(binary)


def scalar(op):
    low = op.lower().replace("scalar", "").strip("_")
    for prefix in ("npi_",):
        if low.startswith(prefix):
            low = low[len(prefix):]
    left = low.startswith("r") and low[1:] in KINDS or low[:1] == "r" and low[1:] in KINDS
    kind = KINDS[low[1:] if left else low]
    for dtype in ("float32", "float16", "int32"):
        s = float(np.round(rng.uniform(0.5, 3), 2))
        if dtype == "int32" or kind in "cl":
            s = float(rng.randint(1, 4))
        x, y = operands(kind, dims(3), [2, 3], dtype)
        if left and kind in "dm":
            x = operands(kind, [1], dims(3), dtype)[1]
        if dtype == "int32" and kind in "hp":
            continue
        yield [x], dict({"scalar": s}, **({"is_int": dtype == "int32"} if op.startswith("_npi_") else {}))
    if op.startswith("_npi_"):
        yield [whole(2, 3, lo=1, hi=5, dtype="int32")], {"scalar": 1.5, "is_int": False}


of(*["_%s_scalar" % n for n in KINDS], *["_r%s_scalar" % n for n in KINDS])(scalar)
of(*["_npi_%s_scalar" % n for n in KINDS], *["_npi_r%s_scalar" % n for n in KINDS])(scalar)
of(*["_%sScalar" % n for n in ("Plus", "Minus", "RMinus", "Mul", "Div", "RDiv", "Mod", "RMod", "Power", "RPower", "Maximum", "Minimum",
                               "Hypot", "Equal", "NotEqual", "Greater", "GreaterEqual", "Lesser", "LesserEqual", "LogicalAnd", "LogicalOr",
                               "LogicalXor")])(
    lambda op: scalar({"_NotEqualScalar": "_not_equal_scalar", "_GreaterEqualScalar": "_greater_equal_scalar",
                       "_LesserEqualScalar": "_lesser_equal_scalar", "_LogicalAndScalar": "_logical_and_scalar",
                       "_LogicalOrScalar": "_logical_or_scalar", "_LogicalXorScalar": "_logical_xor_scalar"}.get(op, op)))
of("_Not_Equal", "_Greater_Equal", "_Lesser_Equal", "_Logical_And", "_Logical_Or", "_Logical_Xor")(lambda op: binary(op.lower()))


@of("IdentityAttachKLSparseReg")
def sparse_reg(op):
    yield [real(3, 4, lo=0.1, hi=0.9), Param(real(4, lo=0.1, hi=0.9), True)], {}


@of("clip", "_npi_clip")
def clip(op):
    for dtype in FLOATS:
        yield [real(3, 4, dtype=dtype)], {"a_min": -0.5, "a_max": round(rng.uniform(0, 1.5), 2)}


@of("smooth_l1")
def smooth(op):
    for dtype in FLOATS:
        yield [real(3, 4, dtype=dtype)], {"scalar": round(rng.uniform(0.5, 3), 2)}


@of("_contrib_quadratic")
def quadratic(op):
    yield [real(3, 4)], {"a": 0.5, "b": -1.25, "c": 2}


@of("add_n", "ElementWiseSum", "_sum", "element_wise_sum")
def add_n(op):
    n = rng.randint(1, 6)
    yield [real(3, 4) for _ in range(n)], {"num_args": n}


@of("Cast", "cast", "amp_cast", "_npi_cast")
def cast(op):
    for to in ("float16", "float64", "float32", "int32", "int8", "uint8", "int64") if op != "amp_cast" else ("float16", "float32"):
        yield [real(3, 4, lo=0, hi=9)], {"dtype": to}
    if op != "amp_cast":
        yield [whole(3, 4, dtype="int32")], {"dtype": "float32"}
        yield [real(3, 4, lo=-9, hi=9)], {"dtype": "int32"}


@of("amp_multicast")
def multicast(op):
    for types in (("float16", "float32"), ("float32", "float32")):  # oneDNN's reads no others
        yield [real(2, 3, dtype=types[0]), real(3, 2, dtype=types[1])], {"num_outputs": 2}, {"outs": 2}


# ---- layers

@of("Activation", "_npx_activation")
def activation(op):
    for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign"):
        for dtype in FLOATS:
            yield [real(2, 3, 4, lo=-4, hi=4, dtype=dtype)], {"act_type": kind}


@of("LeakyReLU", "_npx_leaky_relu")
def leaky(op):
    for kind in ("leaky", "elu", "selu", "gelu", "rrelu"):
        yield [real(2, 3, 4, lo=-4, hi=4)], {"act_type": kind, "slope": round(rng.uniform(0.1, 0.9), 2)}
    yield [real(2, 3, 4), P(real(3, lo=0, hi=1))], {"act_type": "prelu"}
    yield [real(2, 3, 4, 5), P(real(1, lo=0, hi=1))], {"act_type": "prelu"}


@of("FullyConnected", "_npx_fully_connected")
def fully(op):
    for dtype in ("float32", "float32", "float64"):
        for flatten in (True, False):
            shape = dims(rng.randint(2, 5))
            n, hidden = int(np.prod(shape[1:])) if flatten else shape[-1], int(rng.randint(1, 7))
            ops = [real(*shape, dtype=dtype), P(real(hidden, n, dtype=dtype)), P(real(hidden, dtype=dtype))]
            no = bool(rng.rand() < 0.3)
            yield ops[:2] if no else ops, {"num_hidden": hidden, "flatten": flatten, "no_bias": no}


@of("Convolution", "Convolution_v1", "_npx_convolution")
def convolution(op):
    for n in (1, 2, 2, 3) if op != "Convolution_v1" else (2, 2):
        for _ in range(2):
            g = int(choice(1, 1, 2))
            c, f = g * int(rng.randint(1, 4)), g * int(rng.randint(1, 4))
            k = dims(n, 1, 4)
            no = bool(rng.rand() < 0.3)
            ops = [real(2, c, *dims(n, 8, 12)), P(real(f, c // g, *k)), P(real(f))]
            yield ops[:2] if no else ops, {"kernel": tuple(k), "stride": tuple(dims(n, 1, 3)), "dilate": tuple(dims(n, 1, 3)),
                                           "pad": tuple(dims(n, 0, 3)), "num_filter": f, "num_group": g, "no_bias": no}


@of("Deconvolution", "_npx_deconvolution")
def deconvolution(op):
    for n in (1, 2, 2, 2):
        g = int(choice(1, 1, 2))
        c, f = g * int(rng.randint(1, 4)), g * int(rng.randint(1, 4))
        k, stride = dims(n, 2, 5), dims(n, 1, 4)
        adj = [int(rng.randint(0, s)) for s in stride]
        no = bool(rng.rand() < 0.5)
        ops = [real(2, c, *dims(n, 3, 7)), P(real(c, f // g, *k)), P(real(f))]
        yield ops[:2] if no else ops, {"kernel": tuple(k), "stride": tuple(stride), "pad": tuple(dims(n, 0, 2)), "adj": tuple(adj),
                                       "num_filter": f, "num_group": g, "no_bias": no}


@of("BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm", "_npx_batch_norm", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU")
def batch_norm(op):
    for fix in (True, False):
        for axis in (1, -1) if op in ("BatchNorm", "_npx_batch_norm") else (1,):
            x = real(2, 3, 4, 5)
            c = x.shape[axis]
            at = {"eps": round(rng.uniform(1e-5, 1e-2), 6), "fix_gamma": fix, "momentum": 0.9}
            if axis != 1:
                at["axis"] = axis
            if op == "_contrib_SyncBatchNorm":
                at.update(key="bn", ndev=1)
            yield [x, P(real(c, lo=0.5)), P(real(c)), Param(real(c), True), Param(real(c, lo=0.5, hi=2), True)], at


@of("LayerNorm", "_npx_layer_norm")
def layer_norm(op):
    for axis in (-1, 1, 0):
        x = real(3, 4, 5)
        c = x.shape[axis]
        yield [x, P(real(c)), P(real(c))], {"axis": axis, "eps": 1e-4}


@of("GroupNorm", "_npx_group_norm")
def group_norm(op):
    for g in (1, 2, 3):
        n = g if VERSION < 20000 else 6
        yield [real(2, 6, 4, 3), P(real(n)), P(real(n))], {"num_groups": g, "eps": 1e-4}


@of("InstanceNorm", "_npx_instance_norm")
def instance_norm(op):
    for rank in (3, 4):
        yield [real(2, 3, *dims(rank - 2, 4, 7)), P(real(3)), P(real(3))], {"eps": 1e-3}


@of("L2Normalization")
def l2(op):
    for mode in ("instance", "channel", "spatial"):
        yield [real(2, 3, 4, 5)], {"mode": mode, "eps": 1e-6}


@of("LRN")
def lrn(op):
    yield [real(2, 7, 4, 5)], {"nsize": 3, "alpha": 0.01, "beta": 0.6, "knorm": 1.5}
    yield [real(2, 7, 4, 5)], {"nsize": 5}


@of("softmax", "log_softmax", "softmin", "_npx_softmax", "_npx_log_softmax")
def softmax(op):
    for dtype in FLOATS:
        yield [real(3, 4, 5, dtype=dtype)], {"axis": int(rng.randint(-3, 3))}
    yield [real(3, 4)], {"temperature": 1.7}
    yield [real(3, 4, dtype="float16")], {"dtype": "float32"}
    if op in ("softmax", "_npx_softmax"):
        yield [real(3, 4, 5), whole(3, 4, lo=1, hi=6, dtype="int32")], {"axis": -1, "use_length": True}
        yield [real(3, 5, 4), whole(3, 4, lo=1, hi=6, dtype="int32")], {"axis": 1, "use_length": True}


@of("SoftmaxActivation")
def softmax_activation(op):
    yield [real(3, 4, 5)], {"mode": "channel"}
    yield [real(3, 4, 5)], {"mode": "instance"}


@of("SoftmaxOutput", "Softmax")
def softmax_output(op):
    yield [real(3, 4), whole(3, lo=0, hi=4)], {}
    yield [real(3, 4, 5), whole(3, 5, lo=0, hi=4)], {"multi_output": True}
    yield [real(3, 4, 5), whole(3, 4, lo=0, hi=5)], {"preserve_shape": True}


@of("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput", "SVMOutput")
def regression(op):
    yield [real(3, 4), real(3, 4) if op != "SVMOutput" else whole(3, lo=0, hi=4)], {}


@of("Embedding", "_npx_embedding", "_contrib_SparseEmbedding")
def embedding(op):
    for dtype in ("float32", "int32", "int64"):
        yield [whole(2, 3, lo=0, hi=7, dtype=dtype), P(real(7, 5))], {"input_dim": 7, "output_dim": 5}


@of("Pooling", "Pooling_v1", "_npx_pooling")
def pooling(op):
    for kind in ("max", "avg", "sum", "lp"):
        if op == "Pooling_v1" and kind == "lp":
            continue
        for n in (1, 2, 3) if op != "Pooling_v1" else (2,):
            k = dims(n, 2, 4)
            at = {"kernel": tuple(k), "pool_type": kind, "stride": tuple(dims(n, 1, 4)), "pad": tuple(int(rng.randint(0, x // 2 + 1)) for x in k),
                  "pooling_convention": choice("valid", "full")}
            if kind == "lp":
                at["p_value"] = int(choice(1, 2, 3))
            if kind == "avg" and op != "Pooling_v1":
                at["count_include_pad"] = bool(rng.rand() < 0.5)
            if kind == "avg" and at["pooling_convention"] == "full":  # a window without a pixel has a mean by chance
                at["pad"], at["stride"] = (0,) * n, tuple(min(a, b) for a, b in zip(at["stride"], k))
            yield [real(2, 3, *dims(n, 7, 11), lo=0.1 if kind == "lp" else -2)], at
    for kind in ("max", "avg", "sum"):
        yield [real(2, 3, 5, 6)], {"global_pool": True, "pool_type": kind, "kernel": (2, 2)}


@of("_contrib_AdaptiveAvgPooling2D")
def adaptive(op):
    yield [real(2, 3, 7, 9)], {"output_size": 3}
    yield [real(2, 3, 7, 9)], {"output_size": (2, 5)}
    yield [real(2, 3, 7, 9)], {}


# ---- shapes

@of("Reshape", "reshape")
def reshape(op):
    x = real(2, 3, 4, 6)
    for s in ((4, -1), (0, -1), (0, 0, -3), (-2,), (0, -4, 1, -1, -2), (-4, 2, -1, 0, 0, 0), (6, -1, 1), (-3, -3), (0, 0, 0, -4, -1, 2)):
        yield [x], {"shape": s}
    for s in ((-1, 0), (0, -3, 0)):
        yield [x], {"shape": s, "reverse": True}
    yield [real(6, 8)], {"shape": (-1, 2, -4, 0), "reverse": True}


@of("_npx_reshape")
def npx_reshape(op):
    x = real(2, 3, 1, 8)
    for s in ((-2, -2, -3, -1), (-5, -4), (-2, -2, -2, -6, 2, -1), (-4,), (6, -1), (-1,)):
        yield [x], {"newshape": s}
    yield [x], {"newshape": (-1, -2), "reverse": True}


@of("_np_reshape", "_npi_reshape")
def np_reshape(op):
    yield [real(2, 3, 4)], {"newshape": (4, -1)}
    yield [real(2, 3, 4)], {"newshape": (24,)}
    yield [real(1, 1)], {"newshape": ()}


@of("reshape_like")
def reshape_like(op):
    yield [real(2, 6), real(3, 4)], {}
    yield [real(30, 7), real(15, 2, 4)], {"lhs_begin": 0, "lhs_end": 1, "rhs_begin": 0, "rhs_end": 2}


@of("transpose", "_np_transpose", "_npi_transpose")
def transpose(op):
    for dtype in ("float32", "float16", "int32"):
        yield [real(2, 3, 4, dtype=dtype)], {"axes": tuple(int(i) for i in rng.permutation(3))}
    yield [real(2, 3, 4)], {}


@of("SwapAxis", "swapaxes", "_npi_swapaxes")
def swap(op):
    yield [real(2, 3, 4)], {"dim1": 0, "dim2": 2}
    yield [real(2, 3, 4, 5)], {"dim1": 1, "dim2": 2}


@of("expand_dims", "_npi_expand_dims")
def expand(op):
    for axis in (0, 1, -1):
        yield [real(2, 3)], {"axis": axis}


@of("squeeze", "_np_squeeze", "_npi_squeeze")
def squeeze(op):
    yield [real(1, 3, 1, 2)], {}
    yield [real(1, 3, 1, 2)], {"axis": 2}
    yield [real(1, 3, 1, 2)], {"axis": (0, -2)}


@of("Concat", "concat")
def concat(op):
    for dtype in ("float32", "float16", "int32"):
        yield [real(2, n, 3, lo=-9, hi=9, dtype=dtype) for n in (1, 2, 3)], {"dim": 1, "num_args": 3}
    yield [real(2, 3), real(4, 3)], {"dim": 0, "num_args": 2}
    yield [real(2, 3), real(2, 1)], {"dim": -1, "num_args": 2}


@of("_npi_concatenate")
def np_concat(op):
    key = "axis" if VERSION < 20000 else "dim"
    yield [real(2, 3), real(4, 3)], {key: 0, "num_args": 2}
    yield [real(2, 3), real(4, 3)], {key: None, "num_args": 2}
    yield [real(2, 3), real(2, 1)], {key: -1, "num_args": 2}


@of("_rnn_param_concat", "_npi_rnn_param_concat", "_npx_rnn_param_concat")
def param_concat(op):
    yield [P(real(4)), P(real(3))], {"dim": 0, "num_args": 2}


@of("stack", "_npi_stack")
def stack(op):
    for axis in (0, 1, -1):
        yield [real(2, 3) for _ in range(3)], {"axis": axis, "num_args": 3}


@of("_npi_vstack", "_npi_hstack", "_npi_dstack", "_npi_column_stack")
def stacks(op):
    yield [real(2, 3), real(2, 3)], {"num_args": 2}
    yield [real(3), real(3)], {"num_args": 2}


@of("SliceChannel", "split")
def slice_channel(op):
    yield [real(2, 6, 3)], {"num_outputs": 3}, {"outs": 3}
    yield [real(2, 4, 3)], {"num_outputs": 3, "axis": -1, "squeeze_axis": True}, {"outs": 3}


@of("_split_v2", "_npi_split", "_npi_array_split", "_npi_hsplit", "_npi_dsplit")
def split_v2(op):
    if op in ("_split_v2",):
        yield [real(6, 4)], {"indices": (), "axis": 0, "sections": 3}, {"outs": 3}
        yield [real(6, 4)], {"indices": (0, 2, 5), "axis": 0}, {"outs": 3}
        yield [real(3, 4)], {"indices": (0, 1, 2), "axis": 0, "squeeze_axis": True}, {"outs": 3}
    elif op in ("_npi_hsplit", "_npi_dsplit"):
        x = real(3, 4, 6)
        yield [x], {"indices": (0, 1, 3), "axis": 1 if "hs" in op else 2, "sections": 0}, {"outs": 3}
        yield [x], {"indices": (), "axis": 1 if "hs" in op else 2, "sections": 2}, {"outs": 2}
    else:
        yield [real(6, 4)], {"indices": (0, 2), "axis": 0, "sections": 0}, {"outs": 2}
        yield [real(6, 4)], {"indices": (), "axis": 0, "sections": 3}, {"outs": 3}
        if op == "_npi_array_split":
            yield [real(7, 4)], {"indices": (), "axis": 0, "sections": 3}, {"outs": 3}


@of("slice", "crop", "_npi_slice")
def slices(op):
    x = real(5, 6, 7)
    yield [x], {"begin": (1, 0), "end": (4, 5)}
    yield [x], {"begin": (None, 1, -3), "end": (None, 5, None), "step": (2, 2, 1)}
    yield [x], {"begin": (4, None), "end": (0, None), "step": (-1, -2)}


@of("slice_axis")
def slice_axis(op):
    yield [real(5, 6)], {"axis": 1, "begin": 1, "end": 4}
    yield [real(5, 6)], {"axis": -2, "begin": -4, "end": None}


@of("slice_like", "_npx_slice_like")
def slice_like(op):
    yield [real(5, 6), real(3, 4)], {}
    yield [real(5, 6, 7), real(3, 4, 2)], {"axes": (1, -1)}


@of("Crop")
def crop(op):
    yield [real(2, 3, 8, 9)], {"h_w": (4, 5), "offset": (2, 1), "num_args": 1}
    yield [real(2, 3, 8, 9)], {"h_w": (4, 5), "center_crop": True, "num_args": 1}
    yield [real(2, 3, 8, 9), real(1, 2, 5, 4)], {"num_args": 2, "offset": (1, 2)}


@of("Pad", "pad")
def pad(op):
    x = real(2, 3, 5, 6)
    yield [x], {"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0), "constant_value": 1.5}
    yield [x], {"mode": "edge", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0)}
    yield [x], {"mode": "reflect", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0)}


@of("tile", "_npi_tile")
def tile(op):
    yield [real(2, 3)], {"reps": (2, 3)}
    yield [real(2, 3)], {"reps": (2, 1, 2)}
    yield [real(2, 3, 2)], {"reps": (2,)}


@of("repeat", "_npi_repeats")
def repeat(op):
    if op == "repeat":
        yield [real(2, 3)], {"repeats": 2, "axis": 1}
        yield [real(2, 3)], {"repeats": 3}
        yield [real(2, 3, 4)], {"repeats": 2, "axis": -2}
    else:
        yield [real(2, 3)], {"repeats": (2,), "axis": 0}
        yield [real(2, 3)], {"repeats": (3,)}
        yield [real(3, 2)], {"repeats": (1, 2, 3), "axis": 0}


@of("reverse", "flip", "_npi_flip")
def reverse(op):
    yield [real(2, 3, 4)], {"axis": 1}
    yield [real(2, 3, 4)], {"axis": (0, 2)}


@of("broadcast_axis", "broadcast_axes")
def broadcast_axis(op):
    yield [real(1, 3, 1)], {"axis": (0, 2), "size": (2, 4)}


@of("broadcast_to", "_np_broadcast_to", "_npi_broadcast_to")
def broadcast_to(op):
    yield [real(1, 3, 1)], {"shape": (2, 3, 4)}
    if op == "broadcast_to":
        yield [real(1, 3, 1)], {"shape": (2, 0, 4)}
    else:
        yield [real(3, 1)], {"shape": (2, 3, 4)}


@of("broadcast_like", "_npx_broadcast_like")
def broadcast_like(op):
    yield [real(1, 3, 1), real(2, 3, 4)], {}
    yield [real(1, 3), real(5, 7)], {"lhs_axes": (0,), "rhs_axes": (-1,)}


@of("depth_to_space")
def depth_to_space(op):
    yield [real(2, 8, 3, 2)], {"block_size": 2}


@of("space_to_depth")
def space_to_depth(op):
    yield [real(2, 3, 4, 6)], {"block_size": 2}


@of("im2col")
def im2col(op):
    yield [real(2, 3, 7, 8)], {"kernel": (3, 2), "stride": (2, 1), "dilate": (1, 2), "pad": (1, 0)}


@of("col2im")
def col2im(op):
    yield [real(2, 3 * 6, 4 * 4)], {"kernel": (3, 2), "stride": (2, 1), "output_size": (9, 5)}


# ---- elements by numbers

@of("take", "_npi_take")
def take(op):
    for mode in ("clip", "wrap"):
        for axis in (0, 1, -1):
            yield [real(3, 4, 5), whole(2, 3, lo=-6, hi=9, dtype=choice("float32", "int32"))], {"axis": axis, "mode": mode}


@of("pick", "_npx_pick")
def pick(op):
    yield [real(3, 4), whole(3, lo=0, hi=4)], {"axis": 1}
    yield [real(3, 4, 5), whole(3, 5, lo=0, hi=9, dtype="int32")], {"axis": 1, "keepdims": True}
    yield [real(3, 4), whole(4, lo=-4, hi=6)], {"axis": 0, "mode": "wrap"}


@of("batch_take", "choose_element_0index")
def batch_take(op):
    yield [real(3, 4), whole(3, lo=0, hi=4, dtype="int32")], {}


@of("gather_nd", "_npx_gather_nd")
def gather_nd(op):
    yield [real(3, 4, 5), np.stack([whole(6, lo=0, hi=3), whole(6, lo=0, hi=4)])], {}
    yield [real(3, 4, 5), whole(1, 2, 2, lo=0, hi=3, dtype="int32")], {}


@of("scatter_nd", "_npx_scatter_nd")
def scatter_nd(op):
    yield [real(3), np.array([[0, 1, 3], [2, 0, 1]], dtype="float32")], {"shape": (4, 3)}


@of("_scatter_set_nd")
def scatter_set(op):
    yield [real(4, 3), real(3), np.array([[0, 1, 3], [2, 0, 1]], dtype="float32")], {"shape": (4, 3)}, {"inplace": (op, {"shape": (4, 3)})}


@of("_contrib_index_copy", "_npx_index_copy")
def index_copy(op):
    yield [real(5, 3), np.array([3, 0], dtype="int32"), real(2, 3)], {}


@of("one_hot", "_npx_one_hot")
def one_hot(op):
    yield [whole(2, 3, lo=-1, hi=6)], {"depth": 5}
    yield [whole(4, lo=0, hi=5, dtype="int32")], {"depth": 5, "on_value": 2.5, "off_value": -1, "dtype": "float16"}


@of("where", "_npi_where")
def where(op):
    yield [whole(3, 4, lo=0, hi=2), real(3, 4), real(3, 4)], {}
    if op == "where":
        yield [whole(3, lo=0, hi=2), real(3, 4), real(3, 4)], {}
    elif VERSION < 20000:  # 2.0.0b1 broadcasts conditions wrongly, not always in the same way
        yield [whole(3, 1, lo=0, hi=2), real(4), real(3, 4)], {}


@of("_npi_where_lscalar", "_npi_where_rscalar")
def where_scalar(op):
    yield [whole(3, 4, lo=0, hi=2), real(3, 4)], {"scalar": 1.5}


@of("topk", "_npx_topk")
def topk(op):
    for kind in ("indices", "value", "both", "mask"):
        yield [distinct(3, 4, 5)], {"axis": int(rng.randint(-3, 3)), "k": 2, "ret_typ": kind, "is_ascend": bool(rng.rand() < 0.5)}, \
            {"outs": 2 if kind == "both" else 1}
    yield [distinct(3, 4)], {"axis": None, "k": 3}
    yield [distinct(3, 4, dtype="int32")], {"k": 2, "ret_typ": "value"}


@of("argsort", "sort", "_npi_argsort", "_npi_sort")
def sort(op):
    for ascend in (True, False):
        yield [distinct(3, 4, 5)], {"axis": int(rng.randint(-3, 3)), "is_ascend": ascend}
    yield [distinct(3, 4)], {"axis": None}


@of("argmax", "argmin", "_npi_argmax", "_npi_argmin")
def argmax(op):
    yield [distinct(3, 4, 5)], {"axis": int(rng.randint(-3, 3))}
    yield [distinct(3, 4, 5)], {"axis": 1, "keepdims": True}
    yield [distinct(3, 4, 5)], {}
    yield [distinct(5)], {"axis": 0}


@of("argmax_channel")
def argmax_channel(op):
    yield [distinct(3, 4)], {}


@of("SequenceMask", "SequenceLast", "SequenceReverse", "_npx_sequence_mask", "_npx_sequence_last", "_npx_sequence_reverse")
def sequences(op):
    x = real(4, 3, 2)
    yield [x], {}
    yield [x, whole(3, lo=1, hi=5)], {"use_sequence_length": True}
    if "ask" in op:
        yield [x, whole(4, lo=1, hi=4)], {"use_sequence_length": True, "axis": 1, "value": -1.5}
    elif "ast" in op:
        yield [x, whole(4, lo=1, hi=4)], {"use_sequence_length": True, "axis": 1}


@of("_ravel_multi_index", "ravel_multi_index")
def ravel(op):
    yield [np.stack([whole(5, lo=0, hi=3), whole(5, lo=0, hi=4)])], {"shape": (3, 4)}


@of("_unravel_index", "unravel_index")
def unravel(op):
    yield [whole(5, lo=0, hi=12)], {"shape": (3, 4)}


@of("_contrib_boolean_mask", "_npi_boolean_mask")
def boolean_mask(op):
    yield [real(5, 3), np.array([1, 0, 1, 1, 0], dtype="float32")], {}, {"open": 1}


# ---- reductions

@of("sum", "sum_axis", "mean", "prod", "max", "max_axis", "min", "min_axis", "nansum", "nanprod")
def reductions(op):
    x = real(3, 4, 5, lo=0.5)
    if op.startswith("nan"):
        x.flat[::7] = np.nan
    yield [x], {}
    yield [x], {"axis": (0, 2)}
    yield [x], {"axis": 1, "keepdims": True}
    yield [x], {"axis": -1, "exclude": True}
    yield [x.astype("float16")], {"axis": 1}
    if op in ("sum", "max", "min", "prod"):
        yield [whole(3, 4, dtype="int32")], {"axis": 0}


@of("_np_sum", "_np_prod", "_np_max", "_np_min", "_npi_mean", "_npi_std", "_npi_var", "_npi_sum", "_npi_prod", "_npi_max", "_npi_min")
def np_reductions(op):
    x = real(3, 4, 5, lo=0.5)
    yield [x], {}
    yield [x], {"axis": (0, 2)}
    yield [x], {"axis": (1,), "keepdims": True}
    if op in ("_npi_std", "_npi_var"):
        yield [x], {"axis": (1,), "ddof": 1}
    if op in ("_np_sum", "_np_max", "_np_prod"):
        yield [whole(3, 4, dtype="int32")], {"axis": (0,)}


@of("_npi_any", "_npi_all", "_np_any", "_np_all")
def np_truth(op):
    yield [whole(3, 4, lo=0, hi=2)], {"axis": (1,)}
    yield [whole(3, 4, lo=0, hi=2, dtype="int32")], {}


@of("norm")
def norm(op):
    yield [real(3, 4)], {}
    yield [real(3, 4, 5)], {"ord": 1, "axis": 1}
    yield [real(3, 4, 5)], {"ord": 2, "axis": (0, 2), "keepdims": True}


@of("moments")
def moments(op):
    yield [real(3, 4, 5)], {"axes": (0, 2)}, {"outs": 2}
    yield [real(3, 4, 5)], {"axes": (1,), "keepdims": True}, {"outs": 2}


@of("cumsum", "_np_cumsum", "_npi_cumsum")
def cumsum(op):
    yield [real(3, 4)], {"axis": 1}
    yield [real(3, 4)], {}


# ---- creation

@of("_zeros", "_ones", "_npi_zeros", "_npi_ones", "zeros", "ones")
def constants(op):
    for dtype in ("float32", "int32", "float16"):
        yield [], {"shape": (2, 3), "dtype": dtype}


def typed(**named):
    """Numbers as MXNet 2 writes them, in three types of which one counts."""
    kind = int(rng.randint(0, 3))
    if kind < 2:
        named = {k: int(v) for k, v in named.items()}
    out = {"value_type": kind}
    for k, v in named.items():
        for i, t in enumerate(("int", "uint", "double")):
            out[k.replace("*", t)] = v if i == kind else 0
    return out


@of("_full", "_npi_full", "full")
def full(op):
    if op == "_npi_full" and VERSION >= 20000:
        for _ in range(4):
            yield [], dict(typed(**{"*_value": 2.5}), shape=(2, 3), dtype="float32")
        return
    yield [], {"shape": (2, 3), "value": 1.5, "dtype": "float32"}


@of("_npi_full_like", "full_like")
def full_like(op):
    yield [real(2, 3)], {"fill_value": 2.5}
    yield [real(2, 3)], {"fill_value": 2, "dtype": "int32"}


@of("_arange", "_npi_arange")
def arange(op):
    yield [], {"start": 1, "stop": 9, "step": 2}
    yield [], {"start": 0, "stop": 5, "step": 0.5, "dtype": "float64"}
    if op == "_arange":
        yield [], {"start": 0, "stop": 3, "repeat": 2, "dtype": "int32"}


@of("_linspace", "_npi_linspace")
def linspace(op):
    if op == "_npi_linspace" and VERSION >= 20000:
        for _ in range(4):
            yield [], dict(typed(**{"start_*": 1.5, "stop_*": 6.0}), num=int(rng.randint(2, 6)), endpoint=choice(True, False), dtype="float32")
        return
    yield [], {"start": 1, "stop": 2, "num": 7}
    yield [], {"start": 1, "stop": 2, "num": 5, "endpoint": False}


@of("_eye", "_npi_eye")
def eye(op):
    yield [], {"N": 4, "M": 3, "k": -1}
    yield [], {"N": 3}


@of("_npi_identity")
def identity(op):
    yield [], {"shape": (3, 3)}


@of("_contrib_arange_like", "_npx_arange_like")
def arange_like(op):
    yield [real(3, 4)], {"axis": 1, "start": 2, "step": 0.5}
    yield [real(3, 4)], {}
    yield [real(3, 4)], {"repeat": 2}


@of("_contrib_index_array", "_npx_index_array")
def index_array(op):
    yield [real(3, 4)], {}
    yield [real(3, 4, 2)], {"axes": (1, -1)}


@of("_npi_tri", "_npi_indices")
def np_creation(op):
    yield [], {"N": 3, "M": 4, "k": 1} if op == "_npi_tri" else {"dimensions": (2, 3)}


@of("_npi_hanning", "_npi_hamming", "_npi_blackman")
def windows(op):
    yield [], {"M": 7}


@of("_npi_logspace")
def logspace(op):
    yield [], {"start": 0, "stop": 2, "num": 5, "base": 10}


# ---- matrices

@of("dot", "_np_dot", "_npi_dot")
def dot(op):
    for dtype in ("float32", "float64"):
        yield [real(3, 4, dtype=dtype), real(4, 5, dtype=dtype)], {}
    if op == "dot":
        yield [real(4, 3), real(5, 4)], {"transpose_a": True, "transpose_b": True}
        yield [real(4), real(4)], {}
        yield [real(2, 3, 4), real(4, 5, 2)], {}
    else:
        yield [real(4), real(4)], {}
        yield [real(2, 3, 4), real(4)], {}
        yield [real(2, 3, 4), real(5, 4, 2)], {}


@of("batch_dot", "_npx_batch_dot")
def batch_dot(op):
    yield [real(3, 2, 4), real(3, 4, 5)], {}
    yield [real(3, 4, 2), real(3, 5, 4)], {"transpose_a": True, "transpose_b": True}


@of("_npi_matmul", "_np_matmul")
def matmul(op):
    yield [real(3, 2, 4), real(4, 5)], {}
    yield [real(4), real(3, 4, 5)], {}


@of("_npi_tensordot_int_axes")
def tensordot_int(op):
    yield [real(2, 3, 4), real(3, 4, 5)], {"axes": 2}
    yield [real(2, 3), real(4)], {"axes": 0}


@of("_npi_tensordot")
def tensordot(op):
    yield [real(2, 3, 4), real(4, 5, 3)], {"a_axes_summed": (1, 2), "b_axes_summed": (2, 0)}


@of("_npi_einsum")
def einsum(op):
    yield [real(2, 3), real(3, 4)], {"subscripts": "ij,jk->ik", "num_args": 2, "optimize": 0}
    yield [real(2, 3, 4)], {"subscripts": "ijk->kj", "num_args": 1, "optimize": 0}


@of("_linalg_gemm", "linalg_gemm", "_linalg_gemm2", "linalg_gemm2")
def gemm(op):
    three = not op.endswith("2")
    for ta, tb in ((False, False), (True, False), (False, True)):
        a, b = real(2, *((4, 3) if ta else (3, 4))), real(2, *((5, 4) if tb else (4, 5)))
        at = {"transpose_a": ta, "transpose_b": tb, "alpha": 1.5}
        if three:
            at["beta"] = 0.5
        yield [a, b] + ([real(2, 3, 5)] if three else []), at
    a, b = real(3, 2, 4), real(4, 2, 5)
    yield [a, b] + ([real(3, 2, 5)] if three else []), {"axis": 0}


@of("_linalg_syrk", "linalg_syrk")
def syrk(op):
    yield [real(2, 3, 4)], {"alpha": 1.5}
    yield [real(2, 3, 4)], {"transpose": True}


def definite(*shape):
    a = real(*shape, dtype="float64")
    return (np.matmul(a, np.swapaxes(a, -1, -2)) + np.eye(shape[-1]) * 2).astype("float32")


def lower(*shape):
    return np.tril(real(*shape, lo=0.5, hi=2)).astype("float32")


@of("_linalg_potrf", "linalg_potrf", "_npi_cholesky", "_linalg_sumlogdiag", "linalg_sumlogdiag", "_linalg_det", "linalg_det",
    "_npi_det", "_linalg_inverse", "linalg_inverse", "_npi_inv", "_linalg_slogdet", "linalg_slogdet", "_npi_slogdet", "_linalg_potri", "linalg_potri")
def definite_ops(op):
    o = {"outs": 2} if "slogdet" in op else {}
    for shape in ((3, 3), (2, 4, 4)):
        yield [lower(*shape) if "potri" in op else definite(*shape)], {}, o


@of("_linalg_trsm", "linalg_trsm", "_linalg_trmm", "linalg_trmm")
def triangular(op):
    yield [lower(2, 3, 3), real(2, 3, 4)], {}
    yield [lower(2, 3, 3), real(2, 4, 3)], {"rightside": True, "alpha": 1.5}
    yield [lower(2, 3, 3), real(2, 3, 4)], {"transpose": True}
    yield [np.swapaxes(lower(2, 3, 3), 1, 2).copy(), real(2, 3, 4)], {"lower": False}


@of("_linalg_makediag", "linalg_makediag", "_linalg_extractdiag", "linalg_extractdiag", "_linalg_extracttrian", "linalg_extracttrian")
def linalg_parts(op):
    x = real(2, 4) if "makediag" in op else real(2, 4, 4)
    for k in (0, 1, -1):
        yield [x], {"offset": k}


@of("_linalg_maketrian", "linalg_maketrian")
def maketrian(op):
    yield [real(2, 6)], {}
    yield [real(2, 6)], {"lower": False}


@of("_npi_solve")
def solve(op):
    yield [definite(3, 3), real(3, 2)], {}


@of("khatri_rao")
def khatri_rao(op):
    yield [real(3, 4), real(2, 4), real(2, 4)], {"num_args": 3}


@of("diag", "_np_diag")
def diag(op):
    for k in (0, 1, -2):
        yield [real(4, 5)], {"k": k}
        yield [real(3)], {"k": k}
    if op == "diag":
        yield [real(2, 3, 4)], {"axis1": 0, "axis2": 2}


@of("_np_diagonal", "_np_trace", "_npi_diagonal", "_npi_trace")
def diagonal(op):
    yield [real(3, 4)], {"offset": 1}
    yield [real(2, 3, 4)], {"axis1": 0, "axis2": 2}


@of("_np_diagflat", "_npi_diagflat")
def diagflat(op):
    yield [real(2, 2)], {"k": 1}


@of("_npi_tril", "_npi_triu")
def tri(op):
    for k in (0, 1, -1):
        yield [real(3, 4)], {"k": k}


@of("_np_moveaxis", "_npi_moveaxis")
def moveaxis(op):
    yield [real(2, 3, 4)], {"source": (0,), "destination": (2,)}
    yield [real(2, 3, 4)], {"source": (0, 2), "destination": (1, 0)}


@of("_np_roll", "_npi_roll")
def roll(op):
    yield [real(3, 4)], {"shift": (1,), "axis": (1,)}
    yield [real(3, 4)], {"shift": (2,)}


@of("_npi_rollaxis")
def rollaxis(op):
    yield [real(2, 3, 4)], {"axis": 2, "start": 0}


@of("_npi_rot90")
def rot90(op):
    for k in (1, 2, 3):
        yield [real(3, 4)], {"k": k, "axes": (0, 1)}


@of("_npi_atleast_1d", "_np_atleast_1d", "_npi_atleast_2d", "_np_atleast_2d", "_npi_atleast_3d", "_np_atleast_3d")
def atleast(op):
    yield [real(3)], {"num_args": 1}
    yield [real(2, 3)], {"num_args": 1}


@of("_npi_diff")
def diff(op):
    yield [real(3, 5)], {"n": 1, "axis": -1}
    yield [real(3, 5)], {"n": 2, "axis": 1}


@of("_npi_kron", "_npi_cross")
def products(op):
    if op == "_npi_kron":
        yield [real(2, 3), real(3, 2)], {}
        yield [real(2), real(2, 3, 2)], {}
    else:
        for n, m in ((3, 3), (2, 3), (3, 2), (2, 2)):
            yield [real(4, n), real(4, m)], {"axisa": -1, "axisb": -1, "axisc": -1}
        yield [real(3, 4), real(4, 3)], {"axisa": 0, "axisb": 1, "axisc": 0}


@of("_npi_norm")
def np_norm(op):
    yield [real(3, 4)], {"ord": 2, "axis": (1,), "flag": 1}
    yield [real(3, 4)], {"ord": 2, "flag": -2}
    for p in (1, 2, 3):
        yield [real(3, 4)], {"ord": p, "axis": (choice(0, 1),), "flag": -1, "keepdims": choice(True, False)}
    yield [real(3, 4, 2)], {"ord": 2, "axis": (0, 2), "flag": 1}


@of("_npi_pad")
def np_pad(op):
    yield [real(2, 3)], {"pad_width": ((1, 2), (0, 1)), "mode": "constant", "constant_value" if VERSION < 20000 else "constant_values": 1.5}
    for mode in ("edge", "reflect", "symmetric", "maximum", "minimum"):
        yield [real(3, 4)], {"pad_width": ((1, 2), (0, 2)), "mode": mode}


@of("_npi_nan_to_num")
def nan_to_num(op):
    x = real(3, 4)
    x.flat[0], x.flat[1], x.flat[2] = np.nan, np.inf, -np.inf
    yield [x], {"copy": True, "nan": 0.5, "posinf": 9, "neginf": -9}


@of("_npi_polyval")
def polyval(op):
    yield [real(3), real(2, 4)], {}


@of("_slice_assign", "_crop_assign", "_npi_slice_assign", "_slice_assign_scalar", "_crop_assign_scalar", "_npi_slice_assign_scalar")
def slice_assign(op):
    if op.endswith("_scalar"):
        yield [real(4, 5)], {"begin": (1, 0), "end": (3, 4), "step": (1, 2), "scalar": 1.5}
    else:
        yield [real(4, 5), real(2, 2)], {"begin": (1, 0), "end": (3, 4), "step": (1, 2)}
        yield [real(4, 5), real(2, 5)], {"begin": (1,), "end": (3,)}


@of("_npi_boolean_mask_assign_scalar")
def mask_assign(op):
    at = {"value": 1.5, "start_axis": 0}
    yield [real(3, 4), np.array([1, 0, 1], dtype="bool")], at, {"inplace": (op, at)}
    yield [real(3, 4), rng.rand(3, 4) < 0.5], at, {"inplace": (op, at)}


@of("_npi_where_scalar2")
def where_scalar2(op):
    yield [whole(3, 4, lo=0, hi=2)], {"x": 1.5, "y": -2}


@of("_npi_average")
def average(op):
    yield [real(3, 4), real(4, lo=0.1, hi=1)], {"axis": (1,), "weighted": True}, {"outs": 1}
    yield [real(3, 4), real(3, 4, lo=0.1, hi=1)], {"axis": (0,), "weighted": True, "returned": True}, {"outs": 2}
    yield [real(3, 4), real(3, 4, lo=0.1, hi=1)], {"weighted": True}
    yield [real(3, 4)], {"axis": (1,), "weighted": False, "returned": True}, {"outs": 2}


@of("_npi_percentile")
def percentile(op):
    yield [distinct(3, 5)], {"axis": (1,), "q_scalar": 50, "interpolation": "linear"}
    for way in ("linear", "lower", "higher", "midpoint", "nearest"):
        yield [distinct(3, 6)], {"axis": (choice(0, 1),), "q_scalar": float(rng.randint(1, 99)), "interpolation": way, "keepdims": choice(True, False)}
        yield [distinct(3, 6), real(4, lo=0, hi=100)], {"interpolation": way, "keepdims": choice(True, False)}
    yield [distinct(3, 2, 4), real(3, lo=0, hi=100)], {"axis": (0, 2), "keepdims": True}


@of("_npi_bincount")
def bincount(op):
    yield [whole(6, lo=0, hi=4, dtype="int32")], {"has_weights": False, "minlength": 5}, {"open": 1}
    yield [whole(6, lo=0, hi=4, dtype="int32")], {"has_weights": False}, {"open": 1}
    yield [whole(6, lo=0, hi=4, dtype="int32"), real(6)], {"has_weights": True}, {"open": 1}


@of("_histogram", "_npi_histogram")
def histogram(op):
    yield [real(30, lo=0, hi=4)], {"bin_cnt": 5, "range": (0.5, 3.5)}, {"outs": 2}
    yield [real(5, 6), np.array([-1.5, -1, 0.25, 1], dtype="float32")], {}, {"outs": 2}


@of("_npi_unique")
def unique(op):
    yield [whole(3, 4)], {}, {"open": 1}
    yield [whole(12, lo=0, hi=4)], {"return_index": True, "return_inverse": True, "return_counts": True}, {"open": 1, "outs": 4}
    yield [whole(9, lo=0, hi=4)], {"return_counts": True}, {"open": 1, "outs": 2}
    yield [whole(6, 2, lo=0, hi=2)], {"axis": 0, "return_inverse": True}, {"open": 1, "outs": 2}


@of("_npi_delete")
def delete(op):
    yield [real(5, 3)], {"int_ind": int(rng.randint(-5, 5)), "axis": 0}, {"open": 1}
    yield [real(3, 5)], {"int_ind": 2}, {"open": 1}
    yield [real(3, 7)], {"start": 1, "stop": 6, "step": 2, "axis": 1}, {"open": 1}
    yield [real(3, 7)], {"start": -1, "step": -3, "axis": 1}, {"open": 1}
    yield [real(6, 2), np.array([1, 4, 1], dtype="int64")], {"axis": 0}, {"open": 1}


@of("_npi_insert_scalar")
def insert_scalar(op):
    yield [real(3, 4)], {"val": 2.5, "int_ind": 1, "axis": 0}, {"open": 1}
    yield [real(3, 4)], {"val": 2.5, "int_ind": -2, "axis": 1}, {"open": 1}
    yield [real(3, 4)], {"val": 2.5, "int_ind": 5}, {"open": 1}
    yield [real(3, 4), real(4)], {"int_ind": 2, "axis": 0}, {"open": 1}
    yield [real(3, 4), real(3)], {"int_ind": 2, "axis": 1}, {"open": 1}
    yield [real(3, 4), real(2, 4)], {"int_ind": 3, "axis": 0}, {"open": 1}


@of("_npi_insert_slice")
def insert_slice(op):
    yield [real(3, 5, dtype="float64")], {"val": 2.5, "start": 0, "stop": 5, "step": 2, "axis": 1}, {"open": 1}
    yield [real(5, 2), real(2, 2)], {"start": 1, "stop": 3, "step": 1, "axis": 0}, {"open": 1}


@of("_npi_insert_tensor")
def insert_tensor(op):
    yield [real(3, 5, dtype="float64"), np.array([1, 4, 1], dtype="int64")], {"val": 2.5, "axis": 1}, {"open": 1}
    yield [real(5, 2), real(3, 2), np.array([0, 5, 2], dtype="int64")], {"axis": 0}, {"open": 1}


@of("_npx_index_add", "_npx_index_update")
def index_add(op):
    places = np.array([[0, 1, 2], [1, 3, 0]], dtype="int32")
    yield [real(3, 4), places, real(3)], {}
    yield [real(3, 4), places, real(1)], {}
    yield [real(3, 4, 2), places, real(3, 2)], {}
    yield [real(5, 4), np.array([[0, 4, 2]], dtype="int64"), real(3, 4)], {}


@of("_npi_boolean_mask_assign_tensor", "_npi_fill_diagonal")
def assigned(op):
    """These write over their first operand: MXNet runs them so alone."""
    if op == "_npi_fill_diagonal":
        cases = [([real(3, 4)], {"val": (1.5,)}), ([real(7, 3)], {"val": (1.5, 2.5), "wrap": True}), ([real(3, 3, 3)], {"val": (1, 2)})]
    else:
        cases = [([real(3, 2), np.array([1, 0, 1], dtype="bool"), real(2, 2)], {"start_axis": 0}),
                 ([real(2, 2), np.array([[1, 0], [1, 1]], dtype="bool"), real(3)], {"start_axis": 0})]
    for arrays, attributes in cases:
        yield arrays, attributes, {"inplace": (op, attributes)}


@of("_npi_advanced_indexing")
def advanced(op):
    yield [real(4, 3), np.array([2, 0], dtype="int64")], {}, {"open": 1}
    yield [real(4, 3), np.array([1, 0, 1, 1], dtype="bool")], {}, {"open": 1}


@of("_npi_advanced_indexing_multiple")
def advanced_multiple(op):
    yield [real(4, 3), np.array([[2, 0], [1, 1]], dtype="int64")], {}, {"open": 1}


@of("_npi_tril_indices")
def tril_indices(op):
    for k in (-1, 0, 2):
        yield [], {"n": 4, "k": k, "m": 3}, {"outs": 2}


@of("_npi_diag_indices_from")
def diag_indices_from(op):
    yield [real(3, 3)], {}


@of("_npi_tensorinv")
def tensorinv(op):
    yield [real(2, 3, 6) + np.eye(6, dtype="float32").reshape(2, 3, 6) * 5], {"ind": 2}


@of("_npi_tensorsolve")
def tensorsolve(op):
    yield [real(2, 3, 6) + np.eye(6, dtype="float32").reshape(2, 3, 6) * 5, real(2, 3)], {}
    yield [np.moveaxis(real(2, 3, 6) + np.eye(6, dtype="float32").reshape(2, 3, 6) * 5, 2, 0).copy(), real(2, 3)], {"a_axes": (0,)}


@of("_contrib_Proposal", "_contrib_MultiProposal")
def proposal(op):
    for k in range(4):
        n = 1 if op == "_contrib_Proposal" else 2
        scales, ratios = ((2, 4, 8), (0.5, 1, 2)) if k % 2 else ((8,), (1,))
        a, h, w = len(scales) * len(ratios), 7, 9
        info = np.array([[100 + 8 * i, 130, 1.0 + 0.5 * (k % 2)] for i in range(n)], dtype="float32")
        score = np.asarray(rng.permutation(n * 2 * a * h * w), dtype="float32").reshape(n, 2 * a, h, w) / (n * 2 * a * h * w)
        yield [score, real(n, 4 * a, h, w, lo=-0.3, hi=0.3), info], \
            {"feature_stride": 16, "scales": scales, "ratios": ratios, "rpn_pre_nms_top_n": choice(60, 40, 6000), "rpn_post_nms_top_n": choice(20, 50),
             "threshold": choice(0.5, 0.7), "rpn_min_size": choice(4, 16), "output_score": True, "iou_loss": k == 3}, {"outs": 2}


@of("masked_softmax", "_npx_masked_softmax", "masked_log_softmax", "_npx_masked_log_softmax")
def masked_softmax(op):
    mask = rng.rand(2, 3, 4) < 0.6
    mask[..., 0] = True
    yield [real(2, 3, 4), mask], {}
    yield [real(2, 3, 4), mask], {"axis": 1, "temperature": 2.5}
    yield [real(2, 3, 4), np.ascontiguousarray(mask[:, :1])], {"axis": -1}
    yield [real(2, 3, 4, dtype="float16"), mask], {"axis": -1}


@of(*[p + "sldwin_atten_" + n for p in ("_npx_", "_contrib_") for n in ("score", "mask_like", "context")])
def sliding_window(op):
    for symmetric in (True, False):
        w = int(rng.randint(1, 3))
        width = 2 * w + 1 if symmetric else w + 1
        dilation, attributes = np.array([1, 2, 1], dtype="int32"), {"w": w, "symmetric": symmetric}
        if op.endswith("score"):
            yield [real(2, 7, 3, 4), real(2, 7, 3, 4), dilation], attributes
        elif op.endswith("context"):
            yield [real(2, 7, 3, width), real(2, 7, 3, 4), dilation], attributes
        else:
            yield [real(2, 7, 3, width), dilation, np.array([7, 4], dtype="int32")], attributes


@of("_npi_floor_divide")
def floor_divide(op):
    for dtype in ("float32", "int32", "int64"):
        yield [whole(3, 4, lo=-9, hi=10, dtype=dtype), whole(4, lo=-4, hi=0, dtype=dtype)], {}


@of(*["_npi_bitwise_%s_shift" % d for d in ("left", "right")])
def shifts(op):
    for dtype in ("int32", "int8", "uint8", "int64"):
        yield [whole(3, 4, lo=0 if dtype == "uint8" else -20, hi=21, dtype=dtype), whole(4, lo=0, hi=3, dtype=dtype)], {}


@of(*["_npi_%sbitwise_%s_shift_scalar" % (r, d) for d in ("left", "right") for r in ("", "r")])
def shift_scalars(op):
    yield [whole(3, 4, lo=0 if "_r" in op[4:7] else -20, hi=6, dtype="int32")], {"scalar": 2, "is_int": True}


@of("_npi_logaddexp")
def logaddexp(op):
    for dtype in FLOATS:
        yield [real(3, 1, lo=-20, hi=20, dtype=dtype), real(4, lo=-20, hi=20, dtype=dtype)], {}


@of("_npi_logaddexp_scalar")
def logaddexp_scalar(op):
    yield [real(3, 4)], {"scalar": 0.5, "is_int": False}


@of("_npi_fmax_scalar", "_npi_fmin_scalar", "_npi_fmod_scalar", "_npi_rfmod_scalar", "_npi_floor_divide_scalar", "_npi_rfloor_divide_scalar")
def more_scalars(op):
    yield [real(3, 4, lo=0.5, hi=4)], {"scalar": 1.5, "is_int": False}
    yield [whole(3, 4, lo=1, hi=9, dtype="int32")], {"scalar": 3, "is_int": True}


@of("_sg_onednn_selfatt_qk")
def fused_scores_batch_first(op):
    yield [real(2, 5, 3 * 2 * 4)], {"heads": 2}


@of("_sg_onednn_selfatt_valatt")
def fused_values_batch_first(op):
    yield [real(2, 2, 5, 5), real(2, 5, 3 * 2 * 4)], {"heads": 2}


@of("_sg_onednn_batch_dot")
def fused_batch_dot(op):
    yield [real(2, 3, 4), real(2, 4, 5)], {}


@of("_contrib_gradientmultiplier")
def gradient_multiplier(op):
    yield [real(3, 4)], {"scalar": 2}


@of("_scatter_elemwise_div", "_scatter_plus_scalar", "_scatter_minus_scalar")
def scatter(op):
    if op.endswith("scalar"):
        yield [real(3, 4)], {"scalar": 1.5}
    else:
        yield [real(3, 4), real(3, 4, lo=0.5)], {}


@of("_npi_bitwise_and", "_npi_bitwise_or", "_npi_bitwise_xor", "_npi_lcm", "_npi_gcd")
def bits(op):
    yield [whole(3, 4, lo=1, hi=30, dtype="int32"), whole(4, lo=1, hi=30, dtype="int32")], {}


@of("_npi_bitwise_not", "_npi_invert")
def bit_not(op):
    yield [whole(3, 4, lo=-9, hi=30, dtype="int32")], {}


@of("_npi_bitwise_and_scalar", "_npi_bitwise_or_scalar", "_npi_bitwise_xor_scalar", "_npi_lcm_scalar", "_npi_gcd_scalar")
def bits_scalar(op):
    yield [whole(3, 4, lo=1, hi=30, dtype="int32")], {"scalar": 6, "is_int": True}


@of("_npi_ediff1d")
def ediff1d(op):
    yield [real(5)], {}
    yield [real(2, 3)], {"to_begin_scalar": 1.5, "to_end_scalar": 2.5}
    yield [real(2, 3), real(2), real(3)], {"to_begin_arr_given": True, "to_end_arr_given": True}


@of("_npi_interp")
def interp(op):
    points = np.array([-1, 0, 0.5, 2], dtype="float64")
    yield [points, real(4, dtype="float64"), real(3, 5, lo=-2, hi=3, dtype="float64")], {}
    yield [points, real(4, dtype="float64"), real(7, lo=-2, hi=3, dtype="float64")], {"left": 1.5, "right": -2.5}
    yield [points, real(4, dtype="float64")], {"x_is_scalar": True, "x_scalar": 0.75}


@of("_contrib_interleaved_matmul_selfatt_qk")
def selfatt_qk(op):
    yield [real(5, 2, 3 * 2 * 4)], {"heads": 2}


@of("_contrib_interleaved_matmul_selfatt_valatt")
def selfatt_valatt(op):
    yield [real(5, 2, 3 * 2 * 4), real(4, 5, 5)], {"heads": 2}


@of("_contrib_interleaved_matmul_encdec_qk")
def encdec_qk(op):
    yield [real(5, 2, 2 * 4), real(6, 2, 2 * 2 * 4)], {"heads": 2}


@of("_contrib_interleaved_matmul_encdec_valatt")
def encdec_valatt(op):
    yield [real(6, 2, 2 * 2 * 4), real(4, 5, 6)], {"heads": 2}


# ---- images and boxes

def rois(n, h, w, images):
    out = []
    for _ in range(n):
        x, y = rng.uniform(0, w - 3), rng.uniform(0, h - 3)
        out.append([rng.randint(images), x, y, x + rng.uniform(1, w - x), y + rng.uniform(1, h - y)])
    return np.array(out, dtype="float32")


@of("ROIPooling")
def roi_pooling(op):
    r = rois(4, 16, 16, 2)
    yield [real(2, 3, 16, 16), r], {"pooled_size": (3, 2), "spatial_scale": 1.0}
    yield [real(2, 3, 8, 8), r], {"pooled_size": (2, 2), "spatial_scale": 0.5}


@of("_contrib_ROIAlign")
def roi_align(op):
    for aligned in (False, True):
        yield [real(2, 3, 16, 16), rois(4, 16, 16, 2)], {"pooled_size": (3, 2), "spatial_scale": 0.5, "sample_ratio": 2, "aligned": aligned}
    yield [real(2, 12, 16, 16), rois(4, 16, 16, 2)], {"pooled_size": (2, 2), "spatial_scale": 0.5, "sample_ratio": 2, "position_sensitive": True}
    yield [real(2, 3, 16, 16), rois(4, 16, 16, 2)], {"pooled_size": (3, 2), "spatial_scale": 0.5}


@of("_contrib_PSROIPooling")
def psroi(op):
    r = rois(6, 16, 16, 2)
    r[0, 3:] = r[0, 1:3] - 4  # a region without extent, and one that leaves the image
    r[1, 1:] = (9, -7, 40, 5)
    yield [real(2, 2 * 9, 16, 16), r], {"spatial_scale": 0.5, "output_dim": 2, "pooled_size": 3}
    yield [real(2, 3 * 4, 9, 11), r], {"spatial_scale": 0.37, "output_dim": 3, "pooled_size": 5, "group_size": 2}
    yield [real(2, 5, 16, 16), r], {"spatial_scale": 1.0, "output_dim": 5, "pooled_size": 2, "group_size": 1}


@of("_contrib_DeformablePSROIPooling")
def deformable_psroi(op):
    r = rois(6, 16, 16, 2)
    r[0, 3:] = r[0, 1:3] - 4
    r[1, 1:] = (9, -7, 40, 5)
    yield [real(2, 2 * 9, 16, 16), r], {"spatial_scale": 0.5, "output_dim": 2, "pooled_size": 3, "group_size": 3, "no_trans": True, "sample_per_part": 2}
    yield [real(2, 2 * 9, 16, 16), r, real(6, 2, 3, 3)], {"spatial_scale": 0.5, "output_dim": 2, "pooled_size": 3, "group_size": 3, "part_size": 3,
                                                          "sample_per_part": 3, "trans_std": 0.1}
    yield [real(2, 6 * 4, 9, 11), r, real(6, 6, 2, 2)], {"spatial_scale": 0.37, "output_dim": 6, "pooled_size": 5, "group_size": 2, "part_size": 2,
                                                         "sample_per_part": 4, "trans_std": 0.3}
    yield [real(2, 4, 16, 16), r, real(6, 4, 4, 4)], {"spatial_scale": 1.0, "output_dim": 4, "pooled_size": 4, "group_size": 1, "trans_std": 0.2}


@of("_contrib_RROIAlign")
def rotated_align(op):
    r = np.concatenate([real(6, 1, lo=0, hi=2).astype(int), real(6, 2, lo=-2, hi=18), real(6, 2, lo=0.2, hi=14), real(6, 1, lo=-180, hi=180)], 1).astype("float32")
    for ratio in (2, 3, -1):
        yield [real(2, 3, 16, 16), r], {"spatial_scale": 0.5, "pooled_size": (2, 3), "sampling_ratio": ratio}
    yield [real(2, 4, 9, 11), r], {"spatial_scale": 0.7, "pooled_size": (4, 1)}


@of("GridGenerator")
def grid(op):
    yield [real(2, 6)], {"transform_type": "affine", "target_shape": (4, 5)}
    yield [real(2, 2, 4, 5)], {"transform_type": "warp"}


@of("BilinearSampler")
def sampler(op):
    yield [real(2, 3, 6, 7), real(2, 2, 4, 5, lo=-1.2, hi=1.2)], {}


@of("SpatialTransformer")
def transformer(op):
    yield [real(2, 3, 6, 7), real(2, 6, lo=-0.8, hi=0.8)], {"target_shape": (4, 5), "transform_type": "affine", "sampler_type": "bilinear"}


@of("UpSampling")
def upsampling(op):
    yield [real(2, 3, 4, 5)], {"scale": 2, "sample_type": "nearest", "num_args": 1}
    yield [real(2, 3, 4, 6), real(2, 2, 2, 3)], {"scale": 2, "sample_type": "nearest", "num_args": 2}
    yield [real(2, 3, 4, 6), real(2, 3, 2, 3)], {"scale": 2, "sample_type": "nearest", "num_args": 2, "multi_input_mode": "sum"}
    yield [real(2, 3, 4, 5), P(real(3, 1, 4, 4))], {"scale": 2, "sample_type": "bilinear", "num_filter": 3, "num_args": 2}


@of("_contrib_BilinearResize2D")
def resize(op):
    x = real(2, 3, 5, 7)
    yield [x], {"height": 9, "width": 4}
    yield [x], {"height": 9, "width": 4, "align_corners": False}
    yield [x], {"scale_height": 2.0, "scale_width": 1.5, "mode": "odd_scale"}
    yield [x], {"scale_height": 2.0, "scale_width": 1.5}
    for mode in ("to_even_down", "to_even_up", "to_odd_down", "to_odd_up"):
        yield [x], {"mode": mode}
    yield [x, real(1, 1, 8, 6)], {"mode": "like"}


@of("Correlation")
def correlation(op):
    for mul in (True, False):
        yield [real(2, 3, 8, 8), real(2, 3, 8, 8)], {"kernel_size": 3, "max_displacement": 2, "stride1": 1, "stride2": 1, "pad_size": 2, "is_multiply": mul}


@of("_contrib_DeformableConvolution", "_npx_deformable_convolution", "_contrib_ModulatedDeformableConvolution", "_npx_modulated_deformable_convolution")
def deformable(op):
    mask = "odulated" in op
    for g in (1, 2):
        ops = [real(2, 4, 7, 7), real(2, 2 * 9 * g, 7, 7)] + ([real(2, 9 * g, 7, 7, lo=0, hi=1)] if mask else []) + [P(real(4, 4, 3, 3)), P(real(4))]
        yield ops, {"kernel": (3, 3), "pad": (1, 1), "num_filter": 4, "num_deformable_group": g}


@of("_contrib_MultiBoxPrior", "MultiBoxPrior")
def prior(op):
    yield [real(1, 3, 4, 5)], {"sizes": (0.5, 0.25), "ratios": (1, 2, 0.5)}
    yield [real(1, 3, 4, 4)], {"sizes": (0.7,), "ratios": (1,), "clip": True, "steps": (0.2, 0.3), "offsets": (0.4, 0.6)}


def boxes(*lead):
    c, s = real(*lead, 2, lo=0.2, hi=0.8), real(*lead, 2, lo=0.05, hi=0.3)
    return np.concatenate([c - s, c + s], axis=-1).astype("float32")


@of("_contrib_MultiBoxDetection", "MultiBoxDetection")
def detection(op):
    p = real(2, 4, 10, lo=0, hi=3)
    p = (np.exp(p) / np.exp(p).sum(1, keepdims=True)).astype("float32")
    yield [p, real(2, 40, lo=-1, hi=1), boxes(1, 10)], {"threshold": 0.2}
    yield [p, real(2, 40, lo=-1, hi=1), boxes(1, 10)], {"threshold": 0.2, "nms_threshold": 0.3, "force_suppress": True, "nms_topk": 5, "clip": False}


@of("_contrib_box_nms", "_contrib_box_non_maximum_suppression", "box_nms")
def box_nms(op):
    x = np.concatenate([whole(2, 12, 1, lo=0, hi=3), rng.permutation(24).reshape(2, 12, 1) / 24.0, boxes(2, 12)], -1).astype("float32")
    yield [x], {"overlap_thresh": 0.4, "valid_thresh": 0.1, "id_index": 0}
    yield [x], {"overlap_thresh": 0.3, "topk": 6, "force_suppress": True}
    yield [x], {"overlap_thresh": 0.4, "id_index": 0, "background_id": 0, "out_format": "center"}
    yield [x], {"overlap_thresh": 0.4, "id_index": 0, "in_format": "center"}


@of("_contrib_box_iou", "box_iou")
def box_iou(op):
    yield [boxes(4), boxes(3)], {"format": "corner"}
    yield [real(4, 4, lo=0.1, hi=1), real(2, 3, 4, lo=0.1, hi=1)], {"format": "center"}


@of("_contrib_box_decode")
def box_decode(op):
    yield [real(2, 5, 4, lo=-1, hi=1), boxes(1, 5)], {"std0": 0.1, "std1": 0.1, "std2": 0.2, "std3": 0.2, "format": "corner"}
    yield [real(2, 5, 4, lo=-1, hi=1), boxes(1, 5)], {"clip": 0.5, "format": "center"}


@of("_contrib_Proposal", "Proposal", "_contrib_MultiProposal")
def proposal(op):
    p = rng.permutation(2 * 3 * 4 * 4).reshape(1, 6, 4, 4) / 100.0
    yield [p.astype("float32"), real(1, 12, 4, 4, lo=-0.2, hi=0.2), np.array([[64, 64, 1]], dtype="float32")], \
        {"feature_stride": 16, "scales": (2, 4, 8), "ratios": (1,), "rpn_pre_nms_top_n": 30, "rpn_post_nms_top_n": 8, "rpn_min_size": 4}


@of("_image_to_tensor", "_npx__image_to_tensor")
def image_to_tensor(op):
    yield [whole(5, 6, 3, lo=0, hi=256, dtype="uint8")], {}
    yield [whole(2, 5, 6, 3, lo=0, hi=256, dtype="uint8")], {}


@of("_image_normalize", "_npx__image_normalize")
def image_normalize(op):
    yield [real(3, 5, 6, lo=0, hi=1)], {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.25, 0.3)}
    yield [real(2, 3, 5, 6, lo=0, hi=1)], {"mean": 0.4, "std": 0.5}


@of("_image_resize", "_npx__image_resize")
def image_resize(op):
    yield [real(5, 6, 3, lo=0, hi=1)], {"size": (4, 3)}


@of("_image_crop", "_npx__image_crop")
def image_crop(op):
    yield [real(5, 6, 3)], {"x": 1, "y": 2, "width": 3, "height": 2}


@of("_image_flip_left_right", "_image_flip_top_bottom", "_npx__image_flip_left_right", "_npx__image_flip_top_bottom")
def image_flip(op):
    yield [real(6, 4, 3)], {}  # of an odd number MXNet leaves the middle row as memory was


# ---- recurrent layers

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


@of("RNN", "_npx_rnn")
def rnn(op):
    for mode in GATES:
        for layers, both in ((1, False), (2, True)):
            t, n, i, h, d = 4, 2, 3, 5, 2 if both else 1
            size = 0
            for layer in range(layers):
                size += d * GATES[mode] * h * ((i if layer == 0 else h * d) + h + 2)
            ops = [real(t, n, i), P(real(size, lo=-0.5, hi=0.5)), real(layers * d, n, h)] + ([real(layers * d, n, h)] if mode == "lstm" else [])
            outs = 1 + (2 if mode == "lstm" else 1)
            yield ops, {"mode": mode, "state_size": h, "num_layers": layers, "bidirectional": both, "state_outputs": True}, {"outs": outs}


# ---- what is made of several operators

def var(name):
    return mx.sym.var(name)


def whole_symbol(kind):
    """Registers a function that yields (symbol, inputs, params[, options]); op is the name to be found in the symbol."""
    def register(f):
        f.symbols = True
        return of(*kind)(f)
    return register


@whole_symbol(("_foreach", "_npx_foreach"))
def foreach(op):
    x, s, w = var("x"), var("s"), var("w")
    out, last = mx.sym.contrib.foreach(lambda d, st: (mx.sym.tanh(d + st * w), d - st), x, s)
    yield mx.sym.Group([out, last]), {"x": real(4, 2, 3), "s": real(2, 3), "w": real(2, 3)}, {}


@whole_symbol(("_while_loop", "_npx_while_loop"))
def while_loop(op):
    i, s = var("i"), var("s")
    out, last = mx.sym.contrib.while_loop(lambda i, s: i < 4, lambda i, s: ([s * 2], [i + 1, mx.sym.broadcast_add(s, i)]), [i, s], max_iterations=4)
    yield mx.sym.Group(list(out) + list(last)), {"i": np.array([0], dtype="float32"), "s": real(3)}, {}


@whole_symbol(("_cond", "_npx_cond"))
def cond(op):
    x, y = var("x"), var("y")
    out = mx.sym.contrib.cond(mx.sym.sum(x) > mx.sym.sum(y), lambda: mx.sym.exp(x) - y, lambda: x * y)
    for _ in range(2):
        yield out, {"x": real(3, 4), "y": real(3, 4)}, {}


@whole_symbol(("_CachedOp",))
def cached(op):
    x, w = var("x"), var("w")
    net = mx.sym.FullyConnected(mx.sym.exp(x), w, num_hidden=4, no_bias=True, name="fc")
    net = mx.sym.tanh(net) + 1
    out = SymbolHandle()
    names = ["exp", "FullyConnected", "tanh"]
    check_call(_LIB.MXBuildSubgraphByOpNames(net.handle, c_str("default"), mx_uint(len(names)), c_str_array(names), ctypes.byref(out)))
    yield mx.sym.Symbol(out), {"x": real(2, 3)}, {"w": real(4, 3)}


@whole_symbol(("_sg_mkldnn_conv",))
def sg_conv(op):
    for act in (None, "relu", "sigmoid", "tanh", "clip", "leaky", "gelu"):
        for norm in (False, True):
            for add in (False, True):
                x = var("data")
                y = mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=4, name="c")
                params = {"c_weight": real(4, 4, 3, 3), "c_bias": real(4)}
                if norm:
                    y = mx.sym.BatchNorm(y, fix_gamma=bool(rng.rand() < 0.5), name="b")
                    params.update(b_gamma=real(4, lo=0.5), b_beta=real(4), b_moving_mean=real(4), b_moving_var=real(4, lo=0.5))
                if add:
                    y = y + mx.sym.sin(x)
                if act == "clip":
                    y = mx.sym.clip(y, 0, 1)
                elif act in ("leaky", "gelu"):
                    y = mx.sym.LeakyReLU(y, act_type=act)
                elif act:
                    y = mx.sym.Activation(y, act_type=act)
                yield y.optimize_for("MKLDNN"), {"data": real(2, 4, 6, 7)}, params


@whole_symbol(("_sg_mkldnn_selfatt_qk",))
def sg_scores(op):
    y = mx.sym.contrib.interleaved_matmul_selfatt_qk(var("data"), heads=2)
    yield y.optimize_for("MKLDNN"), {"data": real(5, 3, 24)}, {}


@whole_symbol(("_sg_mkldnn_selfatt_valatt",))
def sg_values(op):
    y = mx.sym.contrib.interleaved_matmul_selfatt_valatt(var("data"), var("weights"), heads=2)
    yield y.optimize_for("MKLDNN"), {"data": real(5, 3, 24), "weights": real(6, 5, 5)}, {}


@whole_symbol(("_sg_mkldnn_fully_connected",))
def sg_fc(op):
    for act in (None, "relu", "sigmoid", "softrelu", "tanh", "square", "abs", "exp"):
        y = mx.sym.FullyConnected(var("data"), num_hidden=5, name="f", no_bias=bool(rng.rand() < 0.3))
        params = {"f_weight": real(5, 6), "f_bias": real(5)}
        if act in ("square", "abs", "exp"):
            y = getattr(mx.sym, act)(y)
        elif act:
            y = mx.sym.Activation(y, act_type=act)
        yield y.optimize_for("MKLDNN"), {"data": real(3, 6)}, params


def eight(*shape):
    return rng.randint(-127, 128, size=shape).astype("int8")


def quantized(x, lo, hi, kind="int8"):
    return mx.sym.contrib.quantize_v2(x, min_calib_range=lo, max_calib_range=hi, out_type=kind)


def grid(*shape, lo=-60, step=2 / 127.0):
    """Numbers that are the same integers by every way of rounding."""
    return (rng.randint(lo, 61, size=shape) * step).astype("float32")


def ranges(**named):
    return {k: np.array([v], dtype="float32") for k, v in named.items()}


@whole_symbol(("_contrib_quantize_v2", "_contrib_dequantize"))
def quantize_v2(op):
    for kind, lo in (("int8", -2.0), ("uint8", 0.0), ("auto", -2.0), ("auto", 0.0)):
        q = quantized(var("data"), lo, 2.5, kind)
        yield mx.sym.contrib.dequantize(q[0], q[1], q[2]), {"data": real(3, 4, lo=lo)}, {}, {"step": 2.5 / 127}


@whole_symbol(("_contrib_quantize",))
def quantize_v1(op):
    for kind, lo in (("int8", -2.0), ("uint8", 0.0)):
        q = mx.sym.contrib.quantize(var("data"), var("lo"), var("hi"), out_type=kind)
        yield mx.sym.contrib.dequantize(q[0], q[1], q[2]), {"data": real(3, 4, lo=lo)}, ranges(lo=lo, hi=2.5), {"step": 2.5 / 127}


def requantized(q, lo, hi, kind=None):
    r = mx.sym.contrib.requantize(q[0], q[1], q[2], min_calib_range=lo, max_calib_range=hi, **({"out_type": kind} if kind else {}))
    return mx.sym.contrib.dequantize(r[0], r[1], r[2])


@whole_symbol(("_contrib_quantized_conv", "_contrib_requantize"))
def quantized_conv(op):
    """MXNet 1.9.1, with oneDNN, says a range of the sums as if data were signed, 255/127 times the right one, and adds the integers of
    a bias to the sums without bringing them to their level. What is compared is no bias, and the right range."""
    for lo, hi in ((-20.0, 20.0), (0.0, 12.0)):
        q = quantized(var("data"), 0.0, 2.0, "uint8")
        y = mx.sym.contrib.quantized_conv(data=q[0], weight=var("w"), min_data=q[1], max_data=q[2], min_weight=var("wl"), max_weight=var("wh"),
                                          kernel=(3, 3), pad=(1, 1), num_filter=4, no_bias=True, layout="NCHW")
        right = requantized([y[0], y[1] * (127 / 255.0), y[2] * (127 / 255.0)], lo, hi)
        params = dict({"w": eight(4, 4, 3, 3)}, **ranges(wl=-1.0, wh=1.0))
        yield requantized(y, lo, hi), {"data": grid(2, 4, 6, 6, lo=0, step=2 / 255.0)}, params, {"step": hi / 127, "instead": right}


@whole_symbol(("_contrib_quantized_fully_connected",))
def quantized_fc(op):
    for kind, lo in (("int8", -2.0), ("uint8", 0.0)):
        for bias in (False, True):
            q = quantized(var("data"), lo, 2.0, kind)
            at = dict(num_hidden=5, no_bias=not bias)
            params = dict({"w": eight(5, 8)}, **ranges(wl=-1.0, wh=1.0))
            if bias:
                params.update(b=eight(5), **ranges(bl=-1.5, bh=1.5))
                y = mx.sym.contrib.quantized_fully_connected(q[0], var("w"), var("b"), q[1], q[2], var("wl"), var("wh"), var("bl"), var("bh"), **at)
            else:
                y = mx.sym.contrib.quantized_fully_connected(data=q[0], weight=var("w"), min_data=q[1], max_data=q[2], min_weight=var("wl"),
                                                            max_weight=var("wh"), **at)
            data = grid(3, 8) if lo < 0 else grid(3, 8, lo=0, step=2 / 255.0)
            yield requantized(y, -8.0, 8.0), {"data": data}, params, {"step": 8.0 / 127}


@whole_symbol(("_contrib_quantized_pooling", "_contrib_quantized_flatten", "_contrib_quantized_act"))
def quantized_others(op):
    q = quantized(var("data"), -2.0, 2.0)
    for kind in ("max", "avg") if op.endswith("pooling") else ("",):
        if op.endswith("pooling"):
            y = mx.sym.contrib.quantized_pooling(q[0], q[1], q[2], kernel=(2, 2), stride=(2, 2), pool_type=kind)
        elif op.endswith("flatten"):
            y = mx.sym.contrib.quantized_flatten(q[0], q[1], q[2])
        else:
            y = mx.sym.contrib.quantized_act(q[0], q[1], q[2], act_type="relu")
        yield mx.sym.contrib.dequantize(y[0], y[1], y[2]), {"data": grid(2, 3, 6, 6)}, {}, {"step": 2.0 / 127}


@whole_symbol(("_contrib_quantized_elemwise_add", "_contrib_quantized_elemwise_mul", "_contrib_quantized_concat"))
def quantized_binary(op):
    a, b = quantized(var("x"), -2.0, 2.0), quantized(var("y"), -1.0, 3.0)
    inputs = {"x": grid(2, 3, 4, 4), "y": grid(2, 3, 4, 4, step=3 / 127.0)}
    if op.endswith("add"):
        y = mx.sym.contrib.quantized_elemwise_add(a[0], b[0], a[1], a[2], b[1], b[2], min_calib_range=-4.0, max_calib_range=4.0)
        yield mx.sym.contrib.dequantize(y[0], y[1], y[2]), inputs, {}, {"step": 5.0 / 127}
        for lo, kind in ((0.0, "uint8"), (-1.0, "int8")):  # two of unsigned numbers have an unsigned sum
            a, b = quantized(var("x"), 0.0, 2.0, "uint8"), quantized(var("y"), lo, 3.0, kind)
            inputs = {"x": grid(2, 3, 4, 4, lo=0, step=2 / 255.0), "y": grid(2, 3, 4, 4, lo=0, step=3 / (127.0 if lo else 255.0))}
            y = mx.sym.contrib.quantized_elemwise_add(a[0], b[0], a[1], a[2], b[1], b[2], min_calib_range=lo, max_calib_range=4.0)
            yield mx.sym.contrib.dequantize(y[0], y[1], y[2]), inputs, {}, {"step": 4.0 / 127}
            yield y[0], inputs, {}, {"step": 1}
    elif op.endswith("mul"):
        y = mx.sym.contrib.quantized_elemwise_mul(a[0], b[0], a[1], a[2], b[1], b[2])
        yield requantized(y, -6.0, 6.0), inputs, {}, {"step": 6.0 / 127}
    else:
        y = mx.sym.contrib.quantized_concat(a[0], b[0], a[1], a[2], b[1], b[2], num_args=2, dim=1)
        yield mx.sym.contrib.dequantize(y[0], y[1], y[2]), inputs, {}, {"step": 5.0 / 127}


@whole_symbol(("_contrib_quantized_batch_norm",))
def quantized_norm(op):
    q = quantized(var("data"), -2.0, 2.0)
    c = 3
    y = mx.sym.contrib.quantized_batch_norm(q[0], var("g"), var("b"), var("m"), var("v"), q[1], q[2], fix_gamma=False, min_calib_range=-6.0, max_calib_range=6.0)
    yield mx.sym.contrib.dequantize(y[0], y[1], y[2]), {"data": grid(2, 3, 4, 4)}, \
        {"g": real(c, lo=0.5), "b": real(c), "m": real(c), "v": real(c, lo=0.5)}, {"step": 6.0 / 127}


@of("_contrib_quantize_asym")
def quantize_asym(op):  # of other ranks it ends MXNet's process
    for lo in (-2.0, 0.5):
        yield [real(2, 3, 4, lo=lo)], {}, {"outs": 3, "step": 1}
    yield [real(2, 3, 4)], {"min_calib_range": -1.0, "max_calib_range": 1.5}, {"outs": 3, "step": 1}


def sparse_rows(n, k):
    """Weights of which every second is 0: MXNet adds products in pairs, in 16 bits, and what does not fit is lost."""
    w = real(n, k, lo=-0.5, hi=0.5)
    w[:, 1::2] = 0
    return w.ravel()


@of("_contrib_quantized_rnn")
def quantized_rnn(op):
    for layers, dirs in ((1, 1), (2, 1), (1, 2)):
        t, n, k, h = 3, 2, 8, 6
        weights = [sparse_rows(4 * h, w) for layer in range(layers) for _ in range(dirs) for w in (h * dirs if layer else k, h)]
        params = np.concatenate(weights + [real(8 * h * layers * dirs, lo=-0.5, hi=0.5)])
        # The data reach from -1 to 1, as states do, which MXNet rounds as it does data.
        yield [whole(t, n, k, lo=0, hi=256, dtype="uint8"), P(params), real(layers * dirs, n, h, lo=-0.9, hi=0.9), real(layers * dirs, n, h),
               P(np.float32([127.5])), P(np.float32([127.5]))], \
            {"mode": "lstm", "state_size": h, "num_layers": layers, "bidirectional": dirs == 2, "state_outputs": True}, {"outs": 3, "step": 2 / 127.0}


@whole_symbol(("_contrib_quantized_embedding",))
def quantized_embedding(op):
    y = mx.sym.contrib.quantized_embedding(var("data"), var("w"), var("lo"), var("hi"), input_dim=7, output_dim=5)
    yield mx.sym.contrib.dequantize(y[0], y[1], y[2]), {"data": whole(4, lo=0, hi=7)}, dict({"w": eight(7, 5)}, **ranges(lo=-1.0, hi=1.0)), {"step": 1.0 / 127}


# ---- writing

ALIASES = {"_npi_abs": "abs", "_np_amax": "_np_max", "_np_amin": "_np_min", "_np_product": "_np_prod", "_np_sometrue": "_np_any", "_np_repeat": "repeat",
           "_npx_cast": "Cast", "_npx_reshape_like": "reshape_like", "_npx_roi_pooling": "ROIPooling", "_npx_slice": "slice",
           "_npx_smooth_l1": "smooth_l1", "_npi_gather_nd": "gather_nd", "_npx_multibox_prior": "_contrib_MultiBoxPrior",
           "_npx_multibox_detection": "_contrib_MultiBoxDetection", "_contrib_sign_ste": "sign", "_contrib_round_ste": "round",
           "_CrossDeviceCopy": "identity", "_npi_scatter_set_nd": "_scatter_set_nd",
           "_npi_isposinf": "_npi_isinf", "_npi_isneginf": "_npi_isinf"}


def known():
    size, names = mx_uint(), ctypes.POINTER(ctypes.c_char_p)()
    check_call(_LIB.MXListAllOpNames(ctypes.byref(size), ctypes.byref(names)))
    return {names[i].decode() for i in range(size.value)}


def alias(op, name):
    """Makes cases of an operator that is another by a second name."""
    for f in makers.get(name, ()):
        if not getattr(f, "symbols", False):
            of(op)(lambda _, f=f: f(name))


for second, first in ALIASES.items():
    alias(second, first)
for name in known():  # of MXNet 2: the operators of 1.x in the namespaces of NumPy
    for prefix in ("_npi_", "_npx_"):
        base = name[len(prefix):]
        if name.startswith(prefix) and name not in makers:
            for first in (base, "_np_" + base, "_" + base, "_contrib_" + base, base.title().replace("_", ""), {"slice_channel": "SliceChannel"}.get(base)):
                alias(name, first)
for first in list(makers):
    alias("_sparse_" + first, first)


def defaults(op):
    """The attributes of an operator that may be left out, as MXNet writes them when it records what a block computes."""
    handle, strings = ctypes.c_void_p(), ctypes.POINTER(ctypes.c_char_p)
    check_call(_LIB.NNGetOpHandle(c_str(op), ctypes.byref(handle)))
    texts, lists, size = [ctypes.c_char_p() for _ in range(4)], [strings() for _ in range(3)], mx_uint()
    check_call(_LIB.MXSymbolGetAtomicSymbolInfo(handle, ctypes.byref(texts[0]), ctypes.byref(texts[1]), ctypes.byref(size),
                                                *[ctypes.byref(x) for x in lists + texts[2:]]))
    out = {}
    for i in range(size.value):
        _, found, v = lists[1][i].decode().partition("default=")
        if found:
            out[lists[0][i].decode()] = v.strip("'")
    return out


def symbol_of(op, arrays, attributes, heads, numpy, whole):
    """A symbol of one operator, written by hand, so that every name and attribute can be had; whole: no attribute is left out."""
    if whole:
        attributes = dict(defaults(op), **attributes)
    nodes = [{"op": "null", "name": "in%d" % i, "inputs": []} for i in range(len(arrays))]
    node = {"op": op, "name": "it", "inputs": [[i, 0, 0] for i in range(len(arrays))]}
    if attributes:
        node["attrs"] = {k: v if isinstance(v, str) else str(v) for k, v in attributes.items()}
    nodes.append(node)
    at = {"mxnet_version": ["int", VERSION]}
    if numpy:
        at["is_np_shape"] = ["int", 1]
    return json.dumps({"nodes": nodes, "arg_nodes": list(range(len(arrays))), "node_row_ptr": list(range(len(nodes) + 1)),
                       "heads": [[len(arrays), h, 0] for h in range(heads)], "attrs": at})


from_json = getattr(mx.sym, "load_json", None) or mx.sym.fromjson  # as MXNet 2 names it


def run(symbol, values, bound=True):
    """What MXNet computes of a symbol with its variables' values: bound, or, where results have no shape before, without."""
    arrays = {n: mx.nd.array(values[n], dtype=values[n].dtype) for n in symbol.list_inputs()}
    states = symbol.list_auxiliary_states()
    try:
        if not bound:
            raise mx.base.MXNetError("")
        bind = getattr(symbol, "bind", None) or symbol._bind  # as MXNet 2 names it
        executor = bind(mx.cpu(), {k: v for k, v in arrays.items() if k not in states}, grad_req="null",
                               aux_states={k: arrays[k] for k in states})
        return [x.asnumpy() for x in executor.forward(is_train=False)]
    except mx.base.MXNetError:
        out = mx.nd.CachedOp(symbol)(*[arrays[n] for n in symbol.list_inputs()])
        return [x.asnumpy() for x in (out if isinstance(out, (list, tuple)) else [out])]


def run_in_place(op, attributes, arrays):
    """What MXNet computes of an operator that only writes over its first operand."""
    handle = ctypes.c_void_p()
    check_call(_LIB.NNGetOpHandle(c_str(op), ctypes.byref(handle)))
    operands = [mx.nd.array(a, dtype=a.dtype) for a in arrays]
    _imperative_invoke(handle.value, operands, list(attributes), [str(v) for v in attributes.values()], (operands[0],), False, False)
    return [operands[0].asnumpy()]


def write(path, symbol, text, inputs, params, options, numpy):
    with mx.util.np_shape(numpy):
        if "inplace" in options:
            outputs = run_in_place(*options["inplace"], [inputs[k] for k in sorted(inputs)])
        else:
            symbol = options.get("instead", from_json(text) if symbol is None else symbol)
            outputs = run(symbol, dict(inputs, **params), "open" not in options)
        if params:
            mx.nd.save(path + "-0000.params", {"arg:" + k: mx.nd.array(v, dtype=v.dtype) for k, v in params.items()})
        else:
            mx.nd.save(path + "-0000.params", {"arg:unused": mx.nd.zeros((1,))})
    with open(path + "-symbol.json", "w") as f:
        f.write(text)
    np.savez(path + "-inputs.npz", **inputs)
    np.savez(path + "-outputs.npz", **{"out%d" % i: x for i, x in enumerate(outputs)})


def cases_of(op):
    """Yields (symbol or None, text, inputs, params, options, numpy) of an operator."""
    number = 0
    for maker in makers[op]:
        for case in maker(op):
            if getattr(maker, "symbols", False):
                symbol, inputs, params = case[:3]
                text = symbol.tojson()
                listed = symbol.list_inputs()
                params = {k: v for k, v in params.items() if k in listed}
                yield symbol, text, inputs, params, case[3] if len(case) > 3 else {}, False
                continue
            arrays, attributes = case[:2]
            options = case[2] if len(case) > 2 else {}
            number += 1
            text = symbol_of(op, arrays, attributes, options.get("outs", 1), is_np(op), number % 2 == 0)
            inputs = {"in%d" % i: a for i, a in enumerate(arrays) if not isinstance(a, Param)}
            params = {"in%d" % i: a.array for i, a in enumerate(arrays) if isinstance(a, Param)}
            yield None, text, inputs, params, options, is_np(op)


def last_line(e):
    lines = [x for x in str(e).strip().split("\n") if x.strip()]
    return (lines[-1] if lines else repr(e))[:300]


def make(folder, op, seed, tell):
    """Writes the cases of an operator; tell gets a line of JSON for each that was made, or failed."""
    global rng
    rng = np.random.RandomState((seed + sum(ord(c) * (i + 1) for i, c in enumerate(op))) % 2**31)
    number, cases = 0, cases_of(op)
    while True:
        text = ""
        try:
            symbol, text, inputs, params, options, numpy = next(cases)
            name = "%s-%d" % (op, number)
            write(os.path.join(folder, name), symbol, text, inputs, params, options, numpy)
        except StopIteration:
            return
        except Exception as e:
            tell({"op": op, "why": last_line(e), "symbol": text[:600]})
            if not text:
                return
            continue
        tell({"case": name, "op": op, "step": options.get("step", 0)})
        number += 1


def work(folder, seed, operators):
    """Makes cases in this process, and writes to the standard output what it did, a line of JSON for each."""
    def tell(x):
        print(json.dumps(x), flush=True)
    for op in operators:
        tell({"begin": op})
        make(folder, op, seed, tell)


PATIENCE = 120  # seconds for all operators


# What an operator needs, which has a process of its own then: MXNet 1.9.1 cannot prepare weights of the quantised RNN for processors
# with instructions for products of 8-bit integers.
SURROUNDINGS = {"_contrib_quantized_rnn": {"DNNL_MAX_CPU_ISA": "AVX512_CORE"}}


def apart(folder, seed, operators, environ=()):
    """Makes cases in processes of their own, since some operators end them, and yields what those tell."""
    if not environ:
        for op in [op for op in operators if op in SURROUNDINGS]:
            operators.remove(op)
            yield from apart(folder, seed, [op], SURROUNDINGS[op])
    again, ended = [], set()
    while operators:
        child = subprocess.Popen([sys.executable, __file__, folder, str(seed)] + operators, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 env=dict(os.environ, **dict(environ)))
        try:
            text = child.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:  # as broken as one that ends
            child.kill()
            text = child.communicate()[0]
        told = [json.loads(line) for line in text.decode().splitlines() if line.startswith("{")]
        begun = [x["begin"] for x in told if "begin" in x]
        last = begun[-1] if child.returncode != 0 and begun else None
        for x in told:
            if "begin" not in x and (x["op"] != last or last in ended):
                yield x
        operators = operators[len(begun):]
        if last in ended:
            yield {"op": last, "why": "the process of MXNet ended with status %d" % child.returncode}
        elif last:  # perhaps for what an operator before did: once more, in the end
            ended.add(last)
            again.append(last)
        if not operators or not begun:
            operators, again = again[:1], again[1:]


def main():
    folder, seed = sys.argv[1], int(sys.argv[2])
    if len(sys.argv) > 3:
        return work(folder, seed, sys.argv[3:])
    have, wanted = known(), [x.strip() for x in sys.stdin if x.strip()]
    todo = [op for op in wanted if op in have and op in makers]
    told = list(apart(folder, seed, todo))
    made = [x for x in told if "case" in x]
    done = {x["op"] for x in made}
    report = {"cases": made, "refused": [x for x in told if "case" not in x], "version": mx.__version__,
              "without": [op for op in wanted if op in have and op not in done], "unknown": [op for op in wanted if op not in have]}
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump(report, f)


if __name__ == "__main__":
    main()
