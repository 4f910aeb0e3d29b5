/* Sending and receiving on connections; half close, ends, resets, timeouts, linger. */
#include "suite.h"

#define SUBJECT "streams"

CASE(echo)
{
	SOCKET s = talk("echo");
	char bytes[8];

	NUMBER("send", send(s, "abcde", 5, 0));
	NUMBER("recv", recv(s, bytes, 5, MSG_WAITALL));
	say_bytes(bytes, 5);
	closesocket(s);
}

CASE(recv_part_by_part)
{
	SOCKET s = talk("send:10 drain");
	char bytes[16];

	NUMBER("recv", recv(s, bytes, 4, 0));
	NUMBER("recv", recv(s, bytes + 4, 6, MSG_WAITALL));
	say_bytes(bytes, 10);
	closesocket(s);
}

CASE(recv_nothing)
{
	SOCKET s = talk("send:3 drain");
	char bytes[4];

	readable(s);
	NUMBER("none", recv(s, bytes, 0, 0));
	NUMBER("recv", recv(s, bytes, 4, 0));
	closesocket(s);
}

CASE(send_nothing)
{
	SOCKET s = talk("drain tell");

	NUMBER("send", send(s, "", 0, 0));
	NUMBER("null", send(s, NULL, 0, 0));
	OKAY("shutdown", shutdown(s, SD_SEND));
	heard(s);
	closesocket(s);
}

CASE(peek)
{
	SOCKET s = talk("send:6 drain");
	char bytes[8];

	NUMBER("peek", recv(s, bytes, 3, MSG_PEEK));
	say_bytes(bytes, 3);
	NUMBER("peek", recv(s, bytes, 3, MSG_PEEK));
	NUMBER("recv", recv(s, bytes, 6, MSG_WAITALL));
	say_bytes(bytes, 6);
	closesocket(s);
}

CASE(waitall)
{
	SOCKET s = talk("send:3 sleep:40 text:defgh drain");
	char bytes[8];

	NUMBER("recv", recv(s, bytes, 8, MSG_WAITALL));
	say_bytes(bytes, 8);
	closesocket(s);
}

CASE(waitall_and_the_end)
{
	SOCKET s = talk("send:3 sleep:20 fin drain");
	char bytes[8];

	NUMBER("recv", recv(s, bytes, 8, MSG_WAITALL));
	NUMBER("recv", recv(s, bytes, 8, MSG_WAITALL));
	closesocket(s);
}

CASE(waitall_without_blocking)
{
	SOCKET s = talk("send:3 go drain");
	char bytes[8];

	readable(s);
	nonblocking(s);
	NUMBER("recv", recv(s, bytes, 8, MSG_WAITALL));
	closesocket(s);
}

CASE(waitall_with_peek)
{
	SOCKET s = talk("send:3 go drain");
	char bytes[8];

	readable(s);
	nonblocking(s);
	NUMBER("recv", recv(s, bytes, 8, MSG_WAITALL | MSG_PEEK));
	NUMBER("recv", recv(s, bytes, 8, 0));
	closesocket(s);
}

CASE(the_end_is_repeated)
{
	SOCKET s = talk("close");
	char byte;

	NUMBER("recv", recv(s, &byte, 1, 0));
	NUMBER("recv", recv(s, &byte, 1, 0));
	NUMBER("peek", recv(s, &byte, 1, MSG_PEEK));
	closesocket(s);
}

CASE(without_blocking)
{
	SOCKET s = talk("go send:4 drain");
	char bytes[4];

	nonblocking(s);
	NUMBER("recv", recv(s, bytes, 4, 0));
	send(s, "g", 1, 0);
	readable(s);
	NUMBER("recv", recv(s, bytes, 4, 0));
	NUMBER("recv", recv(s, bytes, 4, 0));
	closesocket(s);
}

CASE(send_until_it_would_block)
{
	SOCKET s = talk("sleep:5000 drain");
	static char bytes[65536];
	int result, rounds = 0;
	struct timeval time = { 0, 0 };
	fd_set out;

	nonblocking(s);
	do
		result = send(s, bytes, sizeof(bytes), 0);
	while (result > 0 && ++rounds < 1000);
	say_number("send", result);
	say_number("again", send(s, bytes, sizeof(bytes), 0) == -1 ? -1 : 1);
	FD_ZERO(&out);
	FD_SET(s, &out);
	NUMBER("select", select(0, NULL, &out, NULL, &time));
	closesocket(s);
}

CASE(a_mebibyte)
{
	SOCKET s = talk("recv:1048576 tell");
	char *bytes = calloc(1, 1 << 20);

	NUMBER("send", send(s, bytes, 1 << 20, 0));
	heard(s);
	free(bytes);
	closesocket(s);
}

CASE(a_mebibyte_received)
{
	SOCKET s = talk("send:1048576 drain");
	char *bytes = malloc(1 << 20);

	NUMBER("recv", recv(s, bytes, 1 << 20, MSG_WAITALL));
	say_bytes(bytes, 1 << 20);
	free(bytes);
	closesocket(s);
}

CASE(names_in_recvfrom)
{
	SOCKET s = talk("send:3 send:3 drain");
	struct sockaddr_in name = { .sin_family = 77 };
	int length = sizeof(name);
	char bytes[8];

	NUMBER("recv", recvfrom(s, bytes, 3, 0, NAME(name), &length));
	say("family=%d length=%d", name.sin_family, length);
	NUMBER("recv", recvfrom(s, bytes, 3, 0, NULL, NULL));
	closesocket(s);
}

CASE(name_in_sendto)
{
	SOCKET s = talk("recv:3 tell");

	NUMBER("send", sendto(s, "abc", 3, 0, NAME(closed_port), sizeof(closed_port)));
	heard(s);
	closesocket(s);
}

CASE(flags_of_send)
{
	SOCKET s = talk("recv:2 tell");

	NUMBER("dontroute", send(s, "a", 1, MSG_DONTROUTE));
	NUMBER("partial", send(s, "a", 1, MSG_PARTIAL));
	heard(s);
	closesocket(s);
}

CASE(flag_of_recv)
{
	SOCKET s = talk("send:3 drain");
	char bytes[4];

	readable(s);
	NUMBER("partial", recv(s, bytes, 4, MSG_PARTIAL));
	closesocket(s);
}

CASE(unconnected)
{
	SOCKET s = stream();
	char byte;

	NUMBER("send", send(s, "a", 1, 0));
	NUMBER("sendto", sendto(s, "a", 1, 0, NAME(peer), sizeof(peer)));
	NUMBER("recv", recv(s, &byte, 1, 0));
	NUMBER("recvfrom", recvfrom(s, &byte, 1, 0, NULL, NULL));
	OKAY("shutdown", shutdown(s, SD_BOTH));
	closesocket(s);
}

CASE(half_close)
{
	SOCKET s = talk("drain tell send:5 close");
	char bytes[8];

	NUMBER("send", send(s, "abc", 3, 0));
	OKAY("shutdown", shutdown(s, SD_SEND));
	NUMBER("send", send(s, "a", 1, 0));
	heard(s);
	NUMBER("recv", recv(s, bytes, 8, MSG_WAITALL));
	NUMBER("recv", recv(s, bytes, 8, 0));
	closesocket(s);
}

CASE(half_closed_by_the_peer)
{
	SOCKET s = talk("send:2 fin recv:3 tell");
	char bytes[4];

	NUMBER("recv", recv(s, bytes, 4, MSG_WAITALL));
	NUMBER("recv", recv(s, bytes, 4, 0));
	NUMBER("send", send(s, "abc", 3, 0));
	OKAY("shutdown", shutdown(s, SD_SEND));
	closesocket(s);
}

CASE(shutdown_of_receiving)
{
	SOCKET s = talk("go send:3 drain");
	char bytes[4];

	OKAY("shutdown", shutdown(s, SD_RECEIVE));
	NUMBER("recv", recv(s, bytes, 4, 0));
	NUMBER("peek", recv(s, bytes, 4, MSG_PEEK));
	NUMBER("send", send(s, "g", 1, 0));
	closesocket(s);
}

CASE(shutdown_of_receiving_with_data)
{
	SOCKET s = talk("send:3 drain");
	char bytes[4];

	readable(s);
	OKAY("shutdown", shutdown(s, SD_RECEIVE));
	NUMBER("recv", recv(s, bytes, 4, 0));
	closesocket(s);
}

CASE(shutdown_of_both)
{
	SOCKET s = talk("drain tell");
	char bytes[4];

	OKAY("shutdown", shutdown(s, SD_BOTH));
	NUMBER("send", send(s, "a", 1, 0));
	NUMBER("recv", recv(s, bytes, 4, 0));
	OKAY("again", shutdown(s, SD_BOTH));
	closesocket(s);
}

CASE(shutdown_twice)
{
	SOCKET s = talk("drain tell");

	OKAY("shutdown", shutdown(s, SD_SEND));
	OKAY("again", shutdown(s, SD_SEND));
	heard(s);
	closesocket(s);
}

CASE(shutdown_in_a_wrong_way)
{
	SOCKET s = talk("drain");

	OKAY("seven", shutdown(s, 7));
	OKAY("negative", shutdown(s, -1));
	OKAY("socket", shutdown(12345, SD_BOTH));
	closesocket(s);
}

CASE(shutdown_after_a_reset)
{
	SOCKET s = talk("reset");
	char byte;

	NUMBER("recv", recv(s, &byte, 1, 0));
	OKAY("shutdown", shutdown(s, SD_SEND));
	closesocket(s);
}

CASE(reset)
{
	SOCKET s = talk("reset");
	char byte;

	NUMBER("recv", recv(s, &byte, 1, 0));
	NUMBER("recv", recv(s, &byte, 1, 0));
	NUMBER("send", send(s, "a", 1, 0));
	closesocket(s);
}

CASE(reset_after_data)
{
	SOCKET s = talk("send:3 sleep:30 reset");
	char bytes[4];

	Sleep(3 * QUIET);
	NUMBER("recv", recv(s, bytes, 4, 0) == -1 ? -1 : 1);
	NUMBER("recv", recv(s, bytes, 4, 0));
	closesocket(s);
}

CASE(reset_while_sending)
{
	SOCKET s = talk("go reset");

	send(s, "g", 1, 0);
	if (!exceptional(s))
		readable(s);
	NUMBER("send", send(s, "a", 1, 0));
	NUMBER("send", send(s, "a", 1, 0));
	closesocket(s);
}

CASE(reset_without_blocking)
{
	SOCKET s = talk("reset");
	char byte;

	nonblocking(s);
	readable(s);
	NUMBER("recv", recv(s, &byte, 1, 0));
	NUMBER("recv", recv(s, &byte, 1, 0));
	closesocket(s);
}

CASE(reset_as_an_option)
{
	SOCKET s = talk("reset");
	int error = -1, length = sizeof(error);

	readable(s);
	OKAY("get", getsockopt(s, SOL_SOCKET, SO_ERROR, (char *)&error, &length));
	say_error("pending", error);
	closesocket(s);
}

CASE(send_to_one_that_has_closed)
{
	SOCKET s = talk("go close");
	char byte;

	send(s, "g", 1, 0);
	NUMBER("recv", recv(s, &byte, 1, 0));
	NUMBER("send", send(s, "a", 1, 0));
	Sleep(QUIET);
	NUMBER("send", send(s, "a", 1, 0));
	NUMBER("recv", recv(s, &byte, 1, 0));
	closesocket(s);
}

CASE(receive_timeout)
{
	SOCKET s = talk("drain");
	DWORD begin = GetTickCount();
	char byte;

	OKAY("set", setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (char *)number(100), sizeof(int)));
	NUMBER("recv", recv(s, &byte, 1, 0));
	say("waited=%d", GetTickCount() - begin >= 80);
	NUMBER("again", recv(s, &byte, 1, 0));
	NUMBER("peek", recv(s, &byte, 1, MSG_PEEK));
	closesocket(s);
}

CASE(receive_timeout_and_a_part)
{
	SOCKET s = talk("send:3 drain");
	char bytes[8];

	OKAY("set", setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (char *)number(300), sizeof(int)));
	readable(s);
	NUMBER("recv", recv(s, bytes, 8, MSG_WAITALL));
	closesocket(s);
}

CASE(send_timeout)
{
	SOCKET s = talk("sleep:5000 drain");
	static char bytes[1 << 20];
	int result, rounds = 0;

	OKAY("set", setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, (char *)number(200), sizeof(int)));
	/* What has been taken when the time is over is no error. */
	do
		result = send(s, bytes, sizeof(bytes), 0);
	while (result > 0 && ++rounds < 64);
	say_number("send", result);
	closesocket(s);
}

CASE(accept_timeout)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control;

	/* It is not about accepting. */
	OKAY("set", setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (char *)number(100), sizeof(int)));
	control = dialled(&name, "drain");
	OKAY("accept", accept(s, NULL, NULL));
	closesocket(control);
	closesocket(s);
}

static void lingering(int on, int seconds, const char *script)
{
	struct linger linger = { on, seconds };
	SOCKET control, s = accepted(script, &control);

	OKAY("set", setsockopt(s, SOL_SOCKET, SO_LINGER, (char *)&linger, sizeof(linger)));
	NUMBER("send", send(s, "abc", 3, 0));
	OKAY("close", closesocket(s));
	heard(control);
	closesocket(control);
}

CASE(linger_off) { lingering(0, 0, "drain tell"); }
CASE(linger_zero) { lingering(1, 0, "sleep:60 drain tell"); }
CASE(linger_some) { lingering(1, 2, "drain tell"); }

CASE(linger_without_blocking)
{
	struct linger linger = { 1, 2 };
	SOCKET control, s = accepted("drain tell", &control);

	nonblocking(s);
	OKAY("set", setsockopt(s, SOL_SOCKET, SO_LINGER, (char *)&linger, sizeof(linger)));
	NUMBER("send", send(s, "abc", 3, 0));
	OKAY("close", closesocket(s));
	heard(control);
	closesocket(control);
}

CASE(dontlinger)
{
	SOCKET control, s = accepted("drain tell", &control);

	OKAY("set", setsockopt(s, SOL_SOCKET, SO_DONTLINGER, (char *)number(1), sizeof(int)));
	NUMBER("send", send(s, "abc", 3, 0));
	OKAY("close", closesocket(s));
	heard(control);
	closesocket(control);
}

CASE(close_with_data_unread)
{
	SOCKET control, s = accepted("send:5 drain tell", &control);

	readable(s);
	OKAY("close", closesocket(s));
	heard(control);
	closesocket(control);
}

CASE(close_after_shutdown)
{
	SOCKET control, s = accepted("drain tell", &control);

	NUMBER("send", send(s, "abc", 3, 0));
	OKAY("shutdown", shutdown(s, SD_BOTH));
	OKAY("close", closesocket(s));
	heard(control);
	closesocket(control);
}

CASE(wsasend_of_parts)
{
	SOCKET s = talk("recv:6 tell");
	WSABUF parts[] = { { 1, "a" }, { 0, NULL }, { 2, "bc" }, { 3, "def" } };
	DWORD count = 77;

	OKAY("send", WSASend(s, parts, 4, &count, 0, NULL, NULL));
	say("count=%lu", (unsigned long)count);
	heard(s);
	closesocket(s);
}

CASE(wsarecv_into_parts)
{
	SOCKET s = talk("send:9 drain");
	char bytes[16];
	WSABUF parts[] = { { 2, bytes }, { 0, NULL }, { 3, bytes + 2 }, { 11, bytes + 5 } };
	DWORD count = 77, flags = 0;

	readable(s);
	OKAY("recv", WSARecv(s, parts, 4, &count, &flags, NULL, NULL));
	say("count=%lu flags=%lx", (unsigned long)count, (unsigned long)flags);
	say_bytes(bytes, 9);
	closesocket(s);
}

CASE(wsarecv_with_flags)
{
	SOCKET s = talk("send:4 sleep:20 text:efgh drain");
	char bytes[8];
	WSABUF part = { 8, bytes };
	DWORD count, flags = MSG_PEEK;

	readable(s);
	OKAY("peek", WSARecv(s, &part, 1, &count, &flags, NULL, NULL));
	say("flags=%lx", (unsigned long)flags);
	flags = MSG_WAITALL;
	OKAY("all", WSARecv(s, &part, 1, &count, &flags, NULL, NULL));
	say("count=%lu flags=%lx", (unsigned long)count, (unsigned long)flags);
	say_bytes(bytes, 8);
	closesocket(s);
}

CASE(wsarecv_at_the_end)
{
	SOCKET s = talk("close");
	char bytes[8];
	WSABUF part = { 8, bytes };
	DWORD count = 77, flags = 0;

	OKAY("recv", WSARecv(s, &part, 1, &count, &flags, NULL, NULL));
	say("count=%lu flags=%lx", (unsigned long)count, (unsigned long)flags);
	closesocket(s);
}

CASE(disconnects)
{
	SOCKET s = talk("drain tell");

	OKAY("send", WSASendDisconnect(s, NULL));
	heard(s);
	closesocket(s);
	s = talk("drain");
	OKAY("recv", WSARecvDisconnect(s, NULL));
	closesocket(s);
	s = stream();
	OKAY("unconnected", WSASendDisconnect(s, NULL));
	closesocket(s);
}

CASE(wsarecvex)
{
	SOCKET s = talk("send:3 close");
	char bytes[8];
	int flags = 0;

	NUMBER("recv", WSARecvEx(s, bytes, 3, &flags));
	say("flags=%x", flags);
	NUMBER("end", WSARecvEx(s, bytes, 8, &flags));
	closesocket(s);
}
