/* Calls of Winsock that wait, where what they wait for does not come, or comes for one of two:
 *
 *     waits ADDRESS PORT          with an echo of UDP there
 *     waits ADDRESS PORT COUNT    so many echoes by UDP and by TCP, and then it keeps its sockets
 *
 * It says what it has seen. It knows nothing of Tickwire.
 */
#include "common.h"

#define TIMEOUT_MS 1000

static struct sockaddr_in there;

static SOCKET connected_by(int kind)
{
	SOCKET s = socket(AF_INET, kind, 0);
	DWORD timeout_ms = TIMEOUT_MS;

	if (connect(s, (void *)&there, sizeof(there)))
		fail("connect");
	if (setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (void *)&timeout_ms, sizeof(timeout_ms)))
		fail("SO_RCVTIMEO");
	return s;
}

static SOCKET connected(void)
{
	return connected_by(SOCK_DGRAM);
}

static void echo(SOCKET s)
{
	char byte = 1;

	if (send(s, &byte, 1, 0) != 1 || recv(s, &byte, 1, 0) != 1)
		fail("an echo");
}

/* A time that is set is kept, whatever was done in it. */
static void timeouts(void)
{
	SOCKET s = connected();
	char byte;
	double begin;
	fd_set set;
	struct timeval time = { TIMEOUT_MS / 1000, 0 };
	WSAPOLLFD poll = { s, POLLRDNORM, 0 };

	echo(s);
	begin = now_us();
	if (recv(s, &byte, 1, 0) != SOCKET_ERROR || WSAGetLastError() != WSAETIMEDOUT)
		fail("recv without data");
	printf("recv %.0f ms\n", (now_us() - begin) / 1000);
	echo(s);
	FD_ZERO(&set);
	FD_SET(s, &set);
	begin = now_us();
	if (select(0, &set, NULL, NULL, &time) || FD_ISSET(s, &set))
		fail("select without data");
	printf("select %.0f ms\n", (now_us() - begin) / 1000);
	echo(s);
	begin = now_us();
	if (WSAPoll(&poll, 1, TIMEOUT_MS) || poll.revents)
		fail("WSAPoll without data");
	printf("WSAPoll %.0f ms\n", (now_us() - begin) / 1000);
	closesocket(s);
}

static volatile LONG received;

static DWORD WINAPI receive_one(void *argument)
{
	char byte;

	if (recv((SOCKET)argument, &byte, 1, 0) == 1)
		InterlockedIncrement(&received);
	return 0;
}

/* Two threads receive at one socket: each datagram is one's, and no call is without end. */
static void two_receivers(void)
{
	SOCKET s = connected();
	HANDLE threads[2];

	for (int round = 0; round < 100; round++) {
		char byte = 2;

		received = 0;
		echo(s);
		for (int i = 0; i < 2; i++)
			threads[i] = CreateThread(NULL, 0, receive_one, (void *)s, 0, NULL);
		for (int i = 0; i < 2; i++)
			if (send(s, &byte, 1, 0) != 1)
				fail("send");
		if (WaitForMultipleObjects(2, threads, TRUE, 10000) != WAIT_OBJECT_0)
			fail("two threads that receive");
		if (received != 2)
			fail("a datagram for each");
		CloseHandle(threads[0]);
		CloseHandle(threads[1]);
	}
	closesocket(s);
	printf("two receivers\n");
}

/* Whether a socket blocks stays as the program has set it. */
static void blocking_stays(void)
{
	SOCKET s = connected();
	u_long yes = 1;
	char byte;

	echo(s);
	ioctlsocket(s, FIONBIO, &yes);
	if (recv(s, &byte, 1, 0) != SOCKET_ERROR || WSAGetLastError() != WSAEWOULDBLOCK)
		fail("recv without blocking");
	yes = 0;
	ioctlsocket(s, FIONBIO, &yes);
	echo(s);
	closesocket(s);
	printf("blocking stays\n");
}

/* A socket that tells of events does not block, and stays so. */
static void events_end_blocking(void)
{
	SOCKET s = connected();
	WSAEVENT event = WSACreateEvent();
	u_long no = 0;
	double begin;
	char byte;

	echo(s);
	if (WSAEventSelect(s, event, FD_READ))
		fail("WSAEventSelect");
	if (!ioctlsocket(s, FIONBIO, &no) || WSAGetLastError() != WSAEINVAL)
		fail("blocking with events");
	begin = now_us();
	if (recv(s, &byte, 1, 0) != SOCKET_ERROR || WSAGetLastError() != WSAEWOULDBLOCK)
		fail("recv with events");
	if (now_us() - begin > TIMEOUT_MS * 1000 / 3)
		fail("recv with events waits");
	closesocket(s);
	WSACloseEvent(event);
	printf("events end blocking\n");
}

/* Echoes, and keeps the sockets until the process is ended. */
static void hold(int count)
{
	SOCKET sockets[2] = { connected_by(SOCK_DGRAM), connected_by(SOCK_STREAM) };

	for (int i = 0; i < 2 * count; i++)
		echo(sockets[i % 2]);
	printf("held\n");
	fflush(stdout);
	Sleep(INFINITE);
}

int main(int count, char **arguments)
{
	WSADATA data;

	if (count != 3 && count != 4)
		return 2;
	if (WSAStartup(0x202, &data))
		fail("WSAStartup");
	there.sin_family = AF_INET;
	there.sin_addr.s_addr = inet_addr(arguments[1]);
	there.sin_port = htons(atoi(arguments[2]));
	if (count == 4)
		hold(atoi(arguments[3]));
	timeouts();
	two_receivers();
	blocking_stays();
	events_end_blocking();
	printf("done\n");
	return 0;
}
