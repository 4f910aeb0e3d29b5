/*
 * A Windows program that tests the lab card: echo.exe INTERFACE PORT. It claims the UDP port and
 * sends each datagram for it back, except for those that begin with GIVEN_BACK: the kernel gets
 * these. It says `ready` when it can, and what is remarkable in a frame.
 */
#include <windows.h>
#include <stdio.h>
#include <string.h>
#include "lab_card.h"

#define GIVEN_BACK 0xff

/* The card's functions, found at run time as a driver's are. */
#define FUNCTIONS(EACH) \
	EACH(open) EACH(describe) EACH(receive) EACH(send) EACH(wait) EACH(wake) EACH(claim) EACH(give_back)
#define POINTER(name) __typeof__(&lab_card_##name) name;
#define FIND(name) card.name = (__typeof__(card.name))(void *)GetProcAddress(library, "lab_card_" #name);
#define IS_MISSING(name) || !card.name

static struct {
	int number;
	FUNCTIONS(POINTER)
} card;

static int load(void)
{
	HMODULE library = LoadLibraryA("tickwire_lab_card.dll");

	if (!library)
		return 0;
	FUNCTIONS(FIND)
	return !(0 FUNCTIONS(IS_MISSING));
}

static DWORD WINAPI wake_soon(void *unused)
{
	(void)unused;
	Sleep(50);
	card.wake(card.number);
	return 0;
}

/* Whether another thread ends a long wait, and only one. */
static int is_woken(void)
{
	unsigned char frame[64];
	struct lab_card_packet packet;
	ULONGLONG begin = GetTickCount64();
	int found = 0;

	CloseHandle(CreateThread(NULL, 0, wake_soon, NULL, 0, NULL));
	while (!(found & LAB_CARD_WOKEN) && GetTickCount64() - begin < 5000) {
		found = card.wait(card.number, 5000000);
		while (card.receive(card.number, frame, sizeof(frame), &packet) > 0)
			;
	}
	return found & LAB_CARD_WOKEN && !(card.wait(card.number, 1000) & LAB_CARD_WOKEN);
}

static void swap(unsigned char *a, unsigned char *b, size_t length)
{
	while (length-- > 0) {
		unsigned char byte = *a;

		*a++ = *b;
		*b++ = byte;
	}
}

/* A datagram for the port in an IPv4 packet without options. */
static int is_for(int port, const unsigned char *frame, int length)
{
	return length >= 42 && frame[12] == 8 && frame[13] == 0 && frame[14] == 0x45 && frame[23] == IPPROTO_UDP &&
	       frame[36] * 256 + frame[37] == port;
}

/* Sends a datagram back. No checksum changes by that. */
static int answer(unsigned char *frame, int length)
{
	swap(frame, frame + 6, 6);
	swap(frame + 26, frame + 30, 4);
	swap(frame + 34, frame + 36, 2);
	return card.send(card.number, frame, length);
}

static int echo(int port)
{
	static unsigned char frame[2048];
	struct lab_card_packet packet;
	int length;

	while ((length = card.receive(card.number, frame, sizeof(frame), &packet)) > 0) {
		if (packet.vlan >= 0)
			printf("vlan %d\n", packet.vlan);
		else if (packet.length > sizeof(frame))
			printf("%u bytes, %d of them in the buffer\n", packet.length, length);
		else if (is_for(port, frame, length)) {
			int is_kernels = length > 42 && frame[42] == GIVEN_BACK;

			length = is_kernels ? card.give_back(card.number, frame, length) : answer(frame, length);
			if (length < (is_kernels ? 1 : 0))
				return length ? length : -1;
		} else if ((length = card.give_back(card.number, frame, length)))
			return -1;
	}
	return length;
}

int main(int count, char **arguments)
{
	struct lab_card_description description;
	int port = count == 3 ? atoi(arguments[2]) : 0;
	int result;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (count != 3 || !load()) {
		printf("no lab card, or not two arguments (error %lu)\n", GetLastError());
		return 1;
	}
	result = card.number = card.open(arguments[1]);
	if (result >= 0)
		result = card.describe(card.number, &description);
	if (result >= 0 && !is_woken()) {
		printf("the wait was not ended\n");
		return 1;
	}
	if (result >= 0)
		result = card.claim(card.number, &(struct lab_card_port){ IPPROTO_UDP, port }, 1, 1);
	if (result >= 0)
		printf("ready: interface %u, MTU %u\n", description.index, description.mtu);
	while (result >= 0 && (result = card.wait(card.number, -1)) >= 0)
		result = echo(port);
	printf("errno %d\n", -result);
	return 1;
}
