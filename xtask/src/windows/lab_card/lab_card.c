/* The lab card: see lab_card.h. */
#define _GNU_SOURCE
#include "lab_card.h"
#include "claims.h"
#include "tun.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Cards that a program has open at a time. */
#define CARDS 16

/* Bytes that wait for the reader. */
#define RECEIVE_BUFFER (16 << 20)

struct card {
	int is_open;
	int socket;
	int wakeups; /* an eventfd, counts calls of lab_card_wake */
	char interface[IF_NAMESIZE];
	struct claims claims;
	int device; /* of TUN; 0: it was not needed yet */
	/* Of the frame that was received last. */
	struct virtio_net_hdr merged;
	int is_for_host, is_tagged;
};

static struct card cards[CARDS];

/* For opening and closing. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct card *find(int number)
{
	return number >= 0 && number < CARDS && cards[number].is_open ? &cards[number] : NULL;
}

static int option(int socket, int level, int name, int value)
{
	return setsockopt(socket, level, name, &value, sizeof(value));
}

/* Leaves out what a network card's filter leaves out. */
static int leave_out_other_hosts(int socket)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, SKF_AD_OFF + SKF_AD_PKTTYPE),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OTHERHOST, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(*code), .filter = code };

	return setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static int open_socket(const char *interface)
{
	/* It has no protocol yet: else it would receive from every interface until it is bound. */
	int s = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = if_nametoindex(interface),
	};

	if (s < 0)
		return -errno;
	if (option(s, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) || option(s, SOL_PACKET, PACKET_AUXDATA, 1) ||
	    option(s, SOL_PACKET, PACKET_VNET_HDR, 1) || option(s, SOL_SOCKET, SO_TIMESTAMPNS, 1) ||
	    option(s, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER) || leave_out_other_hosts(s) ||
	    bind(s, (struct sockaddr *)&address, sizeof(address))) {
		int error = errno;

		close(s);
		return -error;
	}
	return s;
}

static int open_card(struct card *card, const char *interface)
{
	/* A socket that is bound to interface 0 is bound to all. */
	if (!if_nametoindex(interface))
		return -ENODEV;
	strncpy(card->interface, interface, sizeof(card->interface) - 1);
	card->socket = open_socket(interface);
	if (card->socket < 0)
		return card->socket;
	card->wakeups = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (card->wakeups < 0) {
		int error = errno;

		close(card->socket);
		return -error;
	}
	claims_begin(&card->claims);
	card->is_open = 1;
	return 0;
}

int WINAPI lab_card_open(const char *name)
{
	int number = 0, result = -EMFILE;

	pthread_mutex_lock(&lock);
	while (number < CARDS && cards[number].is_open)
		number++;
	if (number < CARDS)
		result = open_card(&cards[number], name);
	pthread_mutex_unlock(&lock);
	return result < 0 ? result : number;
}

int WINAPI lab_card_close(int number)
{
	struct card *card;

	pthread_mutex_lock(&lock);
	card = find(number);
	if (card) {
		claims_end(&card->claims);
		close(card->socket);
		close(card->wakeups);
		if (card->device)
			close(card->device);
		memset(card, 0, sizeof(*card));
	}
	pthread_mutex_unlock(&lock);
	return card ? 0 : -EBADF;
}

int WINAPI lab_card_describe(int number, struct lab_card_description *description)
{
	const struct card *card = find(number);
	struct ifreq request = { 0 };

	if (!card)
		return -EBADF;
	memset(description, 0, sizeof(*description));
	strncpy(request.ifr_name, card->interface, sizeof(request.ifr_name) - 1);
	description->index = if_nametoindex(card->interface);
	if (ioctl(card->socket, SIOCGIFMTU, &request))
		return -errno;
	description->mtu = request.ifr_mtu;
	if (ioctl(card->socket, SIOCGIFHWADDR, &request))
		return -errno;
	memcpy(description->mac, request.ifr_hwaddr.sa_data, sizeof(description->mac));
	return 0;
}

static void read_auxiliary(const struct tpacket_auxdata *data, struct lab_card_packet *packet)
{
	if (data->tp_status & TP_STATUS_CSUM_VALID)
		packet->checksum = LAB_CARD_CHECKSUM_GOOD;
	if (data->tp_status & TP_STATUS_CSUMNOTREADY)
		packet->checksum = LAB_CARD_CHECKSUM_PARTIAL;
	if (data->tp_status & TP_STATUS_VLAN_VALID)
		packet->vlan = data->tp_vlan_tci;
}

static void read_control(struct msghdr *message, struct lab_card_packet *packet)
{
	for (struct cmsghdr *control = CMSG_FIRSTHDR(message); control; control = CMSG_NXTHDR(message, control)) {
		if (control->cmsg_level == SOL_PACKET && control->cmsg_type == PACKET_AUXDATA) {
			struct tpacket_auxdata data;

			memcpy(&data, CMSG_DATA(control), sizeof(data));
			read_auxiliary(&data, packet);
		} else if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_TIMESTAMPNS) {
			struct timespec arrival;

			memcpy(&arrival, CMSG_DATA(control), sizeof(arrival));
			packet->arrival_ns = arrival.tv_sec * 1000000000ull + arrival.tv_nsec;
		}
	}
}

int WINAPI lab_card_receive(int number, void *buffer, int size, struct lab_card_packet *packet)
{
	struct card *card = find(number);
	struct virtio_net_hdr merged = { 0 };
	struct iovec parts[] = { { &merged, sizeof(merged) }, { buffer, size } };
	struct sockaddr_ll from = { 0 };
	_Alignas(struct cmsghdr) char control[256];
	struct msghdr message = {
		.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = parts,
		.msg_iovlen = 2,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t length;

	if (!card)
		return -EBADF;
	/* With this flag the result is the length of the whole frame. */
	length = TEMP_FAILURE_RETRY(recvmsg(card->socket, &message, MSG_TRUNC));
	if (length < 0)
		return errno == EAGAIN ? 0 : -errno;
	length -= sizeof(merged);
	*packet = (struct lab_card_packet){ .length = length, .vlan = -1 };
	if (merged.gso_type != VIRTIO_NET_HDR_GSO_NONE)
		packet->segment = merged.gso_size;
	read_control(&message, packet);
	card->merged = merged;
	card->is_for_host = from.sll_pkttype == PACKET_HOST;
	card->is_tagged = packet->vlan >= 0;
	return length < size ? length : size;
}

/* The device of a card's frames. */
static int device_of(struct card *card)
{
	char name[IF_NAMESIZE] = "tickwire-lc%d";
	int device;

	if (!card->device) {
		device = tun_open(name, IFF_VNET_HDR);
		if (device < 0)
			return device;
		card->device = device;
	}
	return card->device;
}

int WINAPI lab_card_give_back(int number, const void *frame, int length)
{
	struct card *card = find(number);
	struct virtio_net_hdr header;
	struct iovec parts[] = { { &header, sizeof(header) }, { (uint8_t *)frame + ETH_HLEN, length - ETH_HLEN } };
	int device;

	if (!card)
		return -EBADF;
	if (!card->is_for_host || card->is_tagged || length < 0 || !claims_keep(&card->claims, frame, length))
		return 0;
	device = device_of(card);
	if (device < 0)
		return device;
	/* It has no Ethernet header there. */
	header = card->merged;
	if (header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM)
		header.csum_start -= ETH_HLEN;
	if (header.hdr_len >= ETH_HLEN)
		header.hdr_len -= ETH_HLEN;
	return TEMP_FAILURE_RETRY(writev(device, parts, 2)) < 0 ? -errno : 1;
}

int WINAPI lab_card_send(int number, const void *frame, int length)
{
	const struct card *card = find(number);
	/* Nothing is left to the interface. */
	struct virtio_net_hdr complete = { 0 };
	struct iovec parts[] = { { &complete, sizeof(complete) }, { (void *)frame, length } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

	if (!card)
		return -EBADF;
	return TEMP_FAILURE_RETRY(sendmsg(card->socket, &message, 0)) < 0 ? -errno : length;
}

int WINAPI lab_card_wait(int number, int timeout_us)
{
	const struct card *card = find(number);
	struct timespec timeout = { .tv_sec = timeout_us / 1000000, .tv_nsec = timeout_us % 1000000 * 1000 };
	struct pollfd watched[2];
	eventfd_t count;
	int found = 0;

	if (!card)
		return -EBADF;
	watched[0] = (struct pollfd){ .fd = card->socket, .events = POLLIN };
	watched[1] = (struct pollfd){ .fd = card->wakeups, .events = POLLIN };
	if (ppoll(watched, 2, timeout_us < 0 ? NULL : &timeout, NULL) < 0)
		return errno == EINTR ? 0 : -errno;
	/* An error of the interface, too: lab_card_receive returns it. */
	if (watched[0].revents)
		found |= LAB_CARD_FRAMES;
	if (watched[1].revents && !eventfd_read(card->wakeups, &count))
		found |= LAB_CARD_WOKEN;
	return found;
}

int WINAPI lab_card_wake(int number)
{
	const struct card *card = find(number);

	if (!card)
		return -EBADF;
	return eventfd_write(card->wakeups, 1) ? -errno : 0;
}

int WINAPI lab_card_claim(int number, const struct lab_card_port *ports, int count, int add)
{
	struct card *card = find(number);

	if (!card)
		return -EBADF;
	return claims_change(&card->claims, card->interface, ports, count, add);
}
