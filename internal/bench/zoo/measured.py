"""What the workers beside this file share."""

import time


def peak():
    """Returns the most memory that the process has had, in MiB; 0 where the system does not say."""
    try:
        with open("/proc/self/status") as f:
            return next((int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


def measure(run, seconds):
    """Times the first run, two more to warm up, and then at least 20 and for so long, but no more than four times as long."""
    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    for _ in range(2):
        run()
    times, used, begin = [], [], time.perf_counter()
    while len(times) < 20 or time.perf_counter() - begin < seconds:
        start, cpu = time.perf_counter(), time.process_time()
        run()
        times.append((time.perf_counter() - start) * 1e3)
        used.append((time.process_time() - cpu) * 1e3)
        if len(times) >= 5 and time.perf_counter() - begin > 4 * seconds:
            break
    return {"first_ms": first * 1e3, "run_ms": times, "cpu_ms": used, "peak_mib": peak()}
