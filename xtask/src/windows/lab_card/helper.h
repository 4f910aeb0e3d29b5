/* A shell that changes the host's packet filter, and undoes that at its end. */
#ifndef HELPER_H
#define HELPER_H

#include <sys/types.h>

struct helper {
	int socket; /* its standard input and output; -1: it has not been started */
	pid_t id;
};

/* Starts a script, with one argument. Its standard error stays that of the program. When its
 * standard input ends, the program has closed it or is gone. Returns 0 or a negative errno. */
int helper_start(struct helper *helper, char *script, const char *argument);

/* Sends it a line. Returns 0 or a negative errno. */
int helper_tell(const struct helper *helper, const char *line, int length);

/* The number in the next line that it says; -EPIPE if it has ended. */
int helper_answer(const struct helper *helper);

/* Has it end, and waits for that. */
void helper_end(struct helper *helper);

#endif
