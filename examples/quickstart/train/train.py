"""Trains the quickstart's model and writes digits.onnx and testdata/digit-N.png.

The data are the 1,797 handwritten digits of 8 by 8 grey pixels that scikit-learn bundles (the test set of "Optical
Recognition of Handwritten Digits", UCI Machine Learning Repository, CC BY 4.0). The network is

    Conv 3x3 (1 to 16), Relu, MaxPool 2x2, Conv 3x3 (16 to 32), Relu, MaxPool 2x2, Flatten, Gemm (128 to 10), Softmax

trained in numpy with Adam on 1,437 of the images; accuracy on the 360 others is printed and stored in the model. The seed
is fixed, so that the same versions of the libraries give the same file.

    python -m venv venv && venv/bin/pip install -r requirements.txt && venv/bin/python train.py
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED, EPOCHS, BATCH, RATE = 1, 60, 32, 2e-3
FOLDER = pathlib.Path(__file__).resolve().parent.parent


def patches(x):
    """Returns the 3x3 neighbourhoods of x [N, C, H, W], zeros outside, as [N, H, W, C*9]."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = [padded[:, :, i : i + h, j : j + w] for i in range(3) for j in range(3)]
    return np.stack(taps, axis=2).transpose(0, 3, 4, 1, 2).reshape(n, h, w, c * 9)


def conv(x, w, b):
    """Returns the convolution [N, K, H, W] and what its gradient needs."""
    cols = patches(x)
    y = cols @ w.reshape(len(w), -1).T + b
    return y.transpose(0, 3, 1, 2), cols


def conv_gradient(dy, cols, w):
    """Returns the gradients by input, weight and bias."""
    n, k, h, width = dy.shape
    d = dy.transpose(0, 2, 3, 1)
    dw = np.tensordot(d, cols, axes=([0, 1, 2], [0, 1, 2])).reshape(w.shape)
    c = w.shape[1]
    taps = (d @ w.reshape(k, -1)).reshape(n, h, width, c, 3, 3)
    padded = np.zeros((n, c, h + 2, width + 2))
    for i in range(3):
        for j in range(3):
            padded[:, :, i : i + h, j : j + width] += taps[..., i, j].transpose(0, 3, 1, 2)
    return padded[:, :, 1:-1, 1:-1], dw, d.sum(axis=(0, 1, 2))


def pool(x):
    """Returns the 2x2 maxima and the mask of where they were."""
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
    y = blocks.max(axis=(3, 5))
    mask = blocks == y[:, :, :, None, :, None]
    return y, mask / mask.sum(axis=(3, 5), keepdims=True)


def pool_gradient(dy, mask):
    n, c, h, _, w, _ = mask.shape
    return (mask * dy[:, :, :, None, :, None]).reshape(n, c, 2 * h, 2 * w)


def forward(p, x):
    a1, c1 = conv(x, p["w1"], p["b1"])
    p1, m1 = pool(np.maximum(a1, 0))
    a2, c2 = conv(p1, p["w2"], p["b2"])
    p2, m2 = pool(np.maximum(a2, 0))
    flat = p2.reshape(len(x), -1)
    return flat @ p["w3"] + p["b3"], (a1, c1, m1, a2, c2, m2, flat, p2.shape)


def gradients(p, x, labels):
    logits, (a1, c1, m1, a2, c2, m2, flat, shape) = forward(p, x)
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    d = e / e.sum(axis=1, keepdims=True)
    d[np.arange(len(x)), labels] -= 1
    d /= len(x)
    g = {"w3": flat.T @ d, "b3": d.sum(axis=0)}
    da2 = pool_gradient((d @ p["w3"].T).reshape(shape), m2) * (a2 > 0)
    dp1, g["w2"], g["b2"] = conv_gradient(da2, c2, p["w2"])
    da1 = pool_gradient(dp1, m1) * (a1 > 0)
    _, g["w1"], g["b1"] = conv_gradient(da1, c1, p["w1"])
    return g


def shifted(x, rng):
    """Returns the images moved by up to one pixel, which makes up for their small number."""
    out = np.zeros_like(x)
    for i, (dy, dx) in enumerate(rng.integers(-1, 2, size=(len(x), 2))):
        padded = np.pad(x[i, 0], 1)
        out[i, 0] = padded[1 + dy : 9 + dy, 1 + dx : 9 + dx]
    return out


def train(x, labels, rng):
    def he(*shape, fan):
        return rng.normal(0, np.sqrt(2 / fan), shape)

    p = {
        "w1": he(16, 1, 3, 3, fan=9), "b1": np.zeros(16),
        "w2": he(32, 16, 3, 3, fan=144), "b2": np.zeros(32),
        "w3": he(128, 10, fan=128), "b3": np.zeros(10),
    }
    m = {k: np.zeros_like(v) for k, v in p.items()}
    s = {k: np.zeros_like(v) for k, v in p.items()}
    t = 0
    for epoch in range(EPOCHS):
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        order = rng.permutation(len(x))
        for i in range(0, len(x), BATCH):
            pick = order[i : i + BATCH]
            t += 1
            for k, g in gradients(p, shifted(x[pick], rng), labels[pick]).items():
                m[k] = 0.9 * m[k] + 0.1 * g
                s[k] = 0.999 * s[k] + 0.001 * g * g
                p[k] -= rate * (m[k] / (1 - 0.9**t)) / (np.sqrt(s[k] / (1 - 0.999**t)) + 1e-8)
    return p


def model(p, accuracy):
    def weight(name, value):
        return numpy_helper.from_array(np.ascontiguousarray(value, dtype=np.float32), name)

    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    node = helper.make_node
    graph = helper.make_graph(
        [
            node("Conv", ["image", "conv1.weight", "conv1.bias"], ["conv1.out"], "conv1", **same),
            node("Relu", ["conv1.out"], ["relu1.out"], "relu1"),
            node("MaxPool", ["relu1.out"], ["pool1.out"], "pool1", **window),
            node("Conv", ["pool1.out", "conv2.weight", "conv2.bias"], ["conv2.out"], "conv2", **same),
            node("Relu", ["conv2.out"], ["relu2.out"], "relu2"),
            node("MaxPool", ["relu2.out"], ["pool2.out"], "pool2", **window),
            node("Flatten", ["pool2.out"], ["flat"], "flatten", axis=1),
            node("Gemm", ["flat", "dense.weight", "dense.bias"], ["logits"], "dense"),
            node("Softmax", ["logits"], ["probabilities"], "softmax", axis=1),
        ],
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10])],
        [
            weight("conv1.weight", p["w1"]), weight("conv1.bias", p["b1"]),
            weight("conv2.weight", p["w2"]), weight("conv2.bias", p["b2"]),
            weight("dense.weight", p["w3"]), weight("dense.bias", p["b3"]),
        ],
        doc_string=f"Handwritten digits, 8 by 8 pixels of 0 to 1. Accuracy on 360 images not seen in training: {accuracy:.4f}.",
    )
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="carve-quickstart")
    m.ir_version = 8
    onnx.checker.check_model(m, full_check=True)
    return m


def main():
    rng = np.random.default_rng(SEED)
    data = load_digits()
    x = (data.images / 16.0)[:, None]
    seen, unseen, seen_labels, unseen_labels = train_test_split(
        x, data.target, test_size=360, random_state=SEED, stratify=data.target)
    p = train(seen, seen_labels, rng)
    guesses = forward(p, unseen)[0].argmax(axis=1)
    accuracy = (guesses == unseen_labels).mean()
    print(f"accuracy on {len(unseen)} unseen images: {accuracy:.4f}")
    onnx.save(model(p, accuracy), FOLDER / "digits.onnx")
    (FOLDER / "testdata").mkdir(exist_ok=True)
    for digit in range(10):
        # The first unseen image of each digit, whether the model has it right or not, eight times as large.
        image = unseen[np.flatnonzero(unseen_labels == digit)[0], 0]
        pixels = np.round(image * 255).astype(np.uint8).repeat(8, axis=0).repeat(8, axis=1)
        Image.fromarray(pixels).save(FOLDER / "testdata" / f"digit-{digit}.png", optimize=True)


if __name__ == "__main__":
    main()
