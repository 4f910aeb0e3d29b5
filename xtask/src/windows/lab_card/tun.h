/*
 * A device of TUN without addresses, by which the kernel is given packets as if they had arrived.
 * No route leads back to the sender by it, so the kernel must not look for one there (rp_filter).
 */
#ifndef TUN_H
#define TUN_H

#include <net/if.h>

/* Opens a device of this name, or with a number in place of `%d`, which `name` is then. `flags` are
 * further ones of TUNSETIFF. Returns its file or a negative errno. */
int tun_open(char name[IF_NAMESIZE], int flags);

#endif
