"""What the workers beside this file share."""

import json
import sys
import time


def peak():
    """Returns the most memory that the process has had, in MiB; 0 where the system does not say."""
    try:
        with open("/proc/self/status") as f:
            return next((int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


def measure(run, began, turns, seconds):
    """Times the first run, and two more to warm up; prints that and what is known of the beginning; and times runs for every line that it reads."""
    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    for _ in range(2):
        run()
    print(json.dumps({**began, "first_ms": first * 1e3, "peak_mib": peak()}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(turn(run, max(20 // turns, 1), seconds / turns)), flush=True)


def turn(run, least, seconds):
    """Runs once to warm up, and then at least so often and for so long, but no more than four times as long."""
    run()
    times, used, begin = [], [], time.perf_counter()
    while len(times) < least or time.perf_counter() - begin < seconds:
        start, cpu = time.perf_counter(), time.process_time()
        run()
        times.append((time.perf_counter() - start) * 1e3)
        used.append((time.process_time() - cpu) * 1e3)
        if len(times) >= min(least, 5) and time.perf_counter() - begin > 4 * seconds:
            break
    return {"run_ms": times, "cpu_ms": used}
