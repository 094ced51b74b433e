"""Asks a server by KServe's clients over REST and gRPC for all that they can ask.

    python kserveclients.py REST-ADDRESS GRPC-ADDRESS

The server has the models digits (the quickstart's) and echo_<datatype> (an Identity of shape [-1, 3] for each datatype), and
not the model echo_uint8. It ends with the line "ok".
"""
import asyncio
import sys

import grpc
import httpx
import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import RequestedOutput

rng = np.random.default_rng(1)
kinds = {
    "BOOL": lambda: rng.integers(0, 2, (4, 3)).astype(bool), "FP16": lambda: rng.normal(size=(4, 3)).astype(np.float16),
    "FP32": lambda: rng.normal(size=(4, 3)).astype(np.float32), "FP64": lambda: rng.normal(size=(4, 3)),
    "BYTES": lambda: np.array([["a", "", "ü"], ["c d", "long " * 100, "b"]], dtype=np.object_),
}
for bits in (8, 16, 32, 64):
    for name, sort in (("INT", np.dtype(f"int{bits}")), ("UINT", np.dtype(f"uint{bits}"))):
        if name + str(bits) != "UINT8":
            kinds[f"{name}{bits}"] = lambda sort=sort: rng.integers(np.iinfo(sort).min, np.iinfo(sort).max, (4, 3), dtype=sort, endpoint=True)


def expect(what, have, want):
    if have != want:
        raise SystemExit(f"{what}: {have!r}, not {want!r}")


def same(what, have, want):
    if want.dtype == np.object_:
        text = [x if isinstance(x, str) else x.decode() for x in np.asarray(have).flat]
        expect(what, (have.shape, text), (want.shape, list(want.flat)))
    elif have.dtype != want.dtype or have.shape != want.shape or have.tobytes() != want.tobytes():
        raise SystemExit(f"{what}: {have}, not {want}")


def request(model, name, kind, data, binary, output):
    x = InferInput(name, list(data.shape), kind)
    x.set_data_from_numpy(data, binary_data=binary)
    wanted = [RequestedOutput(output, parameters={"binary_data": True})] if binary else None
    return InferRequest(model, [x], request_id="r7", request_outputs=wanted)


async def fails(what, status, call):
    try:
        await call
    except grpc.RpcError as e:
        expect(f"{what}: status", e.code().name, status)
        if not e.details():
            raise SystemExit(f"{what}: no message")
    except httpx.HTTPStatusError as e:
        expect(f"{what}: status", e.response.status_code, status)
        if not e.response.json()["error"]:
            raise SystemExit(f"{what}: no message")
    else:
        raise SystemExit(f"{what}: no error")


async def rest(address):
    base = "http://" + address
    for http2 in (False, True):
        async with InferenceRESTClient(RESTConfig(protocol="v2", http2=http2)) as c:
            expect("live", await c.is_server_live(base), True)
            expect("ready", await c.is_server_ready(base), True)
            expect("model ready", await c.is_model_ready(base, "digits"), True)
            expect("unknown model", await c.is_model_ready(base, "nothing"), False)
            expect("model that is not loaded", await c.is_model_ready(base, "echo_uint8"), False)
            for kind, make in kinds.items():
                for binary in (True, False):
                    if not binary and kind == "FP16":
                        continue  # it has no form in JSON
                    data = make()
                    answer = await c.infer(base, request("echo_" + kind.lower(), "x", kind, data, binary, "y"), model_name="echo_" + kind.lower())
                    expect("id", answer.id, "r7")
                    same(f"REST {kind} {'binary' if binary else 'JSON'}", answer.outputs[0].as_numpy(), data)
            wrong = request("echo_fp32", "x", "FP64", kinds["FP64"](), True, "y")
            await fails("wrong datatype", 400, c.infer(base, wrong, model_name="echo_fp32"))
            await fails("unknown model", 404, c.infer(base, wrong, model_name="nothing"))


async def remote(address):
    async with InferenceGRPCClient(address) as c:
        expect("live", await c.is_server_live(), True)
        expect("ready", await c.is_server_ready(), True)
        expect("model ready", await c.is_model_ready("digits"), True)
        expect("model that is not loaded", await c.is_model_ready("echo_uint8"), False)
        await fails("unknown model", "NOT_FOUND", c.is_model_ready("nothing"))
        for kind, make in kinds.items():
            for raw in (True, False):
                if not raw and kind in ("FP16", "BYTES"):
                    continue  # typed contents have no FP16, and the client puts text where bytes belong
                data = make()
                answer = await c.infer(request("echo_" + kind.lower(), "x", kind, data, raw, "y"))
                expect("id", answer.id, "r7")
                same(f"gRPC {kind} {'raw' if raw else 'typed'}", answer.outputs[0].as_numpy(), data)
        wrong = request("echo_fp32", "x", "FP64", kinds["FP64"](), True, "y")
        await fails("wrong datatype", "INVALID_ARGUMENT", c.infer(wrong))


async def agree(rest_address, address):
    image = rng.random((2, 1, 8, 8), dtype=np.float32)
    q = lambda: request("digits", "image", "FP32", image, True, "probabilities")
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as r, InferenceGRPCClient(address) as g:
        one = await asyncio.gather(*[r.infer("http://" + rest_address, q(), model_name="digits") for _ in range(20)])
        other = await asyncio.gather(*[g.infer(q()) for _ in range(20)])
        for x in one + other:
            same("REST and gRPC", x.outputs[0].as_numpy(), one[0].outputs[0].as_numpy())


async def all_of_it():
    await rest(sys.argv[1])
    await remote(sys.argv[2])
    await agree(sys.argv[1], sys.argv[2])


asyncio.run(all_of_it())
print("ok")
