/* ioctlsocket and WSAIoctl. */
#include "suite.h"
#include <mstcpip.h>

#define SUBJECT "controls"

static void asked(const char *what, SOCKET s, DWORD code, void *in, DWORD in_length, void *out, DWORD out_length)
{
	DWORD size = 77;

	WSASetLastError(0);
	if (WSAIoctl(s, code, in, in_length, out, out_length, &size, NULL, NULL))
		say_number(what, -1);
	else
		say("%s=ok/%lu", what, (unsigned long)size);
}

CASE(bytes_of_a_stream)
{
	SOCKET s = talk("go send:5 go drain");
	u_long count = 77;
	char bytes[8];

	OKAY("none", ioctlsocket(s, FIONREAD, &count));
	say("bytes=%lu", (unsigned long)count);
	send(s, "g", 1, 0);
	readable(s);
	OKAY("some", ioctlsocket(s, FIONREAD, &count));
	say("bytes=%lu", (unsigned long)count);
	recv(s, bytes, 2, 0);
	asked("rest", s, FIONREAD, NULL, 0, &count, sizeof(count));
	say("bytes=%lu", (unsigned long)count);
	closesocket(s);
}

CASE(bytes_elsewhere)
{
	SOCKET s = stream(), u = datagram();
	u_long count = 77;

	OKAY("fresh", ioctlsocket(s, FIONREAD, &count));
	say("bytes=%lu", (unsigned long)count);
	OKAY("datagram", ioctlsocket(u, FIONREAD, &count));
	say("bytes=%lu", (unsigned long)count);
	OKAY("null", ioctlsocket(s, FIONREAD, NULL));
	OKAY("socket", ioctlsocket(12345, FIONREAD, &count));
	closesocket(s);
	closesocket(u);
}

CASE(bytes_at_the_end)
{
	SOCKET s = talk("close");
	u_long count = 77;

	readable(s);
	OKAY("bytes", ioctlsocket(s, FIONREAD, &count));
	say("bytes=%lu", (unsigned long)count);
	closesocket(s);
}

CASE(blocking)
{
	SOCKET s = talk("drain");
	u_long on = 1, off = 0;
	char byte;

	OKAY("on", ioctlsocket(s, FIONBIO, &on));
	NUMBER("recv", recv(s, &byte, 1, 0));
	OKAY("off", ioctlsocket(s, FIONBIO, &off));
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (char *)number(50), sizeof(int));
	NUMBER("recv", recv(s, &byte, 1, 0));
	asked("on", s, FIONBIO, &on, sizeof(on), NULL, 0);
	NUMBER("recv", recv(s, &byte, 1, 0));
	OKAY("null", ioctlsocket(s, FIONBIO, NULL));
	OKAY("socket", ioctlsocket(12345, FIONBIO, &on));
	closesocket(s);
}

CASE(blocking_while_events_are_asked_for)
{
	SOCKET s = talk("drain");
	WSAEVENT event = WSACreateEvent();
	u_long off = 0;

	OKAY("select", WSAEventSelect(s, event, FD_READ));
	OKAY("off", ioctlsocket(s, FIONBIO, &off));
	OKAY("none", WSAEventSelect(s, event, 0));
	OKAY("off", ioctlsocket(s, FIONBIO, &off));
	closesocket(s);
	WSACloseEvent(event);
}

CASE(unknown_command)
{
	SOCKET s = talk("drain");
	u_long value = 0;

	OKAY("command", ioctlsocket(s, 0x12345678, &value));
	asked("code", s, 0x12345678, &value, sizeof(value), &value, sizeof(value));
	closesocket(s);
}

CASE(keepalive_values)
{
	struct tcp_keepalive times = { 1, 5000, 1000 };
	SOCKET s = talk("drain"), f = stream(), u = datagram();
	int value = 0, length = sizeof(value);

	asked("connected", s, SIO_KEEPALIVE_VALS, &times, sizeof(times), NULL, 0);
	OKAY("get", getsockopt(s, SOL_SOCKET, SO_KEEPALIVE, (char *)&value, &length));
	say("on=%x", value);
	asked("fresh", f, SIO_KEEPALIVE_VALS, &times, sizeof(times), NULL, 0);
	asked("datagram", u, SIO_KEEPALIVE_VALS, &times, sizeof(times), NULL, 0);
	asked("short", s, SIO_KEEPALIVE_VALS, &times, 4, NULL, 0);
	asked("null", s, SIO_KEEPALIVE_VALS, NULL, sizeof(times), NULL, 0);
	times.onoff = 0;
	asked("off", s, SIO_KEEPALIVE_VALS, &times, sizeof(times), NULL, 0);
	closesocket(s);
	closesocket(f);
	closesocket(u);
}

CASE(addresses)
{
	SOCKET s = talk("drain");
	char room[2048];
	SOCKET_ADDRESS_LIST *list = (void *)room;

	asked("list", s, SIO_ADDRESS_LIST_QUERY, NULL, 0, room, sizeof(room));
	say("some=%d", list->iAddressCount > 0);
	asked("short", s, SIO_ADDRESS_LIST_QUERY, NULL, 0, room, 2);
	closesocket(s);
}

CASE(interfaces)
{
	SOCKET s = talk("drain");
	DWORD size = 0;
	char room[4096];

	OKAY("list", WSAIoctl(s, SIO_GET_INTERFACE_LIST, NULL, 0, room, sizeof(room), &size, NULL, NULL));
	say("some=%d", size >= sizeof(INTERFACE_INFO));
	closesocket(s);
}

CASE(route)
{
	struct sockaddr_in found = { 0 };
	SOCKET s = datagram();

	asked("route", s, SIO_ROUTING_INTERFACE_QUERY, &peer, sizeof(peer), &found, sizeof(found));
	say_name("is", &found, sizeof(found), 0);
	closesocket(s);
}

CASE(flush)
{
	SOCKET s = talk("drain");

	asked("flush", s, SIO_FLUSH, NULL, 0, NULL, 0);
	closesocket(s);
}

CASE(urgent_mark)
{
	SOCKET s = talk("drain");
	BOOL mark = 77;

	asked("mark", s, SIOCATMARK, NULL, 0, &mark, sizeof(mark));
	say("at=%d", mark);
	closesocket(s);
}

CASE(base_handle)
{
	SOCKET s = talk("drain"), base = 0;

	asked("base", s, SIO_BASE_HANDLE, NULL, 0, &base, sizeof(base));
	say("same=%d", base == s);
	closesocket(s);
}

CASE(loopback_fast_path)
{
	SOCKET s = stream();
	DWORD on = 1;

	asked("set", s, SIO_LOOPBACK_FAST_PATH, &on, sizeof(on), NULL, 0);
	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	closesocket(s);
}

/* SIO_TCP_INFO, version 0, begins so. */
struct info {
	int state;
	ULONG mss;
	ULONG64 connection_ms;
	UCHAR timestamps;
	ULONG rtt_us, min_rtt_us, bytes_in_flight, cwnd, snd_wnd, rcv_wnd, rcv_buf;
	ULONG64 bytes_out, bytes_in;
	ULONG bytes_reordered, bytes_retrans, fast_retrans, dup_acks_in, timeout_episodes;
	UCHAR syn_retrans;
};

#define TCP_INFO_CODE _WSAIORW(IOC_VENDOR, 39)

CASE(tcp_info)
{
	struct info info = { 0 };
	SOCKET s = talk("send:5 drain"), f = stream(), u = datagram();
	char bytes[8];
	DWORD version = 0;

	recv(s, bytes, 5, MSG_WAITALL);
	asked("info", s, TCP_INFO_CODE, &version, sizeof(version), &info, sizeof(info));
	say("state=%d mss=%d in=%lld out=%lld", info.state, info.mss > 500, info.bytes_in, info.bytes_out);
	asked("fresh", f, TCP_INFO_CODE, &version, sizeof(version), &info, sizeof(info));
	asked("datagram", u, TCP_INFO_CODE, &version, sizeof(version), &info, sizeof(info));
	asked("short", s, TCP_INFO_CODE, &version, sizeof(version), &info, 8);
	version = 7;
	asked("version", s, TCP_INFO_CODE, &version, sizeof(version), &info, sizeof(info));
	closesocket(s);
	closesocket(f);
	closesocket(u);
}

CASE(extension_functions)
{
	static const GUID ids[] = { WSAID_ACCEPTEX, WSAID_CONNECTEX, WSAID_DISCONNECTEX, WSAID_GETACCEPTEXSOCKADDRS,
				    WSAID_TRANSMITFILE, WSAID_TRANSMITPACKETS, WSAID_WSARECVMSG, WSAID_WSASENDMSG,
				    { 0x12345678, 1, 2, { 3 } } };
	SOCKET s = stream();

	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		void *function = NULL;

		asked("function", s, SIO_GET_EXTENSION_FUNCTION_POINTER, (void *)&ids[i], sizeof(ids[i]), &function,
		      sizeof(function));
		say("there=%d", function != NULL);
	}
	asked("short", s, SIO_GET_EXTENSION_FUNCTION_POINTER, (void *)&ids[0], 3, &s, sizeof(s));
	closesocket(s);
}

CASE(bad_arguments)
{
	SOCKET s = talk("drain");
	u_long value = 0;
	DWORD size;

	asked("socket", 12345, FIONREAD, NULL, 0, &value, sizeof(value));
	asked("null", s, FIONREAD, NULL, 0, NULL, 0);
	asked("short", s, FIONREAD, NULL, 0, &value, 2);
	OKAY("size", WSAIoctl(s, FIONREAD, NULL, 0, &value, sizeof(value), NULL, NULL, NULL));
	OKAY("bio", WSAIoctl(s, FIONBIO, NULL, 0, NULL, 0, &size, NULL, NULL));
	closesocket(s);
}

CASE(overlapped_question)
{
	SOCKET s = talk("send:5 drain");
	OVERLAPPED overlapped = with_event();
	u_long count = 77;

	readable(s);
	OKAY("bytes", WSAIoctl(s, FIONREAD, NULL, 0, &count, sizeof(count), NULL, &overlapped, NULL));
	say("bytes=%lu", (unsigned long)count);
	finished("done", s, &overlapped);
	closesocket(s);
}
