/*
 * Keeps packets for claimed ports from the kernel's IP input, except for those to groups, which are
 * the kernel's. A helper does it, a shell that runs nft: it has a table of its own in the host's
 * network namespace, changes it as it is told over a socket, and deletes it when the socket is
 * closed. So claims end with the program, also if it is killed.
 */
#include "claims.h"
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* `$1` is the interface. Each line of input is a change, and is answered by a line with the exit
 * status of nft. */
static char script[] =
	"t=\"inet tickwire_lab_card_$$\"\n"
	"nft -f - <<END || exit\n"
	"add table $t\n"
	"add set $t claimed { typeof meta nfproto . meta l4proto . th dport; }\n"
	"add chain $t divert { type filter hook prerouting priority raw; }\n"
	"add rule $t divert iifname \"$1\" meta pkttype host meta nfproto . meta l4proto . th dport @claimed drop\n"
	"add rule $t divert iifname \"$1.*\" meta pkttype host meta nfproto . meta l4proto . th dport @claimed drop\n"
	"END\n"
	"while read -r change port; do\n"
	"    nft \"$change element $t claimed { $port }\" >&2\n"
	"    echo $?\n"
	"done\n"
	"nft delete table $t\n";

void claims_begin(struct claims *claims)
{
	memset(claims->ports, 0, sizeof(claims->ports));
	pthread_mutex_init(&claims->lock, NULL);
	claims->helper.socket = -1;
}

int claims_change(struct claims *claims, const char *interface, int family, int protocol, int port, int add)
{
	const char *change = add ? "add" : "delete";
	char line[64];
	int length = snprintf(line, sizeof(line), "%s ipv%d . %d . %d\n", change, family, protocol, port);
	int result = 0;

	if ((family != 4 && family != 6) || protocol < 0 || protocol > 255 || port < 0 || port > 65535)
		return -EINVAL;
	pthread_mutex_lock(&claims->lock);
	if (claims->helper.socket < 0)
		result = helper_start(&claims->helper, script, interface);
	if (!result)
		result = helper_tell(&claims->helper, line, length);
	if (!result)
		result = helper_answer(&claims->helper);
	if (!result && (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP)) {
		uint8_t *byte = &claims->ports[family == 6][protocol == IPPROTO_UDP][port / 8];

		if (add)
			__atomic_fetch_or(byte, 1 << port % 8, __ATOMIC_RELAXED);
		else
			__atomic_fetch_and(byte, ~(1 << port % 8), __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&claims->lock);
	return result > 0 ? -EINVAL : result;
}

int claims_keep(const struct claims *claims, const uint8_t *frame, uint32_t length)
{
	const uint8_t *ports;
	uint32_t transport, port;
	int is_v6, protocol;

	if (length < 34)
		return 0;
	is_v6 = frame[12] == 0x86 && frame[13] == 0xdd;
	if (!is_v6 && (frame[12] != 8 || frame[13] != 0))
		return 0;
	/* The later fragments of a packet have no transport header. */
	if (!is_v6 && ((frame[20] & 0x1f) || frame[21]))
		return 0;
	protocol = is_v6 ? frame[20] : frame[23];
	transport = 14 + (is_v6 ? 40 : (frame[14] & 0xf) * 4);
	if ((protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) || transport + 4 > length)
		return 0;
	port = frame[transport + 2] << 8 | frame[transport + 3];
	ports = claims->ports[is_v6][protocol == IPPROTO_UDP];
	return __atomic_load_n(&ports[port / 8], __ATOMIC_RELAXED) >> port % 8 & 1;
}

void claims_end(struct claims *claims)
{
	helper_end(&claims->helper);
	pthread_mutex_destroy(&claims->lock);
}
