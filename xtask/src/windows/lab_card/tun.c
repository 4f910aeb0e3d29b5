/* See tun.h. */
#define _GNU_SOURCE
#include "tun.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Changes a setting of an interface. Those of a family that the host lacks are not there. */
static void set(const char *family, const char *interface, const char *name, const char *value)
{
	char path[128];
	int file;

	snprintf(path, sizeof(path), "/proc/sys/net/%s/conf/%s/%s", family, interface, name);
	file = open(path, O_WRONLY | O_CLOEXEC);
	if (file >= 0) {
		if (write(file, value, strlen(value)) < 0)
			perror(path);
		close(file);
	}
}

/* Returns 0 or a negative errno. */
static int start(struct ifreq *request)
{
	int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int result = 0;

	set("ipv4", "all", "rp_filter", "0");
	set("ipv4", request->ifr_name, "rp_filter", "0");
	set("ipv6", request->ifr_name, "addr_gen_mode", "1");
	request->ifr_flags = IFF_UP;
	if (control < 0 || ioctl(control, SIOCSIFFLAGS, request))
		result = -errno;
	close(control);
	return result;
}

int tun_open(char name[IF_NAMESIZE], int flags)
{
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI | flags };
	int device = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	int result = 0;

	if (device < 0)
		return -errno;
	memcpy(request.ifr_name, name, IF_NAMESIZE);
	if (ioctl(device, TUNSETIFF, &request))
		result = -errno;
	memcpy(name, request.ifr_name, IF_NAMESIZE);
	if (!result)
		result = start(&request);
	if (result) {
		close(device);
		return result;
	}
	return device;
}
