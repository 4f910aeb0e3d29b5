/* Polls of the driver of sockets, as mio, wepoll and libuv make them. */
#ifndef LAB_PROGRAMS_AFD_H
#define LAB_PROGRAMS_AFD_H

#include "common.h"
#include <winternl.h>

#define IOCTL_AFD_POLL 0x12024

#define RECEIVE 0x1
#define SEND 0x4
#define DISCONNECT 0x8
#define ABORT 0x10
#define LOCAL_CLOSE 0x20
#define CONNECT 0x40
#define ACCEPT 0x80
#define CONNECT_FAIL 0x100
#define EVERY (~0u)

#define NEVER 0x7fffffffffffffffLL
/* In 100 ns, from now. */
#define MILLISECONDS(count) (-10000LL * (count))

#define MOST_POLLED 4

struct polled {
	SOCKET s;
	ULONG bits;
	NTSTATUS status;
};

struct poll_info {
	LONGLONG timeout;
	ULONG count;
	ULONG exclusive;
	struct polled sockets[MOST_POLLED];
};

/* A poll, from its begin to its completion. */
struct poll {
	/* An `OVERLAPPED` begins with a status block. */
	union {
		OVERLAPPED overlapped;
		IO_STATUS_BLOCK status;
	};
	struct poll_info input, output;
	/* What the call has returned. */
	NTSTATUS called;
};

#define SIZE(count) (offsetof(struct poll_info, sockets) + (count) * sizeof(struct polled))

/* A handle of the driver. */
static inline HANDLE open_device(void)
{
	static wchar_t name[] = L"\\Device\\Afd\\Lab";
	UNICODE_STRING string = { sizeof(name) - 2, sizeof(name) - 2, name };
	OBJECT_ATTRIBUTES attributes = { .Length = sizeof(attributes), .ObjectName = &string };
	IO_STATUS_BLOCK status;
	HANDLE device;

	if (NtCreateFile(&device, SYNCHRONIZE, &attributes, &status, NULL, 0, FILE_SHARE_READ | FILE_SHARE_WRITE,
			 FILE_OPEN, 0, NULL, 0))
		fail("the driver cannot be opened");
	return device;
}

/* Makes the call, with an input that has been filled in. */
static inline NTSTATUS call(struct poll *poll, HANDLE device, void *context, ULONG size)
{
	poll->called = NtDeviceIoControlFile(device, poll->overlapped.hEvent, NULL, context,
					     &poll->status, IOCTL_AFD_POLL, &poll->input, size,
					     &poll->output, size);
	return poll->called;
}

/* A socket that does not block. */
static inline SOCKET made(int kind)
{
	SOCKET s = socket(AF_INET, kind, 0);
	u_long yes = 1;

	if (s == INVALID_SOCKET || ioctlsocket(s, FIONBIO, &yes))
		fail("a socket");
	return s;
}

/* The words ADDRESS and PORT of a command line. */
static inline struct sockaddr_in address_of(char **arguments)
{
	struct sockaddr_in address = { .sin_family = AF_INET };

	address.sin_addr.s_addr = inet_addr(arguments[1]);
	address.sin_port = htons(atoi(arguments[2]));
	return address;
}

static inline NTSTATUS status_of(const struct poll *poll)
{
	return *(volatile NTSTATUS *)&poll->status.Status;
}

#endif
