/*
 * A stand-in for WinDivert 2.2 in the Wine lab: WinDivert.dll with the functions that a program
 * needs to take packets from the kernel, give them back, and send. It is a Winelib DLL, and inside
 * it calls Linux (host.h). What the functions do says WinDivert's documentation.
 *
 * There is one layer, that of packets from and to this host. What this host sends is not taken. A
 * handle that takes packets has no flags; one for copies has both of those that are here.
 */
#ifndef WINDIVERT_H
#define WINDIVERT_H

/* Before the others, which have a part of it. */
#include <ntstatus.h>
#define WIN32_NO_STATUS
#include <stdint.h>
#include <windef.h>
#include <winbase.h>
#include <winternl.h>

/* The documented limits. */
#define BATCH_MAX 255
#define PRIORITY_MAX 30000
#define FLAGS_OF_COPIES 5 /* SNIFF, RECV_ONLY */
#define SHUTDOWN_RECEIVE 1
#define SHUTDOWN_SEND 2

enum layer { LAYER_NETWORK };

enum parameter {
	PARAM_QUEUE_LENGTH,
	PARAM_QUEUE_TIME,
	PARAM_QUEUE_SIZE,
	PARAM_VERSION_MAJOR,
	PARAM_VERSION_MINOR,
};

/* What comes with each packet. */
struct address {
	int64_t timestamp; /* of QueryPerformanceCounter */
	uint32_t layer : 8;
	uint32_t event : 8;
	uint32_t sniffed : 1;
	uint32_t outbound : 1;
	uint32_t loopback : 1;
	uint32_t impostor : 1;
	uint32_t ipv6 : 1;
	uint32_t ip_checksum : 1;
	uint32_t tcp_checksum : 1;
	uint32_t udp_checksum : 1;
	uint32_t reserved1 : 8;
	uint32_t reserved2;
	uint32_t interface;
	uint32_t sub_interface;
	uint8_t others[56];
};

_Static_assert(sizeof(struct address) == 80, "the documented size");

#endif
