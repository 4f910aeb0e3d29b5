/* See helper.h. */
#define _GNU_SOURCE
#include "helper.h"
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int helper_start(struct helper *helper, char *script, const char *argument)
{
	char *arguments[] = { "sh", "-c", script, "tickwire-lab-card", (char *)argument, NULL };
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
	error = posix_spawn(&helper->id, "/bin/sh", &files, &attributes, arguments, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	close(pair[1]);
	if (error) {
		close(pair[0]);
		return -error;
	}
	helper->socket = pair[0];
	return 0;
}

int helper_tell(const struct helper *helper, const char *line, int length)
{
	return TEMP_FAILURE_RETRY(send(helper->socket, line, length, MSG_NOSIGNAL)) == length ? 0 : -EPIPE;
}

int helper_answer(const struct helper *helper)
{
	int number = 0;
	char digit;

	while (TEMP_FAILURE_RETRY(recv(helper->socket, &digit, 1, 0)) == 1) {
		if (digit == '\n')
			return number;
		number = 10 * number + (digit - '0');
	}
	return -EPIPE;
}

void helper_end(struct helper *helper)
{
	if (helper->socket >= 0) {
		close(helper->socket);
		TEMP_FAILURE_RETRY(waitpid(helper->id, NULL, 0));
		helper->socket = -1;
	}
}
