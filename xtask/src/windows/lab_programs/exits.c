/*
 * A program that ends while its threads wait and not all that it has sent has arrived:
 *
 *     exits ADDRESS PORT
 *
 * Its threads wait by a completion port, a completion routine, ReadFile and recv. Two of its
 * threads end the process. It says `exiting`, and nothing after that. It knows nothing of Tickwire.
 */
#include "common.h"

#define SENT 400000

static struct sockaddr_in there;
static HANDLE port;

/* A connection; the peer reads slowly, or sends nothing. */
static SOCKET connected(const char *what)
{
	SOCKET s = WSASocketW(AF_INET, SOCK_STREAM, 0, NULL, 0, WSA_FLAG_OVERLAPPED);

	if (s == INVALID_SOCKET || connect(s, (void *)&there, sizeof(there)) || send(s, what, 1, 0) != 1)
		fail("a connection");
	return s;
}

static void say(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
}

static void begin_receiving(SOCKET s, LPWSAOVERLAPPED_COMPLETION_ROUTINE routine)
{
	static char bytes[4][16];
	static OVERLAPPED overlapped[4];
	static int count;
	WSABUF part = { 16, bytes[count] };
	DWORD flags = 0;

	if (WSARecv(s, &part, 1, NULL, &flags, &overlapped[count], routine) && WSAGetLastError() != WSA_IO_PENDING)
		fail("WSARecv");
	count++;
}

static DWORD WINAPI wait_at_port(void *unused)
{
	OVERLAPPED *found;
	ULONG_PTR key;
	DWORD count;

	GetQueuedCompletionStatus(port, &count, &key, &found, INFINITE);
	say("told by the port");
	return 0;
}

static void CALLBACK routine(DWORD error, DWORD bytes, OVERLAPPED *overlapped, DWORD flags)
{
	say("told by a routine");
}

static DWORD WINAPI wait_for_routine(void *unused)
{
	begin_receiving(connected("q"), routine);
	SleepEx(INFINITE, TRUE);
	say("the routine has been called");
	return 0;
}

static DWORD WINAPI read_file(void *unused)
{
	SOCKET s = connected("q");
	DWORD count;
	char byte;

	ReadFile((HANDLE)s, &byte, 1, &count, NULL);
	say("told by ReadFile");
	return 0;
}

static DWORD WINAPI receive(void *unused)
{
	SOCKET s = connected("q");
	char byte;

	recv(s, &byte, 1, 0);
	say("told by recv");
	return 0;
}

static DWORD WINAPI end_too(void *unused)
{
	Sleep(20);
	ExitProcess(7);
}

int main(int count, char **arguments)
{
	static const LPTHREAD_START_ROUTINE threads[] = { wait_at_port, wait_for_routine, read_file, receive };
	static char bytes[SENT];
	WSADATA data;
	SOCKET s, quiet;

	if (count != 3)
		return 2;
	if (WSAStartup(0x202, &data))
		fail("WSAStartup");
	there.sin_family = AF_INET;
	there.sin_addr.s_addr = inet_addr(arguments[1]);
	there.sin_port = htons(atoi(arguments[2]));
	quiet = connected("q");
	port = CreateIoCompletionPort((HANDLE)quiet, NULL, 0, 0);
	begin_receiving(quiet, NULL);
	for (int i = 0; i < 4; i++)
		CreateThread(NULL, 0, threads[i], NULL, 0, NULL);
	Sleep(1000);
	s = connected("s");
	for (int sent = 0; sent < SENT;) {
		int now = send(s, bytes, SENT - sent, 0);

		if (now <= 0)
			fail("send");
		sent += now;
	}
	CreateThread(NULL, 0, end_too, NULL, 0, NULL);
	say("exiting");
	ExitProcess(0);
}
