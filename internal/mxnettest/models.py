"""Writes models with MXNet: Gluon's own of images with random weights, a detector's head, language models and a transformer.

models.py OUT SEED NAME... writes into the folder OUT, for each name, NAME-symbol.json and NAME-0000.params by HybridBlock.export, the
inputs NAME-inputs.npz, and in NAME-outputs.npz what MXNet computes; weights and inputs follow from SEED. models.py prints the names
that there are.

It needs mxnet 1.9.1 with numpy 1.23 and Python 3.11; with mxnet 2.0.0b1 there are the models of Gluon and the language models.
"""
import os
import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")
import mxnet as mx  # noqa: E402
from mxnet.gluon import nn, rnn  # noqa: E402
from mxnet.gluon.model_zoo import vision  # noqa: E402

TWO = mx.__version__.startswith("2.")
array = mx.np.array if TWO else mx.nd.array

VISION = (["resnet%d_v%d" % (d, v) for v in (1, 2) for d in (18, 34, 50, 101, 152)] +
          ["vgg%d%s" % (d, bn) for bn in ("", "_bn") for d in (11, 13, 16, 19)] +
          ["alexnet", "densenet121", "densenet161", "densenet169", "densenet201", "squeezenet1.0", "squeezenet1.1", "inceptionv3"] +
          ["mobilenet%s" % m for m in ("1.0", "0.75", "0.5", "0.25")] + ["mobilenetv2_%s" % m for m in ("1.0", "0.75", "0.5", "0.25")])


def normal(*shape):
    return np.random.normal(size=shape).astype("float32")


class SqueezeExcite(nn.HybridBlock):
    def __init__(self, channels):
        super().__init__()
        self.down, self.up = nn.Conv2D(channels // 4, 1), nn.Conv2D(channels, 1)

    def hybrid_forward(self, F, x):
        w = F.contrib.AdaptiveAvgPooling2D(x, output_size=1)
        w = F.hard_sigmoid(self.up(F.relu(self.down(w))), alpha=1 / 6.0, beta=0.5)
        return F.broadcast_mul(x, w)


def hard_swish(F, x):
    return x * F.clip(x + 3, 0, 6) / 6


class InvertedResidual(nn.HybridBlock):
    def __init__(self, channels, wide, out, kernel, stride, excite, swish):
        super().__init__()
        self.keep, self.swish = stride == 1 and channels == out, swish
        self.a, self.na = nn.Conv2D(wide, 1, use_bias=False), nn.BatchNorm()
        self.b = nn.Conv2D(wide, kernel, stride, kernel // 2, groups=wide, use_bias=False, in_channels=wide)
        self.nb, self.excite = nn.BatchNorm(), SqueezeExcite(wide) if excite else None
        self.c, self.nc = nn.Conv2D(out, 1, use_bias=False), nn.BatchNorm()

    def hybrid_forward(self, F, x):
        act = (lambda v: hard_swish(F, v)) if self.swish else F.relu
        y = act(self.na(self.a(x)))
        y = self.nb(self.b(y))
        if self.excite is not None:
            y = self.excite(y)
        y = self.nc(self.c(act(y)))
        return y + x if self.keep else y


class MobileNetV3(nn.HybridBlock):
    """The small one: kernel, wide, out, squeeze-and-excite, hard swish, stride of each block."""
    BLOCKS = ((3, 16, 16, 1, 0, 2), (3, 72, 24, 0, 0, 2), (3, 88, 24, 0, 0, 1), (5, 96, 40, 1, 1, 2), (5, 240, 40, 1, 1, 1), (5, 240, 40, 1, 1, 1),
              (5, 120, 48, 1, 1, 1), (5, 144, 48, 1, 1, 1), (5, 288, 96, 1, 1, 2), (5, 576, 96, 1, 1, 1), (5, 576, 96, 1, 1, 1))

    def __init__(self, classes=1000):
        super().__init__()
        self.stem, self.norm = nn.Conv2D(16, 3, 2, 1, use_bias=False), nn.BatchNorm()
        self.body = nn.HybridSequential()
        c = 16
        for kernel, wide, out, excite, swish, stride in self.BLOCKS:
            self.body.add(InvertedResidual(c, wide, out, kernel, stride, excite, swish))
            c = out
        self.last, self.lastnorm = nn.Conv2D(576, 1, use_bias=False), nn.BatchNorm()
        self.head, self.out = nn.Dense(1024), nn.Dense(classes)

    def hybrid_forward(self, F, x):
        x = self.body(hard_swish(F, self.norm(self.stem(x))))
        x = F.Pooling(hard_swish(F, self.lastnorm(self.last(x))), global_pool=True, pool_type="avg", kernel=(1, 1))
        return self.out(hard_swish(F, self.head(x)))


class Detector(nn.HybridBlock):
    """A single-shot detector: features of a network, then scales with anchors, classes and boxes each."""

    def __init__(self, features, classes=20):
        super().__init__()
        self.classes, self.features = classes, features
        self.more, self.scores, self.places = nn.HybridSequential(), nn.HybridSequential(), nn.HybridSequential()
        self.scales = ((0.2, 0.27), (0.37, 0.45), (0.54, 0.62), (0.71, 0.79))
        for _ in self.scales[1:]:
            block = nn.HybridSequential()
            block.add(nn.Conv2D(64, 1, activation="relu"), nn.Conv2D(128, 3, 2, 1, activation="relu"))
            self.more.add(block)
        for _ in self.scales:
            self.scores.add(nn.Conv2D(4 * (classes + 1), 3, 1, 1))
            self.places.add(nn.Conv2D(4 * 4, 3, 1, 1))

    def hybrid_forward(self, F, x):
        x = F.L2Normalization(self.features(x), mode="channel") * 20
        scores, places, anchors = [], [], []
        for i, sizes in enumerate(self.scales):
            if i > 0:
                x = self.more[i - 1](x)
            anchors.append(F.contrib.MultiBoxPrior(x, sizes=sizes, ratios=(1, 2, 0.5)))
            s = F.transpose(self.scores[i](x), axes=(0, 2, 3, 1))
            scores.append(F.reshape(s, shape=(0, -1, self.classes + 1)))
            places.append(F.flatten(F.transpose(self.places[i](x), axes=(0, 2, 3, 1))))
        p = F.softmax(F.transpose(F.concat(*scores, dim=1), axes=(0, 2, 1)), axis=1)
        return F.contrib.MultiBoxDetection(p, F.concat(*places, dim=1), F.concat(*anchors, dim=1), threshold=0.1, nms_threshold=0.45,
                                           nms_topk=100)


def first_blocks(net, n):
    out = nn.HybridSequential()
    for b in list(net.features._children.values())[:n]:
        out.add(b)
    return out


class LanguageModel(nn.HybridBlock):
    def __init__(self, kind, words=2000, width=200, layers=2):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = {"lstm": rnn.LSTM, "gru": rnn.GRU}[kind](width, layers, input_size=width)
        self.out = nn.Dense(words, flatten=False)

    def hybrid_forward(self, F, x, *states):
        y, last = self.rnn(self.embed(x), list(states))
        return [self.out(y)] + list(last)


if TWO:  # whose blocks have a forward
    def language_model(self, x, *states):
        y, last = self.rnn(self.embed(x), list(states))
        return [self.out(y)] + list(last)
    del LanguageModel.hybrid_forward
    LanguageModel.forward = language_model


class Layer(nn.HybridBlock):
    def __init__(self, units, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Dense(3 * units, flatten=False), nn.Dense(units, flatten=False)
        self.up, self.down = nn.Dense(4 * units, flatten=False), nn.Dense(units, flatten=False)
        self.n1, self.n2 = nn.LayerNorm(), nn.LayerNorm()

    def hybrid_forward(self, F, x, mask):  # x is [time, batch, units]
        qkv = self.qkv(x)
        scores = F.contrib.interleaved_matmul_selfatt_qk(qkv, heads=self.heads)
        scores = F.where(F.broadcast_like(mask, scores), scores, F.ones_like(scores) * -1e4)
        y = F.contrib.interleaved_matmul_selfatt_valatt(qkv, F.softmax(scores, axis=-1), heads=self.heads)
        x = self.n1(x + self.proj(y))
        return self.n2(x + self.down(F.LeakyReLU(self.up(x), act_type="gelu")))


class Transformer(nn.HybridBlock):
    def __init__(self, words=2000, units=256, heads=4, layers=4):
        super().__init__()
        self.embed = nn.Embedding(words, units)
        self.layers = nn.HybridSequential()
        for _ in range(layers):
            self.layers.add(Layer(units, heads))
        self.heads, self.out = heads, nn.Dense(words, flatten=False)

    def hybrid_forward(self, F, x, length):
        pos = F.contrib.arange_like(x, axis=1)
        mask = F.broadcast_lesser(F.reshape(pos, shape=(1, -1)), F.reshape(length, shape=(-1, 1)))  # [batch, time]
        mask = F.expand_dims(F.repeat(mask, repeats=self.heads, axis=0), axis=1)
        y = F.transpose(self.embed(x), axes=(1, 0, 2))
        for layer in self.layers._children.values():
            y = layer(y, mask)
        return self.out(F.transpose(y, axes=(1, 0, 2)))


def make(name):
    """Returns a network and its inputs."""
    side = 299 if name == "inceptionv3" else 224
    if name in VISION:
        return vision.get_model(name, pretrained=False), [normal(1, 3, side, side)]
    if name == "mobilenetv3":
        return MobileNetV3(), [normal(1, 3, 224, 224)]
    if name == "ssd_resnet18":
        return Detector(first_blocks(vision.resnet18_v1(), 7)), [normal(1, 3, 300, 300)]
    if name == "ssd_mobilenet":
        return Detector(first_blocks(vision.mobilenet1_0(), 66)), [normal(1, 3, 300, 300)]
    if name == "ssd_vgg16":
        return Detector(first_blocks(vision.vgg16(), 23)), [normal(1, 3, 300, 300)]
    words = np.random.randint(0, 2000, size=(35, 4)).astype("float32")
    if name == "lstm_lm":
        return LanguageModel("lstm"), [words, normal(2, 4, 200), normal(2, 4, 200)]
    if name == "gru_lm":
        return LanguageModel("gru"), [words, normal(2, 4, 200)]
    if name == "transformer":
        return Transformer(), [np.random.randint(0, 2000, size=(2, 64)).astype("float32"), np.array([64, 40], dtype="float32")]
    raise SystemExit("no model " + name)


NAMES = VISION + ["lstm_lm", "gru_lm"] + ([] if TWO else ["mobilenetv3", "ssd_resnet18", "ssd_mobilenet", "ssd_vgg16", "transformer"])


def save(folder, seed, name):
    np.random.seed(seed + sum(map(ord, name)))
    mx.random.seed(seed + 6)
    net, inputs = make(name)
    vectors = TWO and name.endswith("_lm")  # recurrent layers keep their weights in one, which Xavier's does not take
    net.initialize(mx.init.Uniform(0.1) if vectors else mx.init.Xavier(factor_type="in", magnitude=6))  # so that activations keep their size, and no two scores are the same
    net.hybridize()
    feeds = [array(x) for x in inputs]
    net(*feeds)
    for key, p in net.collect_params().items():  # statistics as of a trained network
        if "running_mean" in key or "beta" in key:
            p.set_data(array(np.random.normal(size=p.shape) * 0.1))
        elif "running_var" in key or "gamma" in key:
            p.set_data(array(np.random.uniform(0.7, 1.3, size=p.shape)))
    out = net(*feeds)
    path = os.path.join(folder, name)
    net.export(path)
    names = mx.sym.load(path + "-symbol.json").list_inputs()
    order = ["data"] if len(inputs) == 1 else ["data%d" % i for i in range(len(inputs))]
    assert all(n in names for n in order), names
    np.savez(path + "-inputs.npz", **dict(zip(order, inputs)))
    flat = []

    def walk(x):
        if isinstance(x, (list, tuple)):
            for y in x:
                walk(y)
        else:
            flat.append(x.asnumpy())
    walk(out)
    np.savez(path + "-outputs.npz", **{"out%d" % i: x for i, x in enumerate(flat)})


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("\n".join(NAMES))
    for model in sys.argv[3:]:
        save(sys.argv[1], int(sys.argv[2]), model)
