"""Times MXNet on one model: one process, driven by a benchmark.

usage: worker.py PREFIX SECONDS CLOCK, with OMP_NUM_THREADS set. PREFIX-symbol.json, PREFIX-0000.params and PREFIX-inputs.npz are read.

Prints one JSON object: create_ms, from loading to the first results, and run_ms, the times of the timed runs, by CLOCK: wall, or
processor, which counts the time of all threads.
"""
import json
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")
import mxnet as mx  # noqa: E402

prefix, seconds = sys.argv[1], float(sys.argv[2])
clock = {"wall": time.perf_counter, "processor": time.process_time}[sys.argv[3]]
inputs = dict(np.load(prefix + "-inputs.npz"))
feeds = {k: mx.nd.array(v) for k, v in inputs.items()}
mx.nd.waitall()

start = clock()
symbol = mx.sym.load(prefix + "-symbol.json")
stored = mx.nd.load(prefix + "-0000.params")
executor = symbol.simple_bind(mx.cpu(), grad_req="null", **{k: v.shape for k, v in inputs.items()})
args = {k[4:]: v for k, v in stored.items() if k.startswith("arg:")}
aux = {k[4:]: v for k, v in stored.items() if k.startswith("aux:")}
executor.copy_params_from(args, aux, allow_extra_params=True)


def forward():
    for x in executor.forward(is_train=False, **feeds):
        x.wait_to_read()


forward()
create = clock() - start
for _ in range(3):
    forward()
times, begin = [], time.perf_counter()
while len(times) < 20 or time.perf_counter() - begin < seconds:
    start = clock()
    forward()
    times.append((clock() - start) * 1e3)
    if len(times) >= 5 and time.perf_counter() - begin > 4 * seconds:
        break
print(json.dumps({"version": mx.__version__, "create_ms": create * 1e3, "run_ms": times}))
