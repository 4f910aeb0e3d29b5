"""Reads the machine's Tickwire clock: nanoseconds with an error bound, without a system call.

The clock is kept by ``tickwire service`` or ``tickwire clock run``; see ``tickclock.h`` for the same in C.
"""

from __future__ import annotations

import ctypes
import enum
import errno
import operator
import os
import sys
from pathlib import Path
from typing import Iterable, NamedTuple, Optional, Union

__all__ = ["Clock", "Status", "Time", "Unknown"]


class Status(enum.IntFlag):
    """The status bits of a time."""

    SYNCHRONISED = 0x001
    """The time is known: the true time is between earliest and latest."""
    WARMING_UP = 0x002
    """The rate is not well known yet."""
    HOLDOVER = 0x004
    """No server has replied for several polls."""
    STALE = 0x008
    """The daemon has died or hangs."""
    DISRUPTED = 0x010
    """The counter has broken: no server has replied since, or the value is from before."""
    TAI_KNOWN = 0x020
    """``tai_utc_s`` is right."""
    LEAP_SECOND = 0x040
    """Within 23:59:60, for which UTC repeats 23:59:59."""
    SMEARED = 0x080
    """The servers smear leap seconds."""
    RETIRED = 0x100
    """Another page has replaced this one: reopen it."""

    # From Python 3.11 on an IntFlag prints as its number.
    def __str__(self) -> str:
        """The names of the bits: ``SYNCHRONISED|TAI_KNOWN``, or ``UNKNOWN|...`` if it is unknown."""
        facts = [fact.name for fact in type(self).__members__.values() if fact in self]
        return "|".join(facts if Status.SYNCHRONISED in self else ["UNKNOWN", *facts])

    def __format__(self, form: str) -> str:
        return format(str(self), form)


class Time(NamedTuple):
    """A point in time; everything is in whole nanoseconds unless stated otherwise."""

    utc_ns: int
    """Unix time: since 1970-01-01 00:00:00 UTC, without leap seconds."""
    earliest_ns: int
    """The true time is not before this ..."""
    latest_ns: int
    """... and not after that."""
    status: Status
    tai_utc_s: int
    """TAI - UTC in seconds; right only if ``status`` has ``TAI_KNOWN``."""
    error_ns: int
    """Estimated error: one standard deviation."""
    age_ns: int
    """Since the last publication."""
    counter: int
    """The counter at that time."""
    disruptions: int
    """How often the counter has broken or the time was stepped. Store it with counter values: if it
    has changed since, they cannot be compared with current values."""

    @property
    def tai_ns(self) -> int:
        """TAI since 1970-01-01 00:00:00 TAI; right only if ``status`` has ``TAI_KNOWN``."""
        return self.utc_ns + 1_000_000_000 * self.tai_utc_s

    @property
    def ntp(self) -> int:
        """The 64 bits of an NTP time stamp (RFC 5905)."""
        seconds, ns = divmod(self.utc_ns, 1_000_000_000)
        return ((seconds + 2_208_988_800) % (1 << 32)) << 32 | ((ns << 32) // 1_000_000_000)


class Unknown(Exception):
    """The time is not known (yet). ``status`` says why."""

    def __init__(self, status: Status, why: str = "the time is not known") -> None:
        super().__init__(f"{why} ({status})")
        self.status = status


class _Time(ctypes.Structure):
    _fields_ = [
        ("utc_ns", ctypes.c_int64),
        ("earliest_ns", ctypes.c_int64),
        ("latest_ns", ctypes.c_int64),
        ("status", ctypes.c_uint32),
        ("tai_utc_s", ctypes.c_int32),
        ("error_ns", ctypes.c_uint64),
        ("age_ns", ctypes.c_int64),
        ("counter", ctypes.c_uint64),
        ("disruptions", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


def _library() -> ctypes.CDLL:
    beside = Path(__file__).with_name("libtickclock.so")
    try:
        library = ctypes.CDLL(str(beside) if beside.exists() else "libtickclock.so")
    except OSError as error:
        raise ImportError(
            f"tickclock needs libtickclock.so ({error}): install the wheel, which brings it (`cargo xtask wheel` builds it),"
            " or put the library beside the module or in LD_LIBRARY_PATH"
        ) from error
    clock, time = ctypes.c_void_p, ctypes.POINTER(_Time)
    u64, i64 = ctypes.c_uint64, ctypes.c_int64
    for name, result, arguments in (
        ("open", ctypes.c_int, [ctypes.POINTER(clock), ctypes.c_char_p]),
        ("close", None, [clock]),
        ("now", ctypes.c_int, [clock, time]),
        ("at", ctypes.c_int, [clock, u64, time]),
        ("convert", ctypes.c_int, [clock, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]),
        ("counter", u64, [clock]),
        ("elapsed", ctypes.c_int, [clock, u64, u64, ctypes.POINTER(i64)]),
        ("wait_until", ctypes.c_int, [clock, i64, time]),
    ):
        function = getattr(library, "tickclock_" + name)
        function.restype, function.argtypes = result, arguments
    return library


_lib = _library()


# The meaning of tickclock_open's return values (tickclock.h), where strerror does not explain it.
_WHY = {
    errno.ENOENT: "there is no clock; start `tickwire service` or `tickwire clock run`, or name its page",
    errno.EBADMSG: "this is no page of a clock",
    errno.EPROTO: "the clock's page is of another version than this library",
    errno.ENOTSUP: "this processor does not have the counter that the clock's page is about, or it cannot be told how this time namespace moves it",
}

_NO_TIME = -(2**63)


def _refused(counter: int, status: Status) -> Exception:
    """The exception for a value whose time is unknown although the current time is known."""
    if Status.DISRUPTED in status:
        return Unknown(status, f"{counter} is from before the counter broke, or before it was first observed")
    return OverflowError(
        f"{counter} is no value that the counter has had yet, or is so far from now that its time does not fit 64 bits of nanoseconds"
    )


def _whole(value: int, what: str, least: int, most: int) -> int:
    """Checks the range of an integer: ctypes would truncate a value that does not fit."""
    number = operator.index(value)
    if not least <= number <= most:
        raise OverflowError(f"{number} is no {what}: expected {least} to {most}")
    return number


def _count(value: int) -> int:
    return _whole(value, "value of the counter", 0, 2**64 - 1)


class _Handle(ctypes.c_void_p):
    """The library's handle. It is closed with the last reference. A call holds a reference, so no
    thread closes it while another one is inside the library."""

    def __del__(self, close=_lib.tickclock_close) -> None:
        if self:
            close(ctypes.c_void_p(self.value))


class Clock:
    """The machine's clock, open for reading. Any number of threads may share it."""

    def __init__(self, path: Union[str, "os.PathLike[str]", None] = None) -> None:
        """Opens a page; the default is that of ``TICKWIRE_CLOCK``, or ``/run/tickwire/clock``.

        Raises OSError if there is none, or if it cannot be read.
        """
        self._clock = _Handle()
        error = _lib.tickclock_open(ctypes.byref(self._clock), None if path is None else os.fsencode(path))
        if error:
            shown = path if path is not None else os.environ.get("TICKWIRE_CLOCK") or "/run/tickwire/clock"
            raise OSError(error, _WHY.get(error) or os.strerror(error), os.fspath(shown))

    def close(self) -> None:
        """Closes the clock once the last call of another thread has returned. It is unusable then."""
        self._clock = _Handle()

    def __enter__(self) -> "Clock":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self) -> _Handle:
        clock = self._clock
        if not clock:
            raise ValueError("the clock is closed")
        return clock

    def now(self) -> Time:
        """The time now. Raises Unknown if it is not known."""
        time = _Time()
        return _time(_lib.tickclock_now(self._opened(), ctypes.byref(time)), time)

    def at(self, counter: int) -> Time:
        """The time at a counter value that was read earlier.

        Raises Unknown if the time is not known, or if the value is from before the counter broke or
        was first observed (``status`` has DISRUPTED). Raises OverflowError if it is not a possible
        value, if it is ahead of the counter by more than the page is fresh for (5 s), or if it is
        so far from now that its time does not fit 64 bits.
        """
        time = _Time()
        error = _lib.tickclock_at(self._opened(), _count(counter), ctypes.byref(time))
        if error == errno.ERANGE:
            raise _refused(counter, Status(time.status))
        return _time(error, time)

    def counter(self) -> int:
        """The counter: the cheapest timestamp."""
        return _lib.tickclock_counter(self._opened())

    def elapsed(self, start: int, end: int) -> int:
        """Nanoseconds between two counter values, by the difference clock.

        The difference clock is smooth and meant for spans below about 1000 s.

        Raises Unknown before the first reply of a server, when the period is not known yet, or if
        one of the values is from before the counter broke. Raises OverflowError if one of them is
        ahead of the counter (as for ``at``), or if the span does not fit 64 bits.
        """
        span = ctypes.c_int64()
        error = _lib.tickclock_elapsed(self._opened(), _count(start), _count(end), ctypes.byref(span))
        if error == errno.ERANGE:
            for counter in (start, end):
                self.at(counter)
            raise OverflowError(f"from {start} to {end} it is longer than 64 bits of nanoseconds")
        if error:
            raise self._unknown()
        return span.value

    def convert(self, counters: Iterable[int]):
        """Unix times in ns of many counter values, all by the same parameters.

        A NumPy array gives a NumPy array of int64 of the same shape, in one call; anything else
        gives a list. Raises Unknown and OverflowError as ``at`` does, for the first such value, and
        TypeError if one is not an integer.
        """
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(counters, numpy.ndarray):
            if counters.dtype.kind not in "ui":
                raise TypeError(f"values of the counter are whole numbers, not {counters.dtype}")
            if counters.dtype.kind == "i" and counters.size:
                _count(counters.min())
            stamps = numpy.ascontiguousarray(counters, dtype=numpy.uint64)
            times = numpy.empty(stamps.shape, dtype=numpy.int64)
            self._convert(stamps.ctypes.data, times.ctypes.data, stamps.size)
            return times
        values = [_count(counter) for counter in counters]
        stamps = (ctypes.c_uint64 * len(values))(*values)
        times = (ctypes.c_int64 * len(values))()
        self._convert(ctypes.addressof(stamps), ctypes.addressof(times), len(values))
        return list(times)

    def _convert(self, counters: int, times: int, count: int) -> None:
        error = _lib.tickclock_convert(self._opened(), counters, times, count)
        if error == errno.ERANGE:
            first = next(i for i in range(count) if ctypes.c_int64.from_address(times + 8 * i).value == _NO_TIME)
            counter, time = ctypes.c_uint64.from_address(counters + 8 * first).value, _Time()
            _lib.tickclock_at(self._opened(), counter, ctypes.byref(time))
            raise _refused(counter, Status(time.status))
        if error:
            raise self._unknown()

    def _unknown(self) -> Unknown:
        time = _Time()
        _lib.tickclock_now(self._opened(), ctypes.byref(time))
        return Unknown(Status(time.status))

    def wait_until(self, utc_ns: int) -> Time:
        """Waits until the clock shows this Unix time, and returns the first time that does.

        Raises Unknown as soon as the time is not known. Python's own signal handlers run only
        afterwards.
        """
        time = _Time()
        return _time(_lib.tickclock_wait_until(self._opened(), _whole(utc_ns, "Unix time in ns", -(2**63), 2**63 - 1), ctypes.byref(time)), time)


def _time(unknown: int, time: _Time) -> Time:
    status = Status(time.status)
    if unknown:
        raise Unknown(status)
    return Time(
        time.utc_ns,
        time.earliest_ns,
        time.latest_ns,
        status,
        time.tai_utc_s,
        time.error_ns,
        time.age_ns,
        time.counter,
        time.disruptions,
    )
