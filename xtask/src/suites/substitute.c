/* Substitutes addresses for a test program that connects to itself over the loopback interface.
 * Binding to a loopback address binds to this host's own address. Sending or connecting to one goes
 * to the mirror's address, which sends the packets back. In addresses that calls return, loopback
 * addresses replace both. So the program's traffic crosses the network twice.
 *
 * A call with an invalid pointer already fails here with EFAULT, on the kernel, too, because this
 * library itself would fault on it.
 *
 * It is loaded before all other libraries (LD_PRELOAD), so that the library behind it that
 * intercepts socket calls sees real addresses. The four addresses are defined when it is compiled:
 * OWN4, MIRROR4, OWN6, MIRROR6.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* The most messages in one call (UIO_MAXIOV). */
enum { MANY = 1024 };

union name {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static struct in6_addr loopback, own, mirror, mapped_loopback, mapped_own, mapped_mirror, nowhere, mapped_nowhere;

__attribute__((constructor)) static void begin(void)
{
    inet_pton(AF_INET6, "::1", &loopback);
    inet_pton(AF_INET6, OWN6, &own);
    inet_pton(AF_INET6, MIRROR6, &mirror);
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped_loopback);
    inet_pton(AF_INET6, "::ffff:" OWN4, &mapped_own);
    inet_pton(AF_INET6, "::ffff:" MIRROR4, &mapped_mirror);
    inet_pton(AF_INET6, "::ffff:0.0.0.0", &mapped_nowhere);
}

static int same(const struct in6_addr *a, const struct in6_addr *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Copies memory of the program; returns whether it is readable: a test may pass a bad pointer. */
static int taken(void *to, const void *from, size_t length)
{
    struct iovec here = {to, length}, there = {(void *)from, length};
    return from && process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)length;
}

/* Whether this is an invalid pointer: not NULL, and not readable. */
static int astray(const void *at, size_t length)
{
    char byte;
    return at && length > 0 && !taken(&byte, at, 1);
}

static int message_astray(const struct msghdr *message)
{
    struct msghdr copy;
    struct iovec part;
    if (!taken(&copy, message, sizeof copy))
        return message != NULL;
    if (astray(copy.msg_name, copy.msg_namelen) || astray(copy.msg_control, copy.msg_controllen))
        return 1;
    if (copy.msg_iovlen > MANY)
        return 0;
    for (size_t i = 0; copy.msg_iov && i < copy.msg_iovlen; i++)
        if (!taken(&part, &copy.msg_iov[i], sizeof part) || astray(part.iov_base, part.iov_len))
            return 1;
    return 0;
}

#define UNLESS(is_astray)   \
    if (is_astray) {        \
        errno = EFAULT;     \
        return -1;          \
    }

/* The address of a socket name as an IPv6 address (IPv4 mapped); 0 if it has none. */
static int address_of(const union name *name, size_t length, struct in6_addr *address)
{
    if (name->any.sa_family == AF_INET && length >= sizeof name->v4) {
        *address = mapped_nowhere;
        memcpy(&address->s6_addr[12], &name->v4.sin_addr, 4);
        return 1;
    }
    if (name->any.sa_family == AF_INET6 && length >= sizeof name->v6) {
        *address = name->v6.sin6_addr;
        return 1;
    }
    return 0;
}

static void readdress(union name *name, const struct in6_addr *address)
{
    if (name->any.sa_family == AF_INET)
        memcpy(&name->v4.sin_addr, &address->s6_addr[12], 4);
    else
        name->v6.sin6_addr = *address;
}

/* The socket name to use instead of one that the program passes; a changed one is in `room`. */
static const struct sockaddr *given(union name *room, const struct sockaddr *name, size_t length, int reach)
{
    struct in6_addr address;
    if (length > sizeof *room)
        length = sizeof *room;
    if (!taken(room, name, length) || !address_of(room, length, &address))
        return name;
    if (same(&address, &loopback))
        readdress(room, reach ? &mirror : &own);
    else if (same(&address, &mapped_loopback))
        readdress(room, reach ? &mapped_mirror : &mapped_own);
    else if (reach && (same(&address, &nowhere) || same(&address, &own)))
        readdress(room, &mirror);
    else if (reach && (same(&address, &mapped_nowhere) || same(&address, &mapped_own)))
        readdress(room, &mapped_mirror);
    else
        return name;
    return &room->any;
}

/* Changes a socket name that a call returns to the one that the program expects. */
static void told(void *place, size_t length)
{
    union name *name = place;
    struct in6_addr address;
    if (!name || length < sizeof name->any.sa_family || !address_of(name, length, &address))
        return;
    if (same(&address, &own) || same(&address, &mirror))
        readdress(name, &loopback);
    else if (same(&address, &mapped_own) || same(&address, &mapped_mirror))
        readdress(name, &mapped_loopback);
}

#define BEHIND(name) __typeof__(&name) behind = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int bind(int fd, const struct sockaddr *name, socklen_t length)
{
    BEHIND(bind);
    union name room;
    UNLESS(astray(name, length))
    return behind(fd, given(&room, name, length, 0), length);
}

int connect(int fd, const struct sockaddr *name, socklen_t length)
{
    BEHIND(connect);
    union name room;
    UNLESS(astray(name, length))
    return behind(fd, given(&room, name, length, 1), length);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    BEHIND(send);
    UNLESS(astray(data, size))
    return behind(fd, data, size, flags);
}

ssize_t recv(int fd, void *data, size_t size, int flags)
{
    BEHIND(recv);
    UNLESS(astray(data, size))
    return behind(fd, data, size, flags);
}

int ppoll(struct pollfd *descriptors, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    BEHIND(ppoll);
    UNLESS(astray(descriptors, count) || astray(timeout, 1) || astray(mask, 1))
    return behind(descriptors, count, timeout, mask);
}

ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *name, socklen_t length)
{
    BEHIND(sendto);
    union name room;
    UNLESS(astray(data, size) || astray(name, length))
    return behind(fd, data, size, flags, given(&room, name, length, 1), length);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    BEHIND(sendmsg);
    union name room;
    struct msghdr copy;
    UNLESS(message_astray(message))
    if (!taken(&copy, message, sizeof copy))
        return behind(fd, message, flags);
    copy.msg_name = (void *)given(&room, copy.msg_name, copy.msg_namelen, 1);
    return behind(fd, &copy, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
    BEHIND(sendmmsg);
    if (count == 0 || count > MANY)
        return behind(fd, messages, count, flags);
    struct mmsghdr before[count];
    union name rooms[count];
    UNLESS(astray(messages, count))
    if (!taken(before, messages, sizeof before))
        return behind(fd, messages, count, flags);
    for (unsigned int i = 0; i < count; i++) {
        struct msghdr *message = &messages[i].msg_hdr;
        message->msg_name = (void *)given(&rooms[i], message->msg_name, message->msg_namelen, 1);
    }
    int done = behind(fd, messages, count, flags);
    for (unsigned int i = 0; i < count; i++)
        messages[i].msg_hdr.msg_name = before[i].msg_hdr.msg_name;
    return done;
}

/* Changes the socket name that a successful call has written to a buffer of `room` bytes. */
static int told_by(int done, struct sockaddr *name, socklen_t room, const socklen_t *length)
{
    if (done >= 0 && name && length)
        told(name, *length < room ? *length : room);
    return done;
}

/* The size of the program's buffer for a socket name. */
static socklen_t room_at(const socklen_t *length)
{
    socklen_t room;
    return taken(&room, length, sizeof room) ? room : 0;
}

#define TELLS(name, ARGUMENTS, ...)                         \
    int name ARGUMENTS                                      \
    {                                                       \
        BEHIND(name);                                       \
        socklen_t room = room_at(length);                   \
        UNLESS(astray(length, 1) || astray(to, room))       \
        return told_by(behind(__VA_ARGS__), to, room, length); \
    }

TELLS(accept, (int fd, struct sockaddr *to, socklen_t *length), fd, to, length)
TELLS(accept4, (int fd, struct sockaddr *to, socklen_t *length, int flags), fd, to, length, flags)
TELLS(getsockname, (int fd, struct sockaddr *to, socklen_t *length), fd, to, length)
TELLS(getpeername, (int fd, struct sockaddr *to, socklen_t *length), fd, to, length)

ssize_t recvfrom(int fd, void *data, size_t size, int flags, struct sockaddr *name, socklen_t *length)
{
    BEHIND(recvfrom);
    socklen_t room = room_at(length);
    UNLESS(astray(data, size) || astray(length, 1))
    ssize_t done = behind(fd, data, size, flags, name, length);
    told_by(done < 0 ? -1 : 0, name, room, length);
    return done;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    BEHIND(recvmsg);
    struct msghdr before;
    ssize_t done;
    UNLESS(message_astray(message))
    if (!taken(&before, message, sizeof before))
        return behind(fd, message, flags);
    done = behind(fd, message, flags);
    if (done >= 0)
        told_by(0, message->msg_name, before.msg_namelen, &message->msg_namelen);
    return done;
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout)
{
    BEHIND(recvmmsg);
    if (count == 0 || count > MANY)
        return behind(fd, messages, count, flags, timeout);
    struct mmsghdr before[count];
    UNLESS(astray(messages, count) || astray(timeout, 1))
    int readable = taken(before, messages, sizeof before);
    int done = behind(fd, messages, count, flags, timeout);
    for (int i = 0; readable && i < done; i++)
        told_by(0, messages[i].msg_hdr.msg_name, before[i].msg_hdr.msg_namelen, &messages[i].msg_hdr.msg_namelen);
    return done;
}
