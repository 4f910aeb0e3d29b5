/*
 * A program that reads the clock by tickclock.dll.
 *
 *     clock sample [PAGE]       prints each 10 ms: sample COUNTER UTC EARLIEST LATEST STATUS ERROR
 *     clock reads COUNT [PAGE]  reads the clock so often where the kernel allows no system call
 *
 * Both first wait until there is a page whose time is known.
 *
 * `reads`: a thread asks Linux, past Wine, for a seccomp filter. From then on the kernel kills it
 * at any system call but its end. So a thread that gets to the end has made none. (The strict
 * mode would also forbid reading the TSC.)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "tickclock.h"

/* Within this the clock is synchronised, and the thread has read, in ms. */
#define TIMEOUT 20000

static struct tickclock *synchronised(const char *page)
{
	struct tickclock *clock = NULL;
	struct tickclock_time now;
	int error = 0;
	for (DWORD begin = GetTickCount(); GetTickCount() - begin < TIMEOUT; Sleep(10)) {
		if (!clock && (error = tickclock_open(&clock, page)))
			continue;
		if (tickclock_now(clock, &now) == 0 && now.status & TICKCLOCK_SYNCHRONISED)
			return clock;
	}
	fprintf(stderr, "no clock: %s\n", error ? strerror(error) : "its time is not known");
	exit(1);
}

static void sample(const char *page)
{
	struct tickclock *clock = synchronised(page);
	for (;; Sleep(10)) {
		struct tickclock_time now;
		if (tickclock_now(clock, &now)) {
			puts("unknown");
		} else {
			printf("sample %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " %u %" PRIu64 "\n", now.counter,
			       now.utc_ns, now.earliest_ns, now.latest_ns, now.status, now.error_ns);
		}
		fflush(stdout);
	}
}

/* Readings in a batch: few enough that most batches are not interrupted. */
#define BATCH 100

static struct tickclock *shared;
static unsigned batches;
static uint64_t *taken;
static volatile long long unknown = -1;
static volatile long long refused;

/* A system call of Linux, which Wine does not see. Its other arguments are 0. */
static long long linux_call(long long number, long long first, long long second, const void *third)
{
	register long long fourth __asm__("r10") = 0;
	register long long fifth __asm__("r8") = 0;
	long long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(first), "S"(second), "d"(third), "r"(fourth), "r"(fifth)
			 : "rcx", "r11", "memory");
	return result;
}

/* Linux' numbers, on x86-64. */
enum { EXIT = 60, PRCTL = 157, PR_SET_SECCOMP = 22, PR_SET_NO_NEW_PRIVS = 38, SECCOMP_MODE_FILTER = 2 };

/* struct sock_filter and struct sock_fprog (linux/filter.h). */
struct instruction {
	uint16_t code;
	uint8_t if_true, if_false;
	uint32_t value;
};
struct program {
	uint16_t length;
	const struct instruction *instructions;
};

/* Kills the calling thread at any system call but exit. */
static const struct instruction only_exit[] = {
	{0x20, 0, 0, 0},    /* BPF_LD | BPF_W | BPF_ABS: the call's number */
	{0x15, 0, 1, EXIT}, /* BPF_JMP | BPF_JEQ */
	{0x06, 0, 0, 0x7fff0000}, /* BPF_RET: SECCOMP_RET_ALLOW */
	{0x06, 0, 0, 0},    /* BPF_RET: SECCOMP_RET_KILL_THREAD */
};
static const struct program filter = {sizeof only_exit / sizeof *only_exit, only_exit};

static long long confine(void)
{
	long long refused = linux_call(PRCTL, PR_SET_NO_NEW_PRIVS, 1, NULL);
	return refused ? refused : linux_call(PRCTL, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static DWORD WINAPI confined(void *unused)
{
	(void)unused;
	long long wrong = 0;
	refused = confine();
	if (refused)
		return 1;
	for (unsigned batch = 0; batch < batches; batch++) {
		uint64_t begin = tickclock_counter(shared);
		for (int i = 0; i < BATCH; i++) {
			struct tickclock_time now;
			wrong += tickclock_now(shared, &now) != 0;
		}
		taken[batch] = tickclock_counter(shared) - begin;
	}
	unknown = wrong;
	linux_call(EXIT, 0, 0, NULL);
	return 0;
}

static int ascending(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
	return (a > b) - (a < b);
}

static int reads(unsigned count, const char *page)
{
	shared = synchronised(page);
	batches = (count + BATCH - 1) / BATCH;
	taken = calloc(batches, sizeof *taken);
	if (!taken || !CreateThread(NULL, 0, confined, NULL, 0, NULL)) {
		fprintf(stderr, "no memory, or no thread\n");
		return 1;
	}
	for (DWORD begin = GetTickCount(); unknown < 0 && !refused; Sleep(5)) {
		if (GetTickCount() - begin > TIMEOUT) {
			printf("a system call: the kernel has killed the thread\n");
			return 1;
		}
	}
	if (refused) {
		printf("the kernel refuses seccomp: %lld\n", refused);
		return 1;
	}
	qsort(taken, batches, sizeof *taken, ascending);
	int64_t half;
	uint64_t now = tickclock_counter(shared);
	if (tickclock_elapsed(shared, now - taken[batches / 2], now, &half)) {
		printf("the period is not known\n");
		return 1;
	}
	printf("reads=%u unknown=%lld p50_ns=%.1f\n", batches * BATCH, unknown, (double)half / BATCH);
	fflush(stdout);
	/* The thread has left without Wine's knowledge. */
	TerminateProcess(GetCurrentProcess(), 0);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 2 && strcmp(argv[1], "sample") == 0)
		sample(argc > 2 ? argv[2] : NULL);
	if (argc >= 3 && strcmp(argv[1], "reads") == 0)
		return reads(strtoul(argv[2], NULL, 10), argc > 3 ? argv[3] : NULL);
	fprintf(stderr, "expected: sample [PAGE], or reads COUNT [PAGE]\n");
	return 2;
}
