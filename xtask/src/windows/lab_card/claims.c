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
	"add set $t claimed { typeof meta l4proto . th dport; }\n"
	"add chain $t divert { type filter hook prerouting priority raw; }\n"
	"add rule $t divert iifname \"$1\" meta pkttype host meta l4proto . th dport @claimed drop\n"
	"add rule $t divert iifname \"$1.*\" meta pkttype host meta l4proto . th dport @claimed drop\n"
	"END\n"
	"while read -r change ports; do\n"
	"    nft \"$change element $t claimed { $ports }\" >&2\n"
	"    echo $?\n"
	"done\n"
	"nft delete table $t\n";

void claims_begin(struct claims *claims)
{
	memset(claims->ports, 0, sizeof(claims->ports));
	pthread_mutex_init(&claims->lock, NULL);
	claims->helper.socket = -1;
}

/* Writes the line that tells the helper of a change. Returns its length, 0 if a port
 * is neither TCP's nor UDP's. */
static int write_line(char *line, int room, const struct lab_card_port *ports, int count, int add)
{
	int length = snprintf(line, room, add ? "add " : "delete ");

	for (int i = 0; i < count; i++) {
		if (ports[i].protocol != IPPROTO_TCP && ports[i].protocol != IPPROTO_UDP)
			return 0;
		length += snprintf(line + length, room - length, "%s%d . %d", i ? ", " : "", ports[i].protocol,
				   ports[i].port);
	}
	line[length++] = '\n';
	return length;
}

/* Notes that a port is claimed, or not. Returns whether that is new. */
static int note(struct claims *claims, const struct lab_card_port *port, int is_claimed)
{
	uint8_t *byte = &claims->ports[port->protocol == IPPROTO_UDP][port->port / 8], bit = 1 << port->port % 8;
	uint8_t before = is_claimed ? __atomic_fetch_or(byte, bit, __ATOMIC_RELAXED) :
				      __atomic_fetch_and(byte, ~bit, __ATOMIC_RELAXED);

	return !!(before & bit) != is_claimed;
}

static int tell(struct claims *claims, const char *interface, const char *line, int length)
{
	int result = 0;

	if (claims->helper.socket < 0)
		result = helper_start(&claims->helper, script, interface);
	if (!result)
		result = helper_tell(&claims->helper, line, length);
	return result ? result : helper_answer(&claims->helper);
}

int claims_change(struct claims *claims, const char *interface, const struct lab_card_port *ports, int count, int add)
{
	char line[16 + LAB_CARD_MOST_PORTS * 16], is_new[LAB_CARD_MOST_PORTS] = { 0 };
	int length, result;

	if (count < 1 || count > LAB_CARD_MOST_PORTS)
		return -EINVAL;
	length = write_line(line, sizeof(line), ports, count, add);
	if (!length)
		return -EINVAL;
	pthread_mutex_lock(&claims->lock);
	/* They are noted for as long as a frame may be kept from the kernel, so that it can be
	 * given back. For a moment the kernel may then have a frame twice. */
	for (int i = 0; i < count && add; i++)
		is_new[i] = note(claims, &ports[i], 1);
	result = tell(claims, interface, line, length);
	for (int i = 0; i < count; i++)
		if (add ? result && is_new[i] : !result)
			note(claims, &ports[i], 0);
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
	ports = claims->ports[protocol == IPPROTO_UDP];
	return __atomic_load_n(&ports[port / 8], __ATOMIC_RELAXED) >> port % 8 & 1;
}

void claims_end(struct claims *claims)
{
	helper_end(&claims->helper);
	pthread_mutex_destroy(&claims->lock);
}
