/*
 * The runner of libuv's tests gives most of them five seconds. Under Wine the kernel's tables of
 * sockets are slow, and each claim of the lane needs them: a connection takes a quarter of a
 * second. So tests have eight times as long.
 */

#include "runner.h"

/* The linker puts this in place of process_wait (--wrap). */
int __real_process_wait(process_info_t *processes, int count, int timeout);

int __wrap_process_wait(process_info_t *processes, int count, int timeout) {
    return __real_process_wait(processes, count, timeout < 0 ? timeout : 8 * timeout);
}
