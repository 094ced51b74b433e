"""Runs networks with XLA, by way of JAX; server.py asks.

jax.jit compiles a whole model, whose weights are arguments. Weights, inputs and constants are of the precision's type.
"""

import gc

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import network
import server

TYPES = {"f32": jnp.float32, "tf32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16}


class Tracer:
    """The framework of network.Network that calls JAX. Methods are operators of ONNX."""

    def __init__(self, weights, dtype):
        self.weights, self.dtype = weights, dtype

    def constant(self, x):
        """Returns an array: an argument where it is one of the model's weights, else a constant of the program."""
        if id(x) in self.weights:
            return self.weights[id(x)]
        return jnp.asarray(x, self.dtype) if np.issubdtype(x.dtype, np.floating) else jnp.asarray(x)

    def operand(self, x):
        if isinstance(x, np.ndarray):
            return x.reshape(()).item() if x.size == 1 and x.ndim == 0 else self.constant(x)
        return x

    def Add(self, at, a, b):
        return self.operand(a) + self.operand(b)

    def Sub(self, at, a, b):
        return self.operand(a) - self.operand(b)

    def Mul(self, at, a, b):
        return self.operand(a) * self.operand(b)

    def Div(self, at, a, b):
        return self.operand(a) / self.operand(b)

    def Pow(self, at, a, b):
        return self.operand(a) ** self.operand(b)

    def Equal(self, at, a, b):
        return self.operand(a) == self.operand(b)

    def MatMul(self, at, a, b):
        return jnp.matmul(self.operand(a), self.operand(b))

    def Where(self, at, c, a, b):
        return jnp.where(self.operand(c), self.operand(a), self.operand(b))

    def Relu(self, at, x):
        return jax.nn.relu(x)

    def Sqrt(self, at, x):
        return jnp.sqrt(x)

    def Erf(self, at, x):
        return lax.erf(x)

    def Tanh(self, at, x):
        return jnp.tanh(x)

    def Sigmoid(self, at, x):
        return jax.nn.sigmoid(x)

    def Exp(self, at, x):
        return jnp.exp(x)

    def Neg(self, at, x):
        return -x

    def Identity(self, at, x):
        return x

    def Clip(self, at, x, low=None, high=None):
        return jnp.clip(x, self.operand(low) if low is not None else at.get("min"), self.operand(high) if high is not None else at.get("max"))

    def Cast(self, at, x):
        kinds = {1: self.dtype, 10: self.dtype, 11: self.dtype, 16: self.dtype, 6: jnp.int32, 7: jnp.int64, 9: jnp.bool_}
        return x.astype(kinds[at["to"]])

    def Reshape(self, at, x, shape):
        return x.reshape([x.shape[i] if n == 0 and not at.get("allowzero") else int(n) for i, n in enumerate(shape)])

    def Flatten(self, at, x):
        return x.reshape([int(np.prod(x.shape[: at.get("axis", 1)])), -1])

    def Transpose(self, at, x):
        return jnp.transpose(x, at.get("perm"))

    def axes(self, at, given):
        return tuple(int(a) for a in (at["axes"] if given is None else given))

    def Unsqueeze(self, at, x, axes=None):
        return jnp.expand_dims(x, self.axes(at, axes))

    def Squeeze(self, at, x, axes=None):
        return jnp.squeeze(x, self.axes(at, axes))

    def Concat(self, at, *xs):
        return jnp.concatenate([self.constant(x) if isinstance(x, np.ndarray) else x for x in xs], at["axis"])

    def Slice(self, at, x, starts=None, ends=None, axes=None, steps=None):
        starts, ends = at.get("starts", starts), at.get("ends", ends)
        axes = self.axes(at, axes) if axes is not None or "axes" in at else range(len(starts))
        index = [slice(None)] * len(x.shape)
        for i, a in enumerate(axes):
            index[a] = slice(int(starts[i]), int(ends[i]), 1 if steps is None else int(steps[i]))
        return x[tuple(index)]

    def Gather(self, at, x, index):
        return jnp.take(self.operand(x), self.operand(index), at.get("axis", 0), mode="clip")

    def Expand(self, at, x, shape):
        return jnp.broadcast_to(self.operand(x), np.broadcast_shapes(x.shape, tuple(int(n) for n in shape)))

    def ReduceMean(self, at, x, axes=None):
        return jnp.mean(x, self.axes(at, axes), keepdims=bool(at.get("keepdims", 1)))

    def Softmax(self, at, x):
        return jax.nn.softmax(x, at.get("axis", -1 if at["opset"] >= 13 else 1))

    def Gemm(self, at, a, b, c=None):
        a, b = self.operand(a), self.operand(b)
        x = jnp.matmul(a.T if at.get("transA") else a, b.T if at.get("transB") else b)
        if at.get("alpha", 1.0) != 1:
            x = x * at["alpha"]
        return x if c is None else x + self.operand(c) * at.get("beta", 1.0)

    def bias(self, x, b):
        return x if b is None else x + self.constant(b).reshape([1, -1] + [1] * (len(x.shape) - 2))

    def Conv(self, at, x, w, b=None):
        spatial = len(x.shape) - 2
        letters = "DHW"[3 - spatial :]
        x = lax.conv_general_dilated(
            x, self.operand(w), at.get("strides", [1] * spatial), list(zip(*network.pads(at, spatial))), rhs_dilation=at.get("dilations", [1] * spatial),
            dimension_numbers=("NC" + letters, "OI" + letters, "NC" + letters), feature_group_count=at.get("group", 1))
        return self.bias(x, b)

    def ConvTranspose(self, at, x, w, b=None):
        spatial = len(x.shape) - 2
        if at.get("group", 1) != 1 or "output_shape" in at or any(at.get("output_padding", [])):
            raise NotImplementedError("transposed convolutions of groups, or of a shape that is given")
        w, letters = self.operand(w), "DHW"[3 - spatial :]
        dilations = at.get("dilations", [1] * spatial)
        reach = [d * (k - 1) for d, k in zip(dilations, w.shape[2:])]
        around = [(r - f, r - e) for r, f, e in zip(reach, *network.pads(at, spatial))]
        x = lax.conv_general_dilated(
            x, jnp.flip(w, range(2, 2 + spatial)), [1] * spatial, around, lhs_dilation=at.get("strides", [1] * spatial), rhs_dilation=dilations,
            dimension_numbers=("NC" + letters, "IO" + letters, "NC" + letters))
        return self.bias(x, b)

    def window(self, at, x, start, function):
        spatial = len(x.shape) - 2
        steps, around = at.get("strides", [1] * spatial), []
        for n, k, s, front, behind in zip(x.shape[2:], at["kernel_shape"], steps, *network.pads(at, spatial)):
            if at.get("ceil_mode"):  # the last window reaches beyond the padding
                behind += -(n + front + behind - k) % s
            around.append((front, behind))
        return lax.reduce_window(x, start, function, (1, 1, *at["kernel_shape"]), (1, 1, *steps), [(0, 0), (0, 0), *around])

    def MaxPool(self, at, x):
        return self.window(at, x, np.array(-np.inf, x.dtype), lax.max)

    def AveragePool(self, at, x):
        sums = self.window(at, x, np.array(0, x.dtype), lax.add)
        if at.get("count_include_pad"):
            return sums / int(np.prod(at["kernel_shape"]))
        return sums / self.window(at, jnp.ones_like(x), np.array(0, x.dtype), lax.add)

    def GlobalAveragePool(self, at, x):
        return jnp.mean(x, tuple(range(2, len(x.shape))), keepdims=True)

    def BatchNormalization(self, at, x, scale, shift, mean, variance):
        scale, shift, mean, variance = (self.constant(v).reshape([1, -1] + [1] * (len(x.shape) - 2)) for v in (scale, shift, mean, variance))
        return (x - mean) * (scale * lax.rsqrt(variance + at.get("epsilon", 1e-5))) + shift

    def LayerNormalization(self, at, x, scale, shift=None):
        if at.get("axis", -1) not in (-1, len(x.shape) - 1):
            raise NotImplementedError("LayerNormalization of several dims")
        return self.layer_norm(x, scale, shift, at.get("epsilon", 1e-5))

    def Gelu(self, at, x):
        return jax.nn.gelu(x, approximate=at.get("approximate", b"none") == b"tanh")

    def layer_norm(self, x, scale, shift, epsilon):
        wide = x.astype(jnp.float32)
        centred = wide - jnp.mean(wide, -1, keepdims=True)
        normal = centred * lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + epsilon)
        x = normal.astype(self.dtype) * self.constant(scale)
        return x if shift is None else x + self.constant(shift)

    def gelu(self, x):
        return jax.nn.gelu(x, approximate=False)

    def attention(self, q, k, v, mask, scale):
        scores = jnp.matmul(q, k) * scale
        return jnp.matmul(jax.nn.softmax(scores if mask is None else scores + mask, -1), v)


def load(r):
    precision = r["precision"]
    dtype, device = TYPES[precision], jax.devices("cpu" if r["device"] == "cpu" else None)[0]
    jax.config.update("jax_enable_x64", True)  # or indices would be of 32 bits
    jax.config.update("jax_default_matmul_precision", {"f32": "highest", "tf32": "tensorfloat32"}.get(precision, "default"))
    net = network.Network(r["path"])
    large = [w for w in net.weights.values() if w.size > 1 and np.issubdtype(w.dtype, np.floating)]

    def put(x):
        return jax.device_put(jnp.asarray(x, dtype) if np.issubdtype(x.dtype, np.floating) else jnp.asarray(x), device)

    feeds = server.feeds(r["feeds"])
    with jax.default_device(device):
        weights, inputs = [put(w) for w in large], {n: put(feeds[n]) for n in net.inputs}

        @jax.jit
        def call(weights, inputs):
            return net.build(Tracer({id(w): x for w, x in zip(large, weights)}, dtype), inputs)

        call = call.lower(weights, inputs).compile()

    def run():
        jax.block_until_ready(call(weights, inputs))

    def results():
        return {n: np.asarray(x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x) for n, x in zip(net.outputs, call(weights, inputs))}

    return run, results, "JAX " + jax.__version__


def drop():
    jax.clear_caches()
    gc.collect()
