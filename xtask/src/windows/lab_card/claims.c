/*
 * Keeps packets for claimed ports from the kernel's IP input. A helper does it, a shell that runs
 * nft: it has a table of its own in the host's network namespace, changes it as it is told over a
 * socket, and deletes it when the socket is closed. So claims end with the program, also if it is
 * killed.
 */
#define _GNU_SOURCE
#include "claims.h"
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* `$1` is the interface. Each line of input is a change, and is answered by a line with the exit
 * status of nft. */
static char script[] =
	"t=\"inet tickwire_lab_card_$$\"\n"
	"nft -f - <<END || exit\n"
	"add table $t\n"
	"add set $t claimed { typeof meta nfproto . meta l4proto . th dport; }\n"
	"add chain $t divert { type filter hook prerouting priority raw; }\n"
	"add rule $t divert iifname \"$1\" meta nfproto . meta l4proto . th dport @claimed drop\n"
	"add rule $t divert iifname \"$1.*\" meta nfproto . meta l4proto . th dport @claimed drop\n"
	"END\n"
	"while read -r change port; do\n"
	"    nft \"$change element $t claimed { $port }\" >&2\n"
	"    echo $?\n"
	"done\n"
	"nft delete table $t\n";

/* Starts the helper. Its standard error stays that of the program. */
static int start(struct claims *claims, const char *interface)
{
	char *arguments[] = { "sh", "-c", script, "tickwire-lab-card", (char *)interface, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none;
	int pair[2], error;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, pair[1], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, pair[1], STDOUT_FILENO);
	/* Wine's threads block signals. */
	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	error = posix_spawn(&claims->helper_id, "/bin/sh", &files, &attributes, arguments, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	close(pair[1]);
	if (error) {
		close(pair[0]);
		return -error;
	}
	claims->helper = pair[0];
	return 0;
}

/* The exit status of nft for the last change; negative if the helper has ended. */
static int answer(int helper)
{
	int status = 0;
	char digit;

	while (TEMP_FAILURE_RETRY(recv(helper, &digit, 1, 0)) == 1) {
		if (digit == '\n')
			return status;
		status = 10 * status + (digit - '0');
	}
	return -EPIPE;
}

void claims_begin(struct claims *claims)
{
	pthread_mutex_init(&claims->lock, NULL);
	claims->helper = -1;
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
	if (claims->helper < 0)
		result = start(claims, interface);
	if (!result && TEMP_FAILURE_RETRY(send(claims->helper, line, length, MSG_NOSIGNAL)) != length)
		result = -EPIPE;
	if (!result)
		result = answer(claims->helper);
	pthread_mutex_unlock(&claims->lock);
	return result > 0 ? -EINVAL : result;
}

void claims_end(struct claims *claims)
{
	if (claims->helper >= 0) {
		close(claims->helper);
		TEMP_FAILURE_RETRY(waitpid(claims->helper_id, NULL, 0));
	}
	pthread_mutex_destroy(&claims->lock);
}
