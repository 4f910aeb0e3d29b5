/*
 * The filter language, as far as it is used here: `and`, `or`, `!`, brackets, conditions
 * `(A? B: C)`, comparisons with a number, and the fields in filter.c. Anything else is an error.
 */
#ifndef FILTER_H
#define FILTER_H

#include "packet.h"
#include "windivert.h"

struct filter;

/* What is wrong with a filter. */
struct filter_error {
	const char *reason;
	unsigned int position;
};

/* Compiles a filter; NULL if it is wrong. */
struct filter *filter_compile(const char *text, struct filter_error *error);

/* Whether it takes a packet. */
int filter_takes(const struct filter *filter, const struct packet_view *packet, const struct address *address);

void filter_free(struct filter *filter);

#endif
