/* Other ways to a socket's handle: files, duplicates, other processes. */
#include "suite.h"

#define SUBJECT "handles"

static char room[4096];

CASE(read_file)
{
	SOCKET s = talk("send:5 drain");
	OVERLAPPED overlapped = with_event();
	DWORD count = 77;
	BOOL is_good;

	readable(s);
	SetLastError(0);
	is_good = ReadFile((HANDLE)s, room, 9, NULL, &overlapped);
	say("begun=%d", is_good || GetLastError() == ERROR_IO_PENDING);
	TRUTH("done", GetOverlappedResult((HANDLE)s, &overlapped, &count, TRUE));
	say("count=%lu", (unsigned long)count);
	closesocket(s);
}

CASE(read_file_that_waits)
{
	SOCKET s = talk("sleep:40 send:5 drain");
	OVERLAPPED overlapped = with_event();
	DWORD count = 77;
	BOOL is_good;

	SetLastError(0);
	is_good = ReadFile((HANDLE)s, room, 9, NULL, &overlapped);
	say("begun=%d", is_good || GetLastError() == ERROR_IO_PENDING);
	TRUTH("done", GetOverlappedResult((HANDLE)s, &overlapped, &count, TRUE));
	say("count=%lu", (unsigned long)count);
	closesocket(s);
}

CASE(read_file_at_the_end)
{
	SOCKET s = talk("close");
	OVERLAPPED overlapped = with_event();
	DWORD count = 77;
	BOOL is_good;

	readable(s);
	SetLastError(0);
	is_good = ReadFile((HANDLE)s, room, 9, NULL, &overlapped);
	say("begun=%d", is_good || GetLastError() == ERROR_IO_PENDING);
	say("done=%d", GetOverlappedResult((HANDLE)s, &overlapped, &count, TRUE) != 0);
	say("count=%lu", (unsigned long)count);
	closesocket(s);
}

CASE(write_file)
{
	SOCKET s = talk("recv:3 tell drain");
	OVERLAPPED overlapped = with_event();
	DWORD count = 77;
	BOOL is_good;

	SetLastError(0);
	is_good = WriteFile((HANDLE)s, "abc", 3, NULL, &overlapped);
	say("begun=%d", is_good || GetLastError() == ERROR_IO_PENDING);
	TRUTH("done", GetOverlappedResult((HANDLE)s, &overlapped, &count, TRUE));
	say("count=%lu", (unsigned long)count);
	heard(s);
	closesocket(s);
}

CASE(write_file_of_one_not_connected)
{
	SOCKET s = stream();
	OVERLAPPED overlapped = with_event();

	say("begun=%d", WriteFile((HANDLE)s, "abc", 3, NULL, &overlapped) || GetLastError() == ERROR_IO_PENDING);
	closesocket(s);
}

CASE(files_by_a_port)
{
	SOCKET s = talk("recv:3 send:5 drain");
	HANDLE port = CreateIoCompletionPort((HANDLE)s, NULL, 7, 0);
	OVERLAPPED out = { 0 }, in = { 0 };

	WriteFile((HANDLE)s, "abc", 3, NULL, &out);
	taken("written", port, &out, 7);
	ReadFile((HANDLE)s, room, 9, NULL, &in);
	taken("read", port, &in, 7);
	closesocket(s);
	CloseHandle(port);
}

CASE(files_of_datagrams)
{
	SOCKET s = datagram();
	OVERLAPPED out = with_event(), in = with_event();
	DWORD count = 77;

	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	WriteFile((HANDLE)s, "abc", 3, NULL, &out);
	TRUTH("written", GetOverlappedResult((HANDLE)s, &out, &count, TRUE));
	ReadFile((HANDLE)s, room, 9, NULL, &in);
	TRUTH("read", GetOverlappedResult((HANDLE)s, &in, &count, TRUE));
	say("count=%lu", (unsigned long)count);
	closesocket(s);
}

CASE(close_handle)
{
	SOCKET control, s = accepted("drain tell", &control);

	TRUTH("close", CloseHandle((HANDLE)s));
	NUMBER("send", send(s, "a", 1, 0));
	heard(control);
	closesocket(control);
}

CASE(close_handle_of_a_client)
{
	SOCKET s = talk("drain");

	TRUTH("close", CloseHandle((HANDLE)s));
	NUMBER("send", send(s, "a", 1, 0));
	OKAY("close", closesocket(s));
}

CASE(close_handle_of_a_listener)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name);

	TRUTH("close", CloseHandle((HANDLE)s));
	OKAY("accept", accept(s, NULL, NULL));
	s = stream();
	OKAY("bind", bind(s, NAME(name), sizeof(name)));
	closesocket(s);
}

CASE(close_handle_of_datagrams)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	TRUTH("close", CloseHandle((HANDLE)s));
	NUMBER("send", sendto(s, "a", 1, 0, NAME(peer), sizeof(peer)));
	s = datagram();
	OKAY("bind", bind(s, NAME(name), sizeof(name)));
	closesocket(s);
}

CASE(handle_information)
{
	SOCKET s = talk("drain");
	DWORD flags = 77;

	TRUTH("get", GetHandleInformation((HANDLE)s, &flags));
	say("flags=%lx", (unsigned long)flags);
	TRUTH("set", SetHandleInformation((HANDLE)s, HANDLE_FLAG_INHERIT, 0));
	TRUTH("get", GetHandleInformation((HANDLE)s, &flags));
	say("flags=%lx type=%lx", (unsigned long)flags, (unsigned long)GetFileType((HANDLE)s));
	closesocket(s);
}

static SOCKET duplicate(SOCKET s)
{
	WSAPROTOCOL_INFOW info;
	SOCKET copy;

	OKAY("duplicate", WSADuplicateSocketW(s, GetCurrentProcessId(), &info));
	OKAY("made", copy = WSASocketW(FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, &info, 0,
				       WSA_FLAG_OVERLAPPED));
	return copy;
}

CASE(duplicate_of_a_fresh_one)
{
	SOCKET s = stream(), copy = duplicate(s);

	OKAY("connect", connect(copy, NAME(peer), sizeof(peer)));
	closesocket(s);
	closesocket(copy);
}

CASE(duplicate_of_a_connection)
{
	SOCKET s = talk("send:5 drain"), copy = duplicate(s);

	if (copy != INVALID_SOCKET) {
		NUMBER("recv", recv(copy, room, 5, MSG_WAITALL));
		closesocket(copy);
	}
	NUMBER("send", send(s, "a", 1, 0));
	closesocket(s);
}

CASE(duplicate_of_a_listener)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), copy = duplicate(s), control;

	closesocket(s);
	control = dialled(&name, "drain");
	OKAY("accept", accept(copy, NULL, NULL));
	closesocket(control);
	closesocket(copy);
}

CASE(duplicate_beside_its_listener)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), copy = duplicate(s), control = dialled(&name, "drain");

	OKAY("accept", accept(copy, NULL, NULL));
	closesocket(control);
	closesocket(copy);
	closesocket(s);
}

CASE(duplicate_of_datagrams)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name), copy = duplicate(s);

	ask(copy, "abc");
	NUMBER("recv", recv(copy, room, 9, 0));
	closesocket(copy);
	ask(s, "abc");
	NUMBER("recv", recv(s, room, 9, 0));
	closesocket(s);
}

CASE(duplicate_wrongly)
{
	WSAPROTOCOL_INFOW info;
	SOCKET s = talk("drain");

	OKAY("socket", WSADuplicateSocketW(12345, GetCurrentProcessId(), &info));
	OKAY("null", WSADuplicateSocketW(s, GetCurrentProcessId(), NULL));
	OKAY("process", WSADuplicateSocketW(s, 0x7ffffff0, &info));
	closesocket(s);
}

CASE(duplicate_handle)
{
	SOCKET s = talk("send:5 drain");
	HANDLE copy = NULL;

	TRUTH("duplicate", DuplicateHandle(GetCurrentProcess(), (HANDLE)s, GetCurrentProcess(), &copy, 0, FALSE,
					   DUPLICATE_SAME_ACCESS));
	NUMBER("recv", recv(s, room, 5, MSG_WAITALL));
	TRUTH("close", CloseHandle(copy));
	NUMBER("send", send(s, "a", 1, 0));
	closesocket(s);
}
