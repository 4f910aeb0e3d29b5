/* The claims of a card. */
#ifndef CLAIMS_H
#define CLAIMS_H

#include "helper.h"
#include <pthread.h>

struct claims {
	pthread_mutex_t lock;
	struct helper helper; /* not started before the first claim */
};

void claims_begin(struct claims *claims);

/* Adds a claim of a port on an interface, or removes it. Returns 0 or a negative errno. */
int claims_change(struct claims *claims, const char *interface, int family, int protocol, int port, int add);

/* Ends all claims. */
void claims_end(struct claims *claims);

#endif
