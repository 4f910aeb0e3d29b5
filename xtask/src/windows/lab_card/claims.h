/* The claims of a card. */
#ifndef CLAIMS_H
#define CLAIMS_H

#include "helper.h"
#include "lab_card.h"
#include <pthread.h>
#include <stdint.h>

struct claims {
	pthread_mutex_t lock;
	struct helper helper; /* not started before the first claim */
	/* A bit for each claimed port, of TCP and UDP. */
	uint8_t ports[2][65536 / 8];
};

void claims_begin(struct claims *claims);

/* Adds claims of ports on an interface, or removes them. Returns 0 or a negative errno. */
int claims_change(struct claims *claims, const char *interface, const struct lab_card_port *ports, int count, int add);

/* Whether a frame to this host is kept from the kernel: one without a VLAN tag, with a transport
 * header behind that of IP. */
int claims_keep(const struct claims *claims, const uint8_t *frame, uint32_t length);

/* Ends all claims. */
void claims_end(struct claims *claims);

#endif
