/* Measures round trips for C and C++: calls a function again and again, prints what that took. */
#ifndef TRIPS_H
#define TRIPS_H
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TRIPS_LIMIT = 8000000 };
/* Connections and caches settle before that. */
static const double TRIPS_WARM_UP = 0.25;

static double trips_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int trips_order(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* `trip` sends a request and returns when the reply is there. */
static void trips_measure(double seconds, void (*trip)(void *), void *context) {
    float *taken = (float *)malloc(TRIPS_LIMIT * sizeof *taken);
    double began = trips_now();
    size_t count = 0;
    if (!taken) abort();
    while (trips_now() < began + TRIPS_WARM_UP) trip(context);
    began = trips_now();
    for (double now = began; now < began + seconds && count < TRIPS_LIMIT;) {
        double sent = now;
        trip(context);
        now = trips_now();
        taken[count++] = (float)((now - sent) * 1e6);
    }
    qsort(taken, count, sizeof *taken, trips_order);
    printf("trips=%zu p50_us=%.2f p99_us=%.2f\n", count, taken[count / 2], taken[count * 99 / 100]);
    free(taken);
}
#endif
