"""Stamps a piece of work with the machine's clock: when it began, within which bound that is true,
and how long it took.

    python3 read_clock.py [PAGE]        # needs the wheel: cargo xtask wheel
"""

import sys

import tickclock


def acquire() -> None:
    sum(range(1_000_000))


def main() -> int:
    try:
        clock = tickclock.Clock(*sys.argv[1:2])
    except OSError as error:
        print(f"no clock: {error}; is `tickwire clock run` running?", file=sys.stderr)
        return 1
    try:
        began = clock.now()
        acquire()
        span = clock.elapsed(began.counter, clock.now().counter)
    except tickclock.Unknown as unknown:
        print(unknown, file=sys.stderr)
        return 3
    print(
        f"began at {began.utc_ns} ns, between {began.earliest_ns} and {began.latest_ns};"
        f" took {span} ns"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
