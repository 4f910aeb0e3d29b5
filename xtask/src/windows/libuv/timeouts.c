/*
 * The runner of libuv's tests gives most of them five seconds. Under Wine the kernel's tables of
 * sockets are slow, and claims of the lane need them. So tests have four times as long.
 */

#include "runner.h"

/* The linker puts this in place of process_wait (--wrap). */
int __real_process_wait(process_info_t *processes, int count, int timeout);

int __wrap_process_wait(process_info_t *processes, int count, int timeout) {
    return __real_process_wait(processes, count, timeout < 0 ? timeout : 4 * timeout);
}
