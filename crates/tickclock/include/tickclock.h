/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tickclock.h - read the machine's Tickwire clock without a system call. Link with -ltickclock, on
 * Windows with tickclock.dll.
 *
 *     struct tickclock *clock;
 *     struct tickclock_time now;
 *     int error = tickclock_open(&clock, NULL);
 *     if (error)
 *         errx(1, "no clock: %s", strerror(error));
 *     if (tickclock_now(clock, &now) == 0)
 *         printf("%lld ns, +- %lld\n", (long long)now.utc_ns,
 *                (long long)(now.latest_ns - now.utc_ns));
 *     tickclock_close(clock);
 *
 * Any number of threads may share a struct tickclock. Only open, close and wait_until make system
 * calls. If the page's counter is CLOCK_MONOTONIC_RAW, reading it is a call into the vDSO. On
 * Windows that counter is the performance counter, which may need a system call.
 *
 * Before version 1.0 a release may change the structures below without changing the library's name:
 * rebuild programs with each release.
 */
#ifndef TICKCLOCK_H
#define TICKCLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tickclock;

/* Status bits of a time. */
#define TICKCLOCK_SYNCHRONISED 0x001u /* the time is known: the true time is between earliest and latest */
#define TICKCLOCK_WARMING_UP 0x002u   /* the rate is not well known yet */
#define TICKCLOCK_HOLDOVER 0x004u     /* no server has replied for several polls */
#define TICKCLOCK_STALE 0x008u        /* the daemon has died or hangs: reopen the page from time to time */
#define TICKCLOCK_DISRUPTED 0x010u    /* the counter has broken (suspend, migration): no server has replied since, or the value is from before */
#define TICKCLOCK_TAI_KNOWN 0x020u    /* tai_utc_s is right */
#define TICKCLOCK_LEAP_SECOND 0x040u  /* within 23:59:60, for which UTC repeats 23:59:59 */
#define TICKCLOCK_SMEARED 0x080u      /* the servers smear leap seconds */
#define TICKCLOCK_RETIRED 0x100u      /* another page has replaced this one: reopen it */

/* The value of an unknown time. */
#define TICKCLOCK_NO_TIME INT64_MIN

struct tickclock_time {
	int64_t utc_ns;      /* Unix time: ns since 1970-01-01 00:00:00 UTC, without leap seconds; or TICKCLOCK_NO_TIME */
	int64_t earliest_ns; /* the true time is not before this ... */
	int64_t latest_ns;   /* ... and not after that */
	uint32_t status;     /* TICKCLOCK_... */
	int32_t tai_utc_s;   /* TAI - UTC in s, if status has TAI_KNOWN: then TAI is utc_ns + 1000000000 * tai_utc_s */
	uint64_t error_ns;   /* estimated error: one standard deviation; UINT64_MAX if the time is not known */
	int64_t age_ns;      /* since the last publication; INT64_MAX if there was none */
	uint64_t counter;    /* the counter at that time */
	uint32_t disruptions; /* how often the counter has broken or the time was stepped: see tickclock_at */
	uint32_t reserved;   /* 0 */
};

/*
 * Opens the page `path` (on Windows in UTF-8). NULL is the default: TICKWIRE_CLOCK of the
 * environment, or /run/tickwire/clock, on Windows Tickwire\clock in the machine's folder for
 * program data. Returns 0, or an errno value, and then *clock is NULL:
 * ENOENT (no daemon has made a page), EACCES, EBADMSG (not a page), EPROTO (a page of another
 * version), ENOTSUP (this processor does not have the page's counter, or the counter is
 * CLOCK_MONOTONIC_RAW and its offset in this time namespace cannot be determined), EINVAL (clock is
 * NULL), ...
 */
int tickclock_open(struct tickclock **clock, const char *path);
void tickclock_close(struct tickclock *clock); /* NULL is allowed */

/*
 * The time now. Returns 0, or EAGAIN if the time is not known (yet): then earliest and latest are
 * INT64_MIN and INT64_MAX.
 */
int tickclock_now(const struct tickclock *clock, struct tickclock_time *time);

/*
 * The same in half the time, for logs and statistics: the processor may read the counter before
 * earlier instructions are complete. The reading may be early by some tens of ns, or by a few
 * hundred after a load from memory. Readings of two threads need not follow the order of events
 * between them.
 */
int tickclock_now_unordered(const struct tickclock *clock, struct tickclock_time *time);

/*
 * The time at a counter value that was read earlier. Returns as tickclock_now, and ERANGE if the
 * current time is known but not that of the value: it is from before the counter broke or was first
 * observed (status has TICKCLOCK_DISRUPTED), it is ahead of the counter by more than the page is
 * fresh for (5 s), or it is so far from now that its time does not fit 64 bits.
 *
 * A program that stores values must store `disruptions` of the same time with them: if it has
 * changed since, they cannot be compared with current values. A counter that went back repeats
 * values, and nothing else distinguishes those from before. A new page (after a reboot, or after
 * TICKCLOCK_RETIRED) begins with 0, so disruptions compare within one page only.
 */
int tickclock_at(const struct tickclock *clock, uint64_t counter, struct tickclock_time *time);

/*
 * Unix times in ns of `count` counter values, by the same parameters. Returns as tickclock_at, and
 * stores TICKCLOCK_NO_TIME for each unknown time: after ERANGE the other times are valid.
 */
int tickclock_convert(const struct tickclock *clock, const uint64_t *counters, int64_t *utc_ns, size_t count);

/* The counter itself: the cheapest timestamp. */
uint64_t tickclock_counter(const struct tickclock *clock);

/*
 * Stores the ns between two counter values, by the difference clock: smooth, for spans below about
 * 1000 s. Returns 0, or EAGAIN (and stores 0) before the first reply of a server, when the period
 * is not known yet, or ERANGE (likewise) if the time of one of the values is unknown to
 * tickclock_at, or the span does not fit 64 bits.
 */
int tickclock_elapsed(const struct tickclock *clock, uint64_t from, uint64_t to, int64_t *ns);

/*
 * Waits until the clock shows `utc_ns`: sleeps until shortly before, then spins on the counter.
 * Stores the first reading that shows it, unless `time` is NULL. Returns 0, or EAGAIN as soon as
 * the time is not known. A signal does not end the wait.
 */
int tickclock_wait_until(const struct tickclock *clock, int64_t utc_ns, struct tickclock_time *time);

#ifdef __cplusplus
}
#endif

#endif
