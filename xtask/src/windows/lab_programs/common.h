/* What the programs of sockets share: saying what is wrong, and how long messages took. */
#ifndef LAB_PROGRAMS_COMMON_H
#define LAB_PROGRAMS_COMMON_H

#include <winsock2.h>
#include <ws2tcpip.h>
#include <windows.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void fail(const char *what)
{
	printf("%s: error %d\n", what, WSAGetLastError());
	fflush(stdout);
	exit(1);
}

static inline double now_us(void)
{
	LARGE_INTEGER count, frequency;

	QueryPerformanceCounter(&count);
	QueryPerformanceFrequency(&frequency);
	return count.QuadPart * 1e6 / frequency.QuadPart;
}

static inline int compare_times(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static inline int compare_counts(const void *a, const void *b)
{
	unsigned long long x = *(const unsigned long long *)a, y = *(const unsigned long long *)b;

	return x < y ? -1 : x > y;
}

/* Prints median, 99th percentile and the longest of these times. */
static inline void print_times(const char *name, double *times, int count)
{
	qsort(times, count, sizeof(*times), compare_times);
	printf("%s p50_us=%.1f p99_us=%.1f worst_us=%.1f\n", name, times[count / 2], times[count * 99 / 100],
	       times[count - 1]);
}

#endif
