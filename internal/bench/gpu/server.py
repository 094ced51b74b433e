"""What a rival's process says, and when: it reads requests, lines of JSON, and answers each with a line, as carve's processes do."""

import importlib
import json
import os
import pathlib
import sys
import time

import numpy as np

KINDS = {"OutOfMemoryError": "memory", "MemoryError": "memory", "NotImplementedError": "unsupported", "ImportError": "absent", "ModuleNotFoundError": "absent"}


def kind(e):
    """Returns the kind of fault that an exception is."""
    text = str(e)
    if "out of memory" in text or "RESOURCE_EXHAUSTED" in text:
        return "memory"
    if "illegal memory access" in text or "unspecified launch failure" in text:
        return "lost"
    return next((KINDS[c.__name__] for c in type(e).__mro__ if c.__name__ in KINDS), "failed")


def feeds(folder):
    """Returns the inputs in a folder, by name."""
    return {f.name[: -len(".npy")]: np.load(f) for f in sorted(pathlib.Path(folder).glob("*.npy"))}


def save(folder, results):
    """Writes results to a folder, by name; floats as float32."""
    out = pathlib.Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    for name, x in results.items():
        np.save(out / (name.replace("/", "_") + ".npy"), np.asarray(x))


def turn(run, seconds):
    """Runs once to warm up, and then for so many seconds, but three times at least; returns milliseconds of each run."""
    run()
    times, begin = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def serve(framework):
    """Answers requests. The framework, a module, has load, which takes a request's particulars and returns (run, results, version): run waits for
    the end of its work, results gives the outputs of a run as arrays by name; and drop, after which nothing is loaded."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    module = run = results = None
    for line in sys.stdin:
        r = json.loads(line)
        try:
            module = module or importlib.import_module(framework)
            if r["op"] == "load":
                start = time.perf_counter()
                run, results, version = module.load(r["load"])
                create = time.perf_counter() - start
                start = time.perf_counter()
                save(r["load"]["out"], results())
                first = time.perf_counter() - start
                run()
                run()
                a = {"ready": {"version": version, "create_ms": create * 1e3, "first_ms": first * 1e3}}
            elif r["op"] == "turn":
                a = {"run_ms": turn(run, r.get("seconds", 0))}
            else:
                run = results = None
                module.drop()
                a = {}
        except Exception as e:  # whatever it is, it is the answer
            a = {"error": {"kind": kind(e), "text": f"{type(e).__name__}: {e}"[:600]}}
        print(json.dumps(a), file=out, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
