"""Asks a server by NVIDIA's tritonclient for everything that the server claims, over HTTP and gRPC.

    python triton.py HTTP-ADDRESS GRPC-ADDRESS

The server has the models digits (the quickstart's), echo_<datatype> (an Identity of shape [-1, 3] for each datatype) and
total (a sequence's running sum), and runs with -model-control explicit. It ends with the line "ok".
"""
import queue
import sys

import ml_dtypes
import numpy as np
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.utils import InferenceServerException

rng = np.random.default_rng(1)
kinds = {
    "BOOL": lambda: rng.integers(0, 2, (4, 3)).astype(bool), "FP16": lambda: rng.normal(size=(4, 3)).astype(np.float16),
    "FP32": lambda: rng.normal(size=(4, 3)).astype(np.float32), "FP64": lambda: rng.normal(size=(4, 3)),
    "BYTES": lambda: np.array([["a", "", "ü"], ["\0\1", "long " * 100, "b"]], dtype=np.object_),
    "BF16": lambda: rng.normal(size=(4, 3)).astype(ml_dtypes.bfloat16),
}
for bits in (8, 16, 32, 64):
    for name, sort in (("INT", np.dtype(f"int{bits}")), ("UINT", np.dtype(f"uint{bits}"))):
        kinds[f"{name}{bits}"] = lambda sort=sort: rng.integers(np.iinfo(sort).min, np.iinfo(sort).max, (4, 3), dtype=sort, endpoint=True)


def expect(what, have, want):
    if have != want:
        raise SystemExit(f"{what}: {have!r}, not {want!r}")


def fails(what, status, call):
    try:
        call()
    except InferenceServerException as e:
        expect(f"{what}: status", e.status(), status)
        if not e.message():
            raise SystemExit(f"{what}: no message")
        return
    raise SystemExit(f"{what}: no error")


def same(what, have, want):
    if want.dtype == np.object_:
        want = np.array([x.encode() for x in want.flat], dtype=np.object_).reshape(want.shape)
        have = np.array([x if isinstance(x, bytes) else x.encode() for x in have.flat], dtype=np.object_).reshape(have.shape)
        expect(what, have.tolist(), want.tolist())
        return
    if have.dtype != want.dtype or have.shape != want.shape or have.tobytes() != want.tobytes():
        raise SystemExit(f"{what}: {have}, not {want}")


def common(m, c, http):
    expect("live", c.is_server_live(), True)
    expect("ready", c.is_server_ready(), True)
    expect("model ready", c.is_model_ready("digits"), True)
    expect("version ready", c.is_model_ready("digits", "1"), True)
    meta, config = c.get_model_metadata("digits"), c.get_model_config("digits")
    server, index, stats = c.get_server_metadata(), c.get_model_repository_index(), c.get_inference_statistics("digits")
    if http:
        expect("metadata", meta["inputs"], [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}])
        expect("config", config["input"][0]["data_type"], "TYPE_FP32")
        expect("index", "digits" in [x["name"] for x in index], True)
        expect("stats", stats["model_stats"][0]["name"], "digits")
        expect("server", server["name"], "carve")
    else:
        expect("metadata", (meta.inputs[0].name, meta.inputs[0].datatype, list(meta.inputs[0].shape)), ("image", "FP32", [-1, 1, 8, 8]))
        expect("config", (config.config.name, config.config.input[0].data_type, list(config.config.output[0].dims)), ("digits", 11, [-1, 10]))
        expect("index", "digits" in [x.name for x in index.models], True)
        expect("stats", stats.model_stats[0].name, "digits")
        expect("server", server.name, "carve")
        expect("extensions", "binary_tensor_data" in server.extensions, True)
    missing, wrong = ("404", "400") if http else ("StatusCode.NOT_FOUND", "StatusCode.INVALID_ARGUMENT")
    fails("unknown model", missing, lambda: c.get_model_metadata("nothing"))
    fails("unknown version", missing, lambda: c.get_model_metadata("digits", "7"))
    x = m.InferInput("image", [2, 1, 8, 8], "FP64")
    x.set_data_from_numpy(np.zeros((2, 1, 8, 8)))
    fails("wrong datatype", wrong, lambda: c.infer("digits", [x]))
    x = m.InferInput("image", [2, 1, 8, 9], "FP32")
    x.set_data_from_numpy(np.zeros((2, 1, 8, 9), np.float32))
    fails("wrong shape", wrong, lambda: c.infer("digits", [x]))
    fails("no input", wrong, lambda: c.infer("digits", []))
    fails("unknown model", missing, lambda: c.infer("nothing", [x]))
    c.unload_model("echo_fp64")
    expect("unloaded", [x["state"] if http else x.state for x in (c.get_model_repository_index() if http else c.get_model_repository_index().models)
                        if (x["name"] if http else x.name) == "echo_fp64"], ["UNAVAILABLE"])
    c.load_model("echo_fp64")
    expect("loaded", c.is_model_ready("echo_fp64"), True)
    c.load_model("echo_fp32", config='{"max_batch_size": 4}')
    fails("batch above the limit", wrong, lambda: echo(m, c, "FP32", np.zeros((5, 3), np.float32)))
    c.load_model("echo_fp32", config="{}")
    fails("load of nothing", missing, lambda: c.load_model("nothing"))


def echo(m, c, kind, data, binary=None, **more):
    x = m.InferInput("x", list(data.shape), kind)
    outputs = None
    if binary is None:
        x.set_data_from_numpy(data)
    else:
        x.set_data_from_numpy(data, binary_data=binary)
        outputs = [m.InferRequestedOutput("y", binary_data=binary)]
    r = c.infer("echo_" + kind.lower(), [x], outputs=outputs, request_id="r7", **more)
    expect("id", r.get_response()["id"] if m is th else r.get_response().id, "r7")
    return r.as_numpy("y")


def classes(m, c):
    x = m.InferInput("image", [1, 1, 8, 8], "FP32")
    x.set_data_from_numpy(np.full((1, 1, 8, 8), .5, np.float32))
    r = c.infer("digits", [x], outputs=[m.InferRequestedOutput("probabilities", class_count=3)])
    best = c.infer("digits", [x]).as_numpy("probabilities").ravel()
    order = np.argsort(-best, kind="stable")[:3]
    expect("classes", [v.decode() for v in r.as_numpy("probabilities").ravel()], [f"{best[i]:f}:{i}" for i in order])


def total(m, c, sequence, start):
    def step(v, **flags):
        x = m.InferInput("x", [1], "FP32")
        x.set_data_from_numpy(np.array([v], np.float32))
        return float(c.infer("total", [x], sequence_id=sequence, **flags).as_numpy("y")[0])
    expect("sum", [step(1, sequence_start=True), step(2), step(4, sequence_end=True)], [1, 3, 7])
    fails("after its end", "400" if m is th else "StatusCode.INVALID_ARGUMENT", lambda: step(1))


def stream(c):
    answers = queue.Queue()
    c.start_stream(lambda result, error: answers.put((result, error)))
    for i in range(50):
        x = tg.InferInput("x", [1, 3], "INT64")
        x.set_data_from_numpy(np.full((1, 3), i, np.int64))
        c.async_stream_infer("echo_int64" if i != 20 else "nothing", [x], request_id=str(i), enable_empty_final_response=i % 2 == 1)
    for i in range(50):
        result, error = answers.get(timeout=30)
        if i == 20:
            expect("error in a stream", error is not None, True)
        else:
            expect("order", int(result.as_numpy("y")[0, 0]), i)
            expect("last answer", result.get_response().parameters["triton_final_response"].bool_param, i % 2 == 1)
    c.stop_stream()


with th.InferenceServerClient(sys.argv[1]) as h, tg.InferenceServerClient(sys.argv[2]) as g:
    common(th, h, True)
    common(tg, g, False)
    for kind, make in kinds.items():
        for _ in range(3):
            data = make()
            same(f"{kind} gRPC", echo(tg, g, kind, data), data)
            same(f"{kind} HTTP", echo(th, h, kind, data, True), data)
            for algorithm in ("gzip", "deflate"):
                have = echo(th, h, kind, data, True, request_compression_algorithm=algorithm, response_compression_algorithm=algorithm)
                same(f"{kind} {algorithm}", have, data)
            same(f"{kind} gRPC gzip", echo(tg, g, kind, data, compression_algorithm="gzip"), data)
            if kind not in ("FP16", "BF16") and (kind != "BYTES" or "\0" not in str(data)):
                same(f"{kind} JSON", echo(th, h, kind, data, False), data)
    fails("FP16 in JSON", "400", lambda: h.infer("echo_fp16", [(x := th.InferInput("x", [1, 3], "FP16"), x.set_data_from_numpy(np.zeros((1, 3), np.float16)))[0]], outputs=[th.InferRequestedOutput("y", binary_data=False)]))
    for m, c in ((th, h), (tg, g)):
        classes(m, c)
        total(m, c, 5, True)
        total(m, c, "five", True)
    stream(g)
    pending = [h.async_infer("digits", [(x := th.InferInput("image", [1, 1, 8, 8], "FP32"), x.set_data_from_numpy(np.zeros((1, 1, 8, 8), np.float32)))[0]]) for _ in range(20)]
    for p in pending:
        p.get_result()
print("ok")
