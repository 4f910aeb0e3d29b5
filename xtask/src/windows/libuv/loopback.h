/*
 * The loopback of libuv's tests, on another host. It is included before each of their sources.
 * Packets to 127.0.0.1 never leave the kernel, so nothing of the tests would cross a lane. With
 * LIBUV_MIRROR="MIRROR OWN" in the environment (two addresses) 127.0.0.1 is for the tests:
 *
 *   - as the end of a connection or of a datagram the mirror, another host that sends each packet
 *     back with its addresses exchanged
 *   - as the address of a socket here, this host's own
 *
 * Without it the tests are unchanged.
 */

#include "uv.h"
#include <stdlib.h>
#include <string.h>

static struct in_addr mirror, own;

static __attribute__((constructor)) void read_mirror(void) {
    const char *set = getenv("LIBUV_MIRROR");
    if (set == NULL)
        return;
    char text[64];
    const char *space = strchr(set, ' ');
    if (space == NULL || strlen(set) >= sizeof text)
        abort();
    strcpy(text, set);
    text[space - set] = '\0';
    if (uv_inet_pton(AF_INET, text, &mirror) != 0 || uv_inet_pton(AF_INET, space + 1, &own) != 0)
        abort();
}

static inline int has_mirror(void) {
    return mirror.s_addr != 0;
}

/* A name with one address of IPv4 in place of another. */
static inline void rename_address(struct sockaddr *name, struct in_addr from, struct in_addr to) {
    struct sockaddr_in *v4 = (struct sockaddr_in *)name;
    if (has_mirror() && v4->sin_family == AF_INET && v4->sin_addr.s_addr == from.s_addr)
        v4->sin_addr = to;
}

/* The name to bind in place of another. */
static inline const struct sockaddr *to_bind(const struct sockaddr *name, struct sockaddr_in *copy) {
    if (!has_mirror() || name->sa_family != AF_INET)
        return name;
    memcpy(copy, name, sizeof *copy);
    rename_address((struct sockaddr *)copy, mirror, own);
    return (const struct sockaddr *)copy;
}

static inline int mirror_ip4_addr(const char *text, int port, struct sockaddr_in *name) {
    int result = uv_ip4_addr(text, port, name);
    if (has_mirror() && result == 0 && name->sin_addr.s_addr == htonl(INADDR_LOOPBACK))
        name->sin_addr = mirror;
    return result;
}

static inline int mirror_tcp_bind(uv_tcp_t *handle, const struct sockaddr *name, unsigned int flags) {
    struct sockaddr_in copy;
    return uv_tcp_bind(handle, to_bind(name, &copy), flags);
}

static inline int mirror_udp_bind(uv_udp_t *handle, const struct sockaddr *name, unsigned int flags) {
    struct sockaddr_in copy;
    return uv_udp_bind(handle, to_bind(name, &copy), flags);
}

static inline int mirror_bind(uv_os_sock_t handle, const struct sockaddr *name, int length) {
    struct sockaddr_in copy;
    return bind(handle, to_bind(name, &copy), length);
}

static inline int mirror_tcp_getsockname(const uv_tcp_t *handle, struct sockaddr *name, int *length) {
    int result = uv_tcp_getsockname(handle, name, length);
    if (result == 0)
        rename_address(name, own, mirror);
    return result;
}

static inline int mirror_udp_getsockname(const uv_udp_t *handle, struct sockaddr *name, int *length) {
    int result = uv_udp_getsockname(handle, name, length);
    if (result == 0)
        rename_address(name, own, mirror);
    return result;
}

/* An address of IPv6 may hold one of IPv4. */
static inline int mirror_inet_ntop(int family, const void *address, char *text, size_t size) {
    struct in6_addr copy;
    if (has_mirror() && family == AF_INET6) {
        memcpy(&copy, address, sizeof copy);
        if (IN6_IS_ADDR_V4MAPPED(&copy) && memcmp(copy.s6_addr + 12, &mirror, sizeof mirror) == 0)
            memcpy(copy.s6_addr + 12, (const uint8_t[]){127, 0, 0, 1}, sizeof mirror);
        address = &copy;
    }
    return uv_inet_ntop(family, address, text, size);
}

#define uv_ip4_addr mirror_ip4_addr
#define uv_tcp_bind mirror_tcp_bind
#define uv_udp_bind mirror_udp_bind
#define bind mirror_bind
#define uv_tcp_getsockname mirror_tcp_getsockname
#define uv_udp_getsockname mirror_udp_getsockname
#define uv_inet_ntop mirror_inet_ntop
