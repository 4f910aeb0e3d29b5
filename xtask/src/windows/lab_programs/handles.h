/* How many handles a process has: the system's list of all handles. (Wine 8 does not know
 * `GetProcessHandleCount`.) */
#ifndef LAB_PROGRAMS_HANDLES_H
#define LAB_PROGRAMS_HANDLES_H

#include <windows.h>
#include <winternl.h>
#include <stdlib.h>

#define SYSTEM_HANDLES 64 /* SystemExtendedHandleInformation */
#define LENGTH_MISMATCH ((NTSTATUS)0xc0000004)

struct system_handle {
	void *object;
	ULONG_PTR process, handle;
	ULONG access;
	USHORT creator, type;
	ULONG attributes, reserved;
};

struct system_handles {
	ULONG_PTR count, reserved;
	struct system_handle handles[];
};

/* All handles, to be freed. */
static inline struct system_handles *all_handles(void)
{
	for (ULONG room = 1 << 16;; room *= 2) {
		struct system_handles *all = malloc(room);
		NTSTATUS status = NtQuerySystemInformation((SYSTEM_INFORMATION_CLASS)SYSTEM_HANDLES, all, room, NULL);

		if (!status)
			return all;
		free(all);
		if (status != LENGTH_MISMATCH || room > 1 << 28)
			return NULL;
	}
}

static inline int count_handles(DWORD process)
{
	struct system_handles *all = all_handles();
	int count = 0;

	for (ULONG_PTR i = 0; all && i < all->count; i++)
		count += all->handles[i].process == process;
	free(all);
	return count;
}

#endif
