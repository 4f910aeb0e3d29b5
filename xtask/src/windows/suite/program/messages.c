/* WSARecvMsg and WSASendMsg. */
#include "suite.h"

#define SUBJECT "extensions"

static char room[8192];

CASE(receive_a_message)
{
	struct sockaddr_in name, from = { 0 };
	SOCKET s = bound_datagram(&name);
	WSABUF part = { 9, room };
	char control[128];
	WSAMSG message = { NAME(from), sizeof(from), &part, 1, { sizeof(control), control }, 0 };
	DWORD count = 77;

	ask(s, "size:5");
	OKAY("recv", EXTENSION(LPFN_WSARECVMSG, s, WSAID_WSARECVMSG)(s, &message, &count, NULL, NULL));
	say("count=%lu flags=%lx control=%lu", (unsigned long)count, (unsigned long)message.dwFlags,
	    (unsigned long)message.Control.len);
	say_name("from", &from, message.namelen, ntohs(peer.sin_port));
	closesocket(s);
}

CASE(receive_a_message_that_is_cut)
{
	struct sockaddr_in name, from = { 0 };
	SOCKET s = bound_datagram(&name);
	WSABUF part = { 3, room };
	WSAMSG message = { NAME(from), sizeof(from), &part, 1, { 0, NULL }, 0 };
	DWORD count = 77;

	ask(s, "size:5");
	OKAY("recv", EXTENSION(LPFN_WSARECVMSG, s, WSAID_WSARECVMSG)(s, &message, &count, NULL, NULL));
	say("count=%lu flags=%lx", (unsigned long)count, (unsigned long)message.dwFlags);
	closesocket(s);
}

CASE(receive_a_message_overlapped)
{
	struct sockaddr_in name, from = { 0 };
	SOCKET s = bound_datagram(&name);
	WSABUF part = { 9, room };
	WSAMSG message = { NAME(from), sizeof(from), &part, 1, { 0, NULL }, 0 };
	OVERLAPPED overlapped = with_event();

	OKAY("recv", EXTENSION(LPFN_WSARECVMSG, s, WSAID_WSARECVMSG)(s, &message, NULL, &overlapped, NULL));
	ask(s, "size:5");
	finished("done", s, &overlapped);
	say_name("from", &from, message.namelen, ntohs(peer.sin_port));
	closesocket(s);
}

CASE(receive_a_message_of_a_stream)
{
	SOCKET s = talk("send:5 drain");
	WSABUF part = { 9, room };
	WSAMSG message = { NULL, 0, &part, 1, { 0, NULL }, 0 };
	DWORD count = 77;

	readable(s);
	OKAY("recv", EXTENSION(LPFN_WSARECVMSG, s, WSAID_WSARECVMSG)(s, &message, &count, NULL, NULL));
	closesocket(s);
}

CASE(packet_information)
{
	struct sockaddr_in name, from = { 0 };
	SOCKET s = bound_datagram(&name);
	WSABUF part = { 9, room };
	char control[128] = "";
	WSAMSG message = { NAME(from), sizeof(from), &part, 1, { sizeof(control), control }, 0 };
	WSACMSGHDR *header = (void *)control;
	DWORD count = 77;

	OKAY("set", setsockopt(s, IPPROTO_IP, IP_PKTINFO, (char *)number(1), sizeof(int)));
	ask(s, "size:5");
	OKAY("recv", EXTENSION(LPFN_WSARECVMSG, s, WSAID_WSARECVMSG)(s, &message, &count, NULL, NULL));
	say("count=%lu control=%lu level=%d type=%d", (unsigned long)count, (unsigned long)message.Control.len,
	    header->cmsg_level, header->cmsg_type);
	closesocket(s);
}

CASE(send_a_message)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	WSABUF parts[] = { { 1, "a" }, { 2, "bc" } };
	WSAMSG message = { NAME(peer), sizeof(peer), parts, 2, { 0, NULL }, 0 };
	LPFN_WSASENDMSG function = NULL;
	GUID id = WSAID_WSASENDMSG;
	DWORD size, count = 77;

	OKAY("function", WSAIoctl(s, SIO_GET_EXTENSION_FUNCTION_POINTER, &id, sizeof(id), &function, sizeof(function),
				  &size, NULL, NULL));
	if (function) {
		OKAY("send", function(s, &message, 0, &count, NULL, NULL));
		say("count=%lu", (unsigned long)count);
		NUMBER("recv", recv(s, room, 9, 0));
	}
	closesocket(s);
}
