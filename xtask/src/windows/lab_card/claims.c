/*
 * Keeps packets for claimed ports from the kernel's IP input, except for those to groups, which are
 * the kernel's. A helper does it, a shell that runs nft: it has a table of its own in the host's
 * network namespace, changes it as it is told over a socket, and deletes it when the socket is
 * closed. So claims end with the program, also if it is killed.
 */
#include "claims.h"
#include <errno.h>
#include <stdio.h>

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
	pthread_mutex_unlock(&claims->lock);
	return result > 0 ? -EINVAL : result;
}

void claims_end(struct claims *claims)
{
	helper_end(&claims->helper);
	pthread_mutex_destroy(&claims->lock);
}
