"""Goes through a model in ONNX, and has a framework's functions called for its nodes.

Nodes are visited from the outputs, so that nobody computes what nobody reads. Layer normalisation, GELU and attention, which exporters write
as many nodes, become one call each. What depends on no input's content, shapes included, is computed in NumPy.
"""

import sys

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.reference

sys.setrecursionlimit(100_000)


class Network:
    """A model file. build calls methods of a framework, which are named as operators, with the node's attributes and its operands, each of
    which is an array of NumPy or what the framework has returned for it."""

    def __init__(self, path):
        model = onnx.load(path)
        self.graph, self.opsets = model.graph, {o.domain: o.version for o in model.opset_import}
        self.makers = {o: n for n in self.graph.node for o in n.output if o}
        self.weights = {t.name: onnx.numpy_helper.to_array(t) for t in self.graph.initializer}
        self.inputs = [i.name for i in self.graph.input if i.name not in self.weights]
        self.outputs = [o.name for o in self.graph.output]

    def build(self, framework, inputs):
        """Returns the outputs' values, in order."""
        self.f, self.values = framework, {**self.weights, **inputs}
        return [self.made(self.value(o)) for o in self.outputs]

    def made(self, x):
        """Returns a value as one of the framework's."""
        return self.f.constant(x) if isinstance(x, np.ndarray) else x

    def value(self, name):
        """Returns the value of a name, None for none."""
        if name == "":
            return None
        if name not in self.values:
            self.visit(self.makers[name])
        return self.values[name]

    def visit(self, node):
        for pattern in (self.layer_norm, self.gelu, self.attention):
            x = pattern(node)
            if x is not None:
                self.values[node.output[0]] = x
                return
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        operands = [self.value(i) for i in node.input]
        if node.op_type == "Shape":
            results = [np.array(self.shape(operands[0])[attributes.get("start", 0) : attributes.get("end")], np.int64)]
        elif all(x is None or isinstance(x, np.ndarray) for x in operands):
            feeds = {n: x for n, x in zip(node.input, operands) if n}
            results = onnx.reference.ReferenceEvaluator(node, opsets=self.opsets).run(None, feeds)
            results = [np.asarray(x) for x in results]
        else:
            method = getattr(self.f, node.op_type, None)
            if method is None:
                raise NotImplementedError(f"operator {node.op_type}")
            results = method({**attributes, "opset": self.opsets.get("", 0)}, *operands)
            results = results if isinstance(results, list) else [results]
        self.values.update(zip(node.output, results))

    def shape(self, x):
        return list(x.shape)

    def maker(self, name, *ops):
        """Returns the node that makes a value, if it is of one of these operators, else None."""
        n = self.makers.get(name)
        return n if n is not None and n.op_type in ops else None

    def number(self, name):
        """Returns a constant of one element, else None."""
        if name in self.weights or self.maker(name, "Constant", "Identity", "Cast"):
            n = self.maker(name, "Cast")
            if n is not None and self.number(n.input[0]) is None:
                return None
            x = self.value(name)
            if isinstance(x, np.ndarray) and x.size == 1:
                return float(x.reshape(()))
        return None

    def operands(self, node, test):
        """Returns the first operand of two for which test holds, as test returns it, and the other's name; None, None for neither."""
        for i in (0, 1):
            x = test(node.input[i])
            if x is not None:
                return x, node.input[1 - i]
        return None, None

    def mean_of_last(self, name):
        """Returns what a ReduceMean along the last dim reads, else None."""
        n = self.maker(name, "ReduceMean")
        if n is None:
            return None
        axes = next((list(a.ints) for a in n.attribute if a.name == "axes"), None)
        if axes is None and len(n.input) > 1:
            axes = list(self.value(n.input[1]))
        keep = next((a.i for a in n.attribute if a.name == "keepdims"), 1)
        return n.input[0] if axes == [-1] and keep == 1 else None

    def layer_norm(self, node):
        """Add(Mul(Div(Sub(x, mean), Sqrt(Add(mean of squares, epsilon))), scale), shift)."""
        if node.op_type != "Add":
            return None
        mul, shift = self.operands(node, lambda i: self.maker(i, "Mul"))
        div, scale = self.operands(mul, lambda i: self.maker(i, "Div")) if mul else (None, None)
        if not div or shift not in self.weights or scale not in self.weights:
            return None
        sub, root = self.maker(div.input[0], "Sub"), self.maker(div.input[1], "Sqrt")
        add = self.maker(root.input[0], "Add") if root and sub else None
        epsilon, squares = self.operands(add, self.number) if add else (None, None)
        power = self.maker(self.mean_of_last(squares) or "", "Pow", "Mul") if squares else None
        if power is None or power.input[0] != div.input[0] or self.mean_of_last(sub.input[1]) != sub.input[0]:
            return None
        if power.input[1] != power.input[0] and self.number(power.input[1]) != 2:
            return None
        return self.f.layer_norm(self.made(self.value(sub.input[0])), self.weights[scale], self.weights[shift], epsilon)

    def gelu(self, node):
        """0.5 x (1 + erf(x / root of 2)), in whatever order it is multiplied."""
        if node.op_type != "Mul":
            return None

        def of_erf(name):
            add = self.maker(name, "Add")
            return add if add and self.operands(add, lambda i: self.maker(i, "Erf"))[0] else None

        half, rest = self.operands(node, lambda i: 0.5 if self.number(i) == 0.5 else None)
        mul = self.maker(rest, "Mul") if half else None
        if mul is not None:
            add, x = self.operands(mul, of_erf)
        else:
            add, rest = self.operands(node, of_erf)
            mul = self.maker(rest, "Mul") if add else None
            half, x = self.operands(mul, lambda i: 0.5 if self.number(i) == 0.5 else None) if mul else (None, None)
        if not add or not half:
            return None
        erf, one = self.operands(add, lambda i: self.maker(i, "Erf"))
        div = self.maker(erf.input[0], "Div") if erf and self.number(one) == 1 else None
        if div is None or div.input[0] != x or abs((self.number(div.input[1]) or 0) - 2**0.5) > 1e-4:
            return None
        return self.f.gelu(self.made(self.value(x)))

    def attention(self, node):
        """MatMul(Softmax(MatMul(q, k) by a factor, plus a mask), v)."""
        if node.op_type != "MatMul":
            return None
        soft = self.maker(node.input[0], "Softmax")
        if soft is None:
            return None
        axis = next((a.i for a in soft.attribute if a.name == "axis"), -1 if self.opsets.get("", 0) >= 13 else 1)
        at, mask, scale = soft.input[0], None, 1.0
        add = self.maker(at, "Add")
        if add is not None:
            product, mask = self.operands(add, lambda i: self.maker(i, "Div", "Mul", "MatMul"))
            if product is None:
                return None
            at = product.output[0]
        factor = self.maker(at, "Div", "Mul")
        if factor is not None:
            by = self.number(factor.input[1])
            if by is None:
                return None
            scale, at = (1 / by if factor.op_type == "Div" else by), factor.input[0]
        product = self.maker(at, "MatMul")
        if product is None:
            return None
        q, k, v = (self.value(i) for i in (*product.input, node.input[1]))
        ranks = {0 if isinstance(x, np.ndarray) else len(self.shape(x)) for x in (q, k, v)}
        if ranks not in ({3}, {4}) or axis not in (-1, *(r - 1 for r in ranks)):
            return None
        return self.f.attention(q, k, v, None if mask is None else self.made(self.value(mask)), scale)


def pads(attributes, spatial):
    """Returns the padding in front and behind, by dim."""
    if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise NotImplementedError("padding that depends on the shape")
    p = list(attributes.get("pads", [0] * (2 * spatial)))
    return p[:spatial], p[spatial:]
