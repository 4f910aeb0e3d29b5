/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stamps a piece of work with the machine's clock: when it began, within which bound that is true,
 * and how long it took.
 *
 *     cc read_clock.c -ltickclock -o read_clock && ./read_clock [PAGE]
 *
 * docs/clock.md says how library and header are installed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tickclock.h>

static void acquire(void)
{
	volatile double sum = 0;
	for (int i = 0; i < 1000000; i++)
		sum += i;
}

int main(int argc, char **argv)
{
	struct tickclock *clock;
	int error = tickclock_open(&clock, argc > 1 ? argv[1] : NULL);
	if (error) {
		fprintf(stderr, "no clock: %s; is `tickwire clock run` running?\n", strerror(error));
		return 1;
	}

	/* The cheapest stamp is the counter. Convert it when the work is done. */
	uint64_t from = tickclock_counter(clock);
	acquire();
	uint64_t to = tickclock_counter(clock);

	struct tickclock_time began;
	if (tickclock_at(clock, from, &began)) {
		fprintf(stderr, "the time is not known\n");
		tickclock_close(clock);
		return 3;
	}
	int64_t span;
	if (tickclock_elapsed(clock, from, to, &span)) {
		fprintf(stderr, "the span is not known\n");
		tickclock_close(clock);
		return 3;
	}
	printf("began at %" PRId64 " ns, between %" PRId64 " and %" PRId64 "; took %" PRId64 " ns\n", began.utc_ns,
	       began.earliest_ns, began.latest_ns, span);
	tickclock_close(clock);
	return 0;
}
