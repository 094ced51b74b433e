"""Writes models of GreedySearch, Sampling, BeamSearch and WhisperBeamSearch around small random decoders, and what ONNX Runtime computes of them, in the form of ONNX's own test
data. Usage: search.py FOLDER SEED COUNT"""
import os
import sys

if os.environ.get("MALLOC_PERTURB_") != "90":  # fills memory, so that what ONNX Runtime leaves as it was is seen: see written
    os.execve(sys.executable, [sys.executable] + sys.argv, dict(os.environ, MALLOC_PERTURB_="90"))

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T, helper as h, numpy_helper

rng = np.random.default_rng(int(sys.argv[2]))
INT, FLOAT = T.INT32, T.FLOAT


class Graph:
    """A graph of nodes that are added by calls: g.Add(x, y) gives the name of a result."""

    def __init__(self):
        self.nodes, self.consts, self.n = [], [], 0

    def const(self, x):
        self.n += 1
        self.consts.append(numpy_helper.from_array(np.asarray(x), f"c{self.n}"))
        return f"c{self.n}"

    def call(self, op, *ins, name=None, **attrs):
        self.n += 1
        name = name or f"v{self.n}"
        self.nodes.append(h.make_node(op, list(ins), [name], **attrs))
        return name

    def __getattr__(self, op):
        return lambda *ins, **attrs: self.call(op, *ins, **attrs)

    def graph(self, name, ins, outs):
        info = lambda l: [h.make_tensor_value_info(n, t, s) for n, t, s in l]
        return h.make_graph(self.nodes, name, info(ins), info(outs), self.consts)


class Net:
    """Attention of H heads of D numbers on tokens of V kinds."""

    def __init__(self, V, H, D, layers):
        self.V, self.H, self.D, self.layers = V, H, D, layers
        f = lambda *s: rng.standard_normal(s).astype(np.float32)
        C = H * D
        self.E, self.P, self.O = f(V, C), f(64, C), f(C, V)
        self.W = [[f(C, C) / C**0.5 for _ in range(6)] for _ in range(layers)]

    def split(self, g, x, w):
        y = g.Reshape(g.MatMul(x, g.const(w)), g.const(np.array([0, 0, self.H, self.D])))
        return g.Transpose(y, perm=[0, 2, 1, 3])

    def attend(self, g, x, wq, k, v, mask=None):
        s = g.MatMul(self.split(g, x, wq), g.Transpose(k, perm=[0, 1, 3, 2]))
        if mask:
            s = g.Add(s, g.Mul(g.Sub(g.const(np.float32(1)), g.Unsqueeze(g.Cast(mask, to=FLOAT), g.const(np.array([1, 2])))), g.const(np.float32(-1e4))))
        y = g.Transpose(g.MatMul(g.Softmax(s, axis=-1), v), perm=[0, 2, 1, 3])
        return g.Add(x, g.Reshape(y, g.const(np.array([0, 0, self.H * self.D]))))

    def logits(self, g, x):
        return g.call("Add", g.MatMul(x, g.const(self.O)), g.const(self.bias), name="logits")

    def gpt(self):
        g, past, present = Graph(), [], []
        x = g.Add(g.Gather(g.const(self.E), "input_ids"), g.Gather(g.const(self.P), "position_ids"))
        for i, w in enumerate(self.W):
            kv = g.Concat(*[g.Unsqueeze(self.split(g, x, w[j]), g.const(np.array([0]))) for j in (1, 2)], axis=0)
            kv = g.call("Concat", f"past_{i}", kv, name=f"present_{i}", axis=3)
            x = self.attend(g, x, w[0], g.Gather(kv, g.const(0)), g.Gather(kv, g.const(1)), "attention_mask")
            past.append((f"past_{i}", FLOAT, [2, "b", self.H, "p", self.D]))
            present.append((f"present_{i}", FLOAT, [2, "b", self.H, "t", self.D]))
        self.logits(g, x)
        return g.graph("decoder", [("input_ids", INT, ["b", "s"]), ("position_ids", INT, ["b", "s"]), ("attention_mask", INT, ["b", "t"])] + past,
                       [("logits", FLOAT, ["b", "s", self.V])] + present)

    def decode(self, g, ids, mask, past, cross):
        """Tokens behind others: past and cross are names of keys and values of layers."""
        x, outs = g.Gather(g.const(self.E), ids), []
        for i, w in enumerate(self.W):
            kv = [self.split(g, x, w[j]) for j in (1, 2)]
            kv = [g.call("Concat" if past else "Identity", *([p] if past else []), y, name=f"present_{n}_self_{i}", **({"axis": 2} if past else {}))
                  for n, y, p in zip(("key", "value"), kv, past[i] if past else (None, None))]
            outs += kv
            x = self.attend(g, x, w[0], *kv)
            x = self.attend(g, x, w[3], *cross[i], mask)
        self.logits(g, x)
        return outs

    def kv(self, prefix, kind, dim):
        return [(f"{prefix}_{n}_{kind}_{i}", FLOAT, ["b", self.H, dim, self.D]) for i in range(self.layers) for n in ("key", "value")]

    def encoder(self, old):
        g = Graph()
        x = g.Gather(g.const(self.P), "encoder_input_ids")
        cross = [[g.call("Identity", self.split(g, x, w[j]), name=f"present_{n}_cross_{i}") for j, n in ((4, "key"), (5, "value"))] for i, w in enumerate(self.W)]
        ins, outs = [("encoder_input_ids", INT, ["b", "e"]), ("encoder_attention_mask", INT, ["b", "e"])], self.kv("present", "cross", "e")
        if old:
            self.decode(g, "decoder_input_ids", "encoder_attention_mask", None, cross)
            g.call("Identity", x, name="encoder_hidden_states")
            ins += [("decoder_input_ids", INT, ["b", 1])]
            outs = [("logits", FLOAT, ["b", 1, self.V]), ("encoder_hidden_states", FLOAT, ["b", "e", self.H * self.D])] + self.kv("present", "self", 1) + outs
        return g.graph("encoder", ins, outs)

    def listener(self, features):
        """An encoder of features [b, features, e], which reads the decoder's first tokens."""
        g = Graph()
        x = g.MatMul(g.Transpose("encoder_input_ids", perm=[0, 2, 1]), g.const(self.P[:features]))
        cross = [[g.call("Identity", self.split(g, x, w[j]), name=f"present_{n}_cross_{i}") for j, n in ((4, "key"), (5, "value"))] for i, w in enumerate(self.W)]
        self.decode(g, "decoder_input_ids", None, None, cross)
        g.call("Identity", x, name="encoder_hidden_states")
        ins = [("encoder_input_ids", FLOAT, ["b", features, "e"]), ("decoder_input_ids", INT, ["b", "s"])]
        return g.graph("encoder", ins, [("logits", FLOAT, ["b", "s", self.V]), ("encoder_hidden_states", FLOAT, ["b", "e", self.H * self.D])] +
                       self.kv("present", "self", "s") + self.kv("present", "cross", "e"))

    def decoder(self, masked=True):
        g = Graph()
        pairs = lambda kind: [(f"past_key_{kind}_{i}", f"past_value_{kind}_{i}") for i in range(self.layers)]
        self.decode(g, "input_ids", "encoder_attention_mask" if masked else None, pairs("self"), pairs("cross"))
        return g.graph("decoder", [("input_ids", INT, ["b", 1])] + [("encoder_attention_mask", INT, ["b", "e"])] * masked + self.kv("past", "self", "p") + self.kv("past", "cross", "e"),
                       [("logits", FLOAT, ["b", 1, self.V])] + self.kv("present", "self", "t"))


def model(kind):
    pick = lambda *l: l[rng.integers(len(l))]
    beam, sound, random = kind in ("beam", "whisper"), kind == "whisper", kind == "sampling"
    V, t5 = int(rng.integers(24, 40)), kind == "beam" and rng.random() < 0.5
    net = Net(V, int(rng.integers(1, 3)), int(rng.integers(2, 5)), int(rng.integers(1, 3)))
    net.O *= np.float32(pick(0.3, 1, 2))
    batch, length = int(rng.integers(1, 4)), int(rng.integers(1, 6))
    begin = rng.integers(0, V, (batch, int(rng.integers(1, 4)))).astype(np.int32) if sound else None
    longest = (1 if t5 else begin.shape[1] if sound else length) + int(rng.integers(1, 9))
    beams = int(rng.integers(1, 5))
    pad = int(rng.integers(V))
    net.bias = np.where(np.arange(V) == pad, -1e3, 0).astype(np.float32)  # which is then padding wherever it is
    attrs = {"eos_token_id": int(rng.integers(V)), "pad_token_id": pad, "model_type": 2 if sound else int(t5), "no_repeat_ngram_size": int(pick(0, 0, 0, 2, 3))}
    ids = rng.integers(0, V, (batch, length)).astype(np.int32)
    if rng.random() < 0.5:
        ids[0, : length - 1] = pad
    if sound:
        ids = rng.standard_normal((batch, 5, length)).astype(np.float32)
    one = lambda dt, v: np.array([v], dt)
    penalty = one(np.float32, pick(1, 1, 1.3, 0.8))
    least = one(np.int32, pick(0, 0, longest - 1))
    vocab = (rng.random(V) < 0.8).astype(np.int32)  # which leaves enough of them: the order of those that are not admitted is nobody's
    prefix = (rng.random((batch, V)) < 0.8).astype(np.int32)
    vocab[:9], prefix[:, :9] = 1, 1
    mask = np.ones((batch, length), np.int32)
    mask[0, : length - 1] = pick(0, 1)
    some = lambda x: x if rng.random() < 0.4 else None
    if beam:
        attrs["early_stopping"] = int(rng.integers(2))
        feeds = [("input_ids", ids), ("max_length", one(np.int32, longest)), ("min_length", least), ("num_beams", one(np.int32, beams)),
                 ("num_return_sequences", one(np.int32, rng.integers(1, beams + 1))), ("length_penalty", one(np.float32, pick(1, 0.5, 2))), ("repetition_penalty", penalty)]
    else:
        feeds = [("input_ids", ids), ("max_length", one(np.int32, longest)), ("min_length", least), ("repetition_penalty", penalty)]
    feeds += [("vocab_mask", some(vocab)), ("prefix_vocab_mask", some(prefix)), ("attention_mask", None if sound else some(mask))]
    op = {"beam": "BeamSearch", "greedy": "GreedySearch", "whisper": "BeamSearch", "sampling": "Sampling"}[kind]
    if sound:
        attrs.update(encoder=net.listener(5), decoder=net.decoder(False), decoder_start_token_id=int(rng.integers(V)))
        feeds += [("decoder_input_ids", begin)]
        if rng.random() < 0.7:
            op = "WhisperBeamSearch"
            ends = int(rng.integers(6, 12))
            attrs.update(eos_token_id=ends, decoder_start_token_id=ends + 1, translate_token_id=ends + 2, transcribe_token_id=ends + 3, start_of_lm_token_id=ends + 4,
                         no_timestamps_token_id=ends + 5, beginning_timestamp_token_id=ends + 6)
            feeds += [("logits_processor", one(np.int32, pick(0, 1))), ("", None), ("", None), ("temperature", some(one(np.float32, pick(0.7, 1, 1.5))))]
    elif t5:
        attrs.update(encoder=net.encoder(False), decoder=net.decoder(), decoder_start_token_id=int(rng.integers(V)))
    else:
        attrs["decoder"] = net.gpt()
        if rng.random() < 0.3:
            attrs["init_decoder"] = net.gpt()
    if random:
        attrs.update(temperature=float(pick(0.7, 1, 1.5)), top_p=float(pick(0.3, 0.6, 0.95)), custom=int(rng.integers(2)), min_tokens_to_keep=int(pick(1, 2)))
        feeds += [("presence_mask", None), ("seed", one(np.int32, rng.integers(0, 2**31 - 1)))]
    outs = ["sequences", "sequences_scores", "scores"][: 1 + int(beam) + int(beam and rng.random() < 0.3)]
    node = h.make_node(op, [n if x is not None else "" for n, x in feeds], outs, domain="com.microsoft", **attrs)
    feeds = [(n, x) for n, x in feeds if x is not None]
    fixed = [n for n, x in feeds if n == "logits_processor" or n not in ("input_ids", "attention_mask", "prefix_vocab_mask", "decoder_input_ids") and rng.random() < 0.5]
    info = [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(x.dtype), x.shape if x.ndim == 1 and n != "vocab_mask" else [None] * x.ndim) for n, x in feeds if n not in fixed]
    out = [h.make_tensor_value_info("sequences", INT, [None] * (3 if beam else 2)), h.make_tensor_value_info("sequences_scores", FLOAT, [None, None]),
           h.make_tensor_value_info("scores", FLOAT, [None] * 4)][: len(outs)]
    g = h.make_graph([node], "search", info, out, [numpy_helper.from_array(x, n) for n, x in feeds if n in fixed])
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)], ir_version=8)
    other = onnx.ModelProto()
    other.CopyFrom(m)
    if t5 and rng.random() < 0.5:  # as older tools write it. ONNX Runtime 1.31 reads memory there that it has not written, so that its results are of the newer form
        for a in other.graph.node[0].attribute:
            if a.name == "encoder":
                a.g.CopyFrom(net.encoder(True))
    return m, other, {n: x for n, x in feeds if n not in fixed}, length, pad


def padded(y, pad, prompt):
    """What GreedySearch leaves as it was in memory, behind the step that ends the last row, is padding."""
    for i in range(prompt, y.shape[1]):
        if (y[:, i] == pad).all():
            y[:, i:] = pad
            return


def written(y):
    """Scores of steps that were not run, whose memory ONNX Runtime does not write, are 0."""
    y[y.view(np.uint32) == 0xA5A5A5A5] = 0


def write(path, name, value):
    with open(path, "wb") as f:
        f.write(numpy_helper.from_array(value, name).SerializeToString())


onnxruntime.set_default_logger_severity(4)
for kind in ("beam", "greedy", "whisper", "sampling"):
    for i in range(int(sys.argv[3])):
        m, saved, feeds, given, pad = model(kind)
        folder = os.path.join(sys.argv[1], f"{kind}_{i}")
        try:
            options = onnxruntime.SessionOptions()
            options.enable_cpu_mem_arena = False
            results = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)
        except Exception as e:  # what ONNX Runtime itself turns down is no case
            print("skipped", folder, str(e).splitlines()[0][:200], file=sys.stderr)
            continue
        at = os.path.join(folder, "test_data_set_0")
        os.makedirs(at)
        onnx.save(saved, os.path.join(folder, "model.onnx"))
        if kind in ("greedy", "sampling"):
            padded(results[0], pad, given)
        if len(results) > 2:
            written(results[2])
        for k, (name, x) in enumerate(feeds.items()):
            write(os.path.join(at, f"input_{k}.pb"), name, x)
        for k, (o, y) in enumerate(zip(m.graph.output, results)):
            write(os.path.join(at, f"output_{k}.pb"), o.name, y)
