/*
 * The lab card: the network card of Windows programs that run under Wine on a host of the lab. It
 * stands where a driver stands on Windows. tickwire_lab_card.dll is a Winelib DLL: a Windows
 * program loads it like any DLL, and inside it calls Linux.
 *
 * A card is a packet socket (packet(7)) on one interface of the host. The socket sees each frame
 * before the host's IP input does. Packets for a claimed port are then kept from IP input, by
 * nftables. All other packets are the host's, and the card's reader sees a copy of them.
 *
 * What was kept from IP input and is no lane's can be given back. It then seems to have arrived by
 * a device of its own, which the card makes when that is needed. That is not possible for frames
 * with a VLAN tag, and for packets of IPv6 with extension headers: they are lost. Only packets with
 * a transport header are kept from the kernel. The second and later fragments of a packet reach it,
 * and time out there.
 *
 * Each call returns a negative errno of Linux on failure, -EBADF if there is no such card. Calls on
 * a card may come from several threads, except for lab_card_close, which must be the last.
 */
#ifndef LAB_CARD_H
#define LAB_CARD_H

#include <stdint.h>
#include <windef.h>

/* The interface behind a card. */
struct lab_card_description {
	uint32_t index; /* of the interface, on the host */
	uint32_t mtu;
	uint8_t mac[6];
	uint8_t unused[2];
};

/* What is known of a frame's transport checksum. */
enum lab_card_checksum {
	LAB_CARD_CHECKSUM_UNKNOWN, /* it is to be verified */
	LAB_CARD_CHECKSUM_GOOD,	   /* it was verified */
	/* It was never computed, and the field holds the sum of the pseudo-header: the frame comes
	 * from the same machine, or was merged from frames whose checksums were verified. */
	LAB_CARD_CHECKSUM_PARTIAL,
};

/* What comes with a received frame. */
struct lab_card_packet {
	uint64_t arrival_ns; /* CLOCK_REALTIME, when the kernel took it from the interface */
	uint32_t length;     /* of the whole frame, even if the buffer was too small for it */
	uint32_t segment;    /* payload bytes of each packet that was merged into it (GRO), 0: one packet */
	int32_t checksum;    /* enum lab_card_checksum */
	int32_t vlan;	     /* the tag, which is not in the frame; -1: none */
};

/* A port that packets are for. */
struct lab_card_port {
	uint16_t protocol; /* of IP: that of TCP or UDP */
	uint16_t port;
};

/* At most so many are claimed by a call. */
#define LAB_CARD_MOST_PORTS 256

/* What lab_card_wait found, as a set. */
#define LAB_CARD_FRAMES 1
#define LAB_CARD_WOKEN 2

/* Opens a card on the interface of this name, and returns its number. */
int WINAPI lab_card_open(const char *name);

/* Closes a card, and ends its claims. They also end when the program ends in any other way. */
int WINAPI lab_card_close(int card);

int WINAPI lab_card_describe(int card, struct lab_card_description *description);

/* Takes a frame, and returns how many bytes of it are in the buffer; 0: there is no frame. Frames
 * for other MAC addresses, and those that this host sends, are not among them. */
int WINAPI lab_card_receive(int card, void *buffer, int size, struct lab_card_packet *packet);

/* Gives the kernel the frame that was received last, whole, if it was kept from it. Returns whether
 * it was. Not to be called while another thread receives. */
int WINAPI lab_card_give_back(int card, const void *frame, int length);

/* Sends a frame from its Ethernet header on, and returns its length. The checksums are complete. A
 * VLAN tag is in the frame. -EAGAIN and -ENOBUFS: the interface has no room for it. */
int WINAPI lab_card_send(int card, const void *frame, int length);

/* Sleeps until there is a frame, or lab_card_wake is called, or the time is over; it may return
 * early. A negative time does not end. */
int WINAPI lab_card_wait(int card, int timeout_us);

/* Ends the current lab_card_wait, or the next one if there is none. */
int WINAPI lab_card_wake(int card);

/* Keeps packets for ports from the kernel, or (`add` is 0) no longer does. It holds for packets of
 * IPv4 and IPv6 that come by the card's interface or one of its VLANs. It takes 3 to 30 ms, however
 * many ports they are, and has taken effect when the call returns. To add a port twice is no error,
 * to remove one that is not there is (-EINVAL), and then nothing has changed. -EPIPE: nft cannot be
 * used. */
int WINAPI lab_card_claim(int card, const struct lab_card_port *ports, int count, int add);

#endif
