/*
 * A program that waits for its sockets by polls of the driver, and goes on when the service is
 * gone:
 *
 *     afd_loss ADDRESS PORT    with a server of echo there
 *
 * It says `ready` when the service may go, and `done` when all of its polls have ended as they
 * must. It knows nothing of Tickwire.
 */
#include "afd.h"

#define TIMEOUT_MS 10000

static struct sockaddr_in there;
static HANDLE device;

static void begin(struct poll *poll, SOCKET s, ULONG bits, LONGLONG timeout)
{
	memset(poll, 0, sizeof(*poll));
	poll->overlapped.hEvent = CreateEventA(NULL, TRUE, FALSE, NULL);
	poll->input = (struct poll_info){ timeout, 1, 0, { { s, bits, 0 } } };
	if (call(poll, device, NULL, SIZE(1)) < 0)
		fail("a poll");
}

static void ends(const char *what, const struct poll *poll, NTSTATUS status)
{
	if (WaitForSingleObject(poll->overlapped.hEvent, TIMEOUT_MS) != WAIT_OBJECT_0)
		fail(what);
	printf("%s: status %#lx\n", what, (unsigned long)status_of(poll));
	if (status_of(poll) != status)
		exit(1);
}

int main(int count, char **arguments)
{
	static struct poll before, connection, timed, other;
	SOCKET s, early, late;
	WSADATA data;

	if (count != 3)
		return 2;
	setvbuf(stdout, NULL, _IONBF, 0);
	if (WSAStartup(0x202, &data))
		fail("WSAStartup");
	there = address_of(arguments);
	device = open_device();
	s = made(SOCK_STREAM);
	early = made(SOCK_STREAM);
	late = made(SOCK_STREAM);
	if (!connect(s, (void *)&there, sizeof(there)) || WSAGetLastError() != WSAEWOULDBLOCK)
		fail("connect");
	begin(&connection, s, SEND, NEVER);
	ends("a connection", &connection, 0);
	begin(&connection, s, ABORT, NEVER);
	/* One that waits for a connection that comes afterwards. */
	begin(&before, early, SEND, NEVER);
	printf("ready\n");
	ends("the loss", &connection, 0);
	/* A time that ends is told, and what the kernel has. */
	begin(&timed, late, SEND, MILLISECONDS(200));
	ends("a time", &timed, STATUS_TIMEOUT);
	begin(&other, late, SEND, NEVER);
	if (!connect(early, (void *)&there, sizeof(there)) || WSAGetLastError() != WSAEWOULDBLOCK)
		fail("connect by the kernel");
	ends("a connection of the kernel, polled before the loss", &before, 0);
	if (!connect(late, (void *)&there, sizeof(there)) || WSAGetLastError() != WSAEWOULDBLOCK)
		fail("connect by the kernel");
	ends("a connection of the kernel, polled after the loss", &other, 0);
	printf("done\n");
	return 0;
}
