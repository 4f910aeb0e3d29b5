"""Measures round trips for Python: calls a function again and again, and prints what that took."""

import sys
import time

# Connections and caches settle before that.
WARM_UP_SECONDS = 0.25


def arguments():
    """Role (`serve` or `ask`), address, port, and for how many seconds to ask."""
    role, address, port = sys.argv[1:4]
    return role, address, int(port), float(sys.argv[4]) if role == "ask" else 0.0


def measure(seconds, trip):
    """Calls `trip`, which returns when the reply is there."""
    end = time.perf_counter() + WARM_UP_SECONDS
    while time.perf_counter() < end:
        trip()
    taken = []
    now = time.perf_counter()
    end = now + seconds
    while now < end:
        sent = now
        trip()
        now = time.perf_counter()
        taken.append(now - sent)
    report(taken)


async def measure_async(seconds, trip):
    """As `measure`, for a coroutine function."""
    end = time.perf_counter() + WARM_UP_SECONDS
    while time.perf_counter() < end:
        await trip()
    taken = []
    now = time.perf_counter()
    end = now + seconds
    while now < end:
        sent = now
        await trip()
        now = time.perf_counter()
        taken.append(now - sent)
    report(taken)


def report(taken):
    """Prints the line that the benchmark reads. `taken` is in seconds."""
    taken.sort()
    p50, p99 = (taken[len(taken) * percent // 100] * 1e6 for percent in (50, 99))
    print(f"trips={len(taken)} p50_us={p50:.2f} p99_us={p99:.2f}", flush=True)
