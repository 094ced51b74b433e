"""Runs networks with PyTorch, eagerly or as torch.compile makes them in one of its modes; server.py asks.

A model in ONNX becomes the text of a module, straight-line calls of PyTorch's functions with shapes as numbers, as a user would write it for one
size. Weights, inputs and constants are of the precision's type; images lie with their channels last in all but f32, as the vendor advises.
"""

import gc
import types

import numpy as np
import torch
import torch.nn.functional as F

import network
import server

TYPES = {"f32": torch.float32, "tf32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class Value:
    """A variable of the text, with a tensor without content that has its shape and type."""

    def __init__(self, name, tensor):
        self.name, self.tensor, self.shape = name, tensor.to("meta"), tuple(tensor.shape)


class Writer:
    """The framework of network.Network that writes the text. Methods are operators of ONNX."""

    def __init__(self, module, dtype, device, last):
        self.module, self.dtype, self.device, self.last = module, dtype, device, last
        self.lines, self.constants, self.shapes = [], {}, types.SimpleNamespace()  # the last has a tensor without content for each constant

    def emit(self, text, *values):
        """Adds a line that computes text, in which {} stand for values."""
        names = [v.name if isinstance(v, Value) else repr(v) for v in values]
        scope = {v.name: v.tensor for v in values if isinstance(v, Value)}
        text, name = text.format(*names), f"v{len(self.lines)}"
        result = eval(text, {"torch": torch, "F": F, "self": self.shapes, **{k: v for k, v in scope.items() if "." not in k}})
        self.lines.append(f"{name} = {text}")
        return Value(name, result)

    def place(self, x):
        """Returns an array as a tensor of the precision's."""
        t = torch.from_numpy(np.array(x))
        t = t.to(self.device, self.dtype if t.is_floating_point() else None)
        return t.contiguous(memory_format=torch.channels_last) if self.last and t.ndim == 4 else t

    def constant(self, x):
        if id(x) not in self.constants:
            name = f"w{len(self.constants)}"
            self.module.register_buffer(name, self.place(x))
            self.constants[id(x)] = Value("self." + name, getattr(self.module, name)), x
            setattr(self.shapes, name, self.constants[id(x)][0].tensor)
        return self.constants[id(x)][0]

    def operand(self, x):
        """Returns an operand of an element-wise function: constants of one element are numbers of the text."""
        if isinstance(x, np.ndarray):
            return x.reshape(()).item() if x.size == 1 and x.ndim == 0 else self.constant(x)
        return x

    def binary(self, text, a, b):
        return self.emit(text, self.operand(a), self.operand(b))

    def Add(self, at, a, b):
        return self.binary("{} + {}", a, b)

    def Sub(self, at, a, b):
        return self.binary("{} - {}", a, b)

    def Mul(self, at, a, b):
        return self.binary("{} * {}", a, b)

    def Div(self, at, a, b):
        return self.binary("{} / {}", a, b)

    def Pow(self, at, a, b):
        return self.binary("{} ** {}", a, b)

    def Equal(self, at, a, b):
        return self.binary("{} == {}", a, b)

    def MatMul(self, at, a, b):
        return self.binary("{} @ {}", a, b)

    def Where(self, at, c, a, b):
        return self.emit("torch.where({}, {}, {})", self.operand(c), self.operand(a), self.operand(b))

    def Relu(self, at, x):
        return self.emit("F.relu({})", x)

    def Sqrt(self, at, x):
        return self.emit("torch.sqrt({})", x)

    def Erf(self, at, x):
        return self.emit("torch.erf({})", x)

    def Tanh(self, at, x):
        return self.emit("torch.tanh({})", x)

    def Sigmoid(self, at, x):
        return self.emit("torch.sigmoid({})", x)

    def Exp(self, at, x):
        return self.emit("torch.exp({})", x)

    def Neg(self, at, x):
        return self.emit("-{}", x)

    def Identity(self, at, x):
        return x

    def Clip(self, at, x, low=None, high=None):
        low, high = (None if v is None else v.reshape(()).item() for v in (low, high))
        return self.emit("torch.clamp({}, {}, {})", x, low if low is not None else at.get("min"), high if high is not None else at.get("max"))

    def Cast(self, at, x):
        kinds = {1: self.dtype, 10: self.dtype, 11: self.dtype, 16: self.dtype, 6: torch.int32, 7: torch.int64, 9: torch.bool}
        return self.emit(f"{{}}.to({kinds[at['to']]})", x)

    def Reshape(self, at, x, shape):
        shape = [x.shape[i] if n == 0 and not at.get("allowzero") else int(n) for i, n in enumerate(shape)]
        return self.emit("{}.reshape({})", x, shape)

    def Flatten(self, at, x):
        axis = at.get("axis", 1)
        return self.emit("{}.reshape({})", x, [int(np.prod(x.shape[:axis])), -1])

    def Transpose(self, at, x):
        return self.emit("{}.permute({})", x, list(at.get("perm", reversed(range(len(x.shape))))))

    def axes(self, at, given):
        return [int(a) for a in (at["axes"] if given is None else given)]

    def Unsqueeze(self, at, x, axes=None):
        shape, rank = list(x.shape), len(x.shape) + len(self.axes(at, axes))
        for a in sorted(a % rank for a in self.axes(at, axes)):
            shape.insert(a, 1)
        return self.emit("{}.reshape({})", x, shape)

    def Squeeze(self, at, x, axes=None):
        gone = {a % len(x.shape) for a in self.axes(at, axes)}
        return self.emit("{}.reshape({})", x, [n for i, n in enumerate(x.shape) if i not in gone])

    def Concat(self, at, *xs):
        xs = [self.constant(x) if isinstance(x, np.ndarray) else x for x in xs]
        return self.emit("torch.cat([" + ", ".join(["{}"] * len(xs)) + f"], {at['axis']})", *xs)

    def Slice(self, at, x, starts=None, ends=None, axes=None, steps=None):
        starts, ends = at.get("starts", starts), at.get("ends", ends)
        axes = self.axes(at, axes) if axes is not None or "axes" in at else list(range(len(starts)))
        index = [":"] * len(x.shape)
        for i, a in enumerate(axes):
            step = 1 if steps is None else int(steps[i])
            if step < 1:
                raise NotImplementedError("slices backwards")
            index[a % len(x.shape)] = ":".join(map(str, slice(int(starts[i]), int(ends[i]), step).indices(x.shape[a])))
        return self.emit("{}[" + ", ".join(index) + "]", x)

    def Gather(self, at, x, index):
        axis = at.get("axis", 0)
        if isinstance(index, np.ndarray) and index.ndim == 0:
            return self.emit("{}.select({}, {})", x, axis, int(index))
        table, index = self.operand(x), self.operand(index)
        if axis == 0 and len(table.shape) == 2 and table.tensor.is_floating_point():
            return self.emit("F.embedding({}, {})", index, table)
        shape = [*table.shape[:axis], *index.shape, *table.shape[axis + 1 :]]
        return self.emit("torch.index_select({}, {}, {}.reshape(-1)).reshape({})", table, axis, index, shape)

    def Expand(self, at, x, shape):
        return self.emit("{}.expand({})", self.operand(x), list(np.broadcast_shapes(x.shape, tuple(int(n) for n in shape))))

    def ReduceMean(self, at, x, axes=None):
        return self.emit("{}.mean({}, keepdim={})", x, self.axes(at, axes), bool(at.get("keepdims", 1)))

    def Softmax(self, at, x):
        if at["opset"] < 13 and at.get("axis", 1) not in (-1, len(x.shape) - 1):
            raise NotImplementedError("Softmax along several dims")
        return self.emit("torch.softmax({}, {})", x, at.get("axis", -1 if at["opset"] >= 13 else 1))

    def Gemm(self, at, a, b, c=None):
        a, b = self.operand(a), self.operand(b)
        if at.get("transA"):
            a = self.emit("{}.t()", a)
        plain = at.get("alpha", 1.0) == 1 and at.get("beta", 1.0) == 1
        if c is None or plain and c.ndim == 1:
            text = "F.linear({}, {}" + ("" if at.get("transB") else ".t()") + (", {})" if c is not None else ")")
            x = self.emit(text, a, b, *([self.constant(c)] if c is not None else []))
            return x if plain else self.emit("{} * {}", x, at.get("alpha", 1.0))
        product = self.emit("{} @ {}" + (".t()" if at.get("transB") else ""), a, b)
        return self.emit("{} * {} + {} * {}", product, at.get("alpha", 1.0), self.operand(c), at.get("beta", 1.0))

    def padded(self, at, x, spatial, value=0.0):
        """Returns an image padded where both sides differ, and the padding that is left."""
        front, behind = network.pads(at, spatial)
        if front == behind:
            return x, front
        list_ = [p for pair in zip(reversed(front), reversed(behind)) for p in pair]
        return self.emit(f"F.pad({{}}, {{}}, value=float('{value}'))", x, list_), [0] * spatial

    def Conv(self, at, x, w, b=None):
        spatial = len(x.shape) - 2
        x, pad = self.padded(at, x, spatial)
        return self.emit(f"F.conv{spatial}d({{}}, {{}}, {{}}, {{}}, {{}}, {{}}, {{}})", x, self.operand(w), None if b is None else self.constant(b),
                         list(at.get("strides", [1] * spatial)), pad, list(at.get("dilations", [1] * spatial)), at.get("group", 1))

    def ConvTranspose(self, at, x, w, b=None):
        spatial = len(x.shape) - 2
        front, behind = network.pads(at, spatial)
        if front != behind or "output_shape" in at:
            raise NotImplementedError("transposed convolutions of uneven padding")
        return self.emit(f"F.conv_transpose{spatial}d({{}}, {{}}, {{}}, {{}}, {{}}, {{}}, {{}}, {{}})", x, self.operand(w), None if b is None else self.constant(b),
                         list(at.get("strides", [1] * spatial)), front, list(at.get("output_padding", [0] * spatial)), at.get("group", 1),
                         list(at.get("dilations", [1] * spatial)))

    def MaxPool(self, at, x):
        spatial = len(x.shape) - 2
        x, pad = self.padded(at, x, spatial, "-inf")
        return self.emit(f"F.max_pool{spatial}d({{}}, {{}}, {{}}, {{}}, {{}}, {{}})", x, list(at["kernel_shape"]), list(at.get("strides", [1] * spatial)), pad,
                         list(at.get("dilations", [1] * spatial)), bool(at.get("ceil_mode", 0)))

    def AveragePool(self, at, x):
        spatial = len(x.shape) - 2
        front, behind = network.pads(at, spatial)
        if front != behind:
            raise NotImplementedError("average pooling of uneven padding")
        return self.emit(f"F.avg_pool{spatial}d({{}}, {{}}, {{}}, {{}}, {{}}, {{}})", x, list(at["kernel_shape"]), list(at.get("strides", [1] * spatial)), front,
                         bool(at.get("ceil_mode", 0)), bool(at.get("count_include_pad", 0)))

    def GlobalAveragePool(self, at, x):
        return self.emit("{}.mean({}, keepdim=True)", x, list(range(2, len(x.shape))))

    def BatchNormalization(self, at, x, scale, shift, mean, variance):
        return self.emit("F.batch_norm({}, {}, {}, {}, {}, eps={})", x, *(self.constant(v) for v in (mean, variance, scale, shift)), at.get("epsilon", 1e-5))

    def LayerNormalization(self, at, x, scale, shift=None):
        if at.get("axis", -1) not in (-1, len(x.shape) - 1):
            raise NotImplementedError("LayerNormalization of several dims")
        return self.layer_norm(x, scale, shift, at.get("epsilon", 1e-5))

    def Gelu(self, at, x):
        return self.emit("F.gelu({}, approximate={})", x, at.get("approximate", b"none").decode())

    def layer_norm(self, x, scale, shift, epsilon):
        return self.emit("F.layer_norm({}, {}, {}, {}, {})", x, [x.shape[-1]], self.constant(scale), None if shift is None else self.constant(shift), epsilon)

    def gelu(self, x):
        return self.emit("F.gelu({})", x)

    def attention(self, q, k, v, mask, scale):
        if len(q.shape) == 4:
            return self.emit("F.scaled_dot_product_attention({}, {}.transpose(-1, -2), {}, attn_mask={}, scale={})", q, k, v, mask, scale)
        if mask is not None:
            mask = self.emit("{}.expand({})[None]", mask, [q.shape[0], q.shape[1], k.shape[2]])
        text = "F.scaled_dot_product_attention({}[None], {}.transpose(-1, -2)[None], {}[None], attn_mask={}, scale={})[0]"
        return self.emit(text, q, k, v, mask, scale)


def module(path, feeds, dtype, device, last):
    """Returns a model as a module, its inputs on the device, and the names of its outputs."""
    net, m = network.Network(path), torch.nn.Module()
    w = Writer(m, dtype, device, last)
    inputs = {name: w.place(feeds[name]) for name in net.inputs}
    outputs = net.build(w, {name: Value(f"x{i}", x) for i, (name, x) in enumerate(inputs.items())})
    arguments = ", ".join(f"x{i}" for i in range(len(inputs)))
    text = f"def forward(self, {arguments}):\n" + "".join(f"    {line}\n" for line in w.lines) + f"    return [{', '.join(o.name for o in outputs)}]\n"
    scope = {"torch": torch, "F": F}
    exec(text, scope)
    m.__class__ = type("Network", (torch.nn.Module,), {"forward": scope["forward"]})
    return m.eval(), list(inputs.values()), net.outputs


def load(r):
    precision, device = r["precision"], r["device"]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    feeds = server.feeds(r["feeds"])
    with torch.inference_mode():
        m, inputs, names = module(r["path"], feeds, TYPES[precision], device, precision != "f32" and any(x.ndim == 4 for x in feeds.values()))
    call = m
    if r["mode"] != "eager":
        call = torch.compile(m, mode=r["mode"], fullgraph=True, dynamic=False)

    def run():
        with torch.inference_mode():
            call(*inputs)
        wait()

    def results():
        with torch.inference_mode():
            out = call(*inputs)
            return {n: (t.float() if t.is_floating_point() else t).cpu().numpy() for n, t in zip(names, out)}

    return run, results, "torch " + torch.__version__


def drop():
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
