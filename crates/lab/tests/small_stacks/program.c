/* Makes every kind of socket call on a small stack, against the server beside this file.
 * Arguments: how (measured, left, thread, handler), the peer's address, the program's own.
 *
 * measured: each call has a stack of its own filled with a pattern, and the depth that it has
 * overwritten is printed. left: the same for calls after the service has ended. thread: all calls
 * run in a thread of 16 KiB. handler: some run in a signal handler on 8 KiB, all of them on 6 KiB
 * more than the kernel takes for a signal's frame. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { GUARD = 4096, MEASURED = 128 << 10, THREAD = 16 << 10, SENDER = 8 << 10, CALL = 6 << 10 };
static const unsigned char PATTERN = 0xa5;

static ucontext_t outside, inside;
static unsigned char *small;
static int is_measured, forked;

/* Static, so that none of the program's own data is on the small stack. */
static char big[300000];
static long result, at_rest;
static int failure, a, b, c, one = 1, ends[2], status;
static pid_t child;
static socklen_t length;
static struct sockaddr_in peer = {.sin_family = AF_INET}, own = {.sin_family = AF_INET}, place;
static struct pollfd polled[64];
static struct epoll_event event, events[8];
static struct iovec parts[4];
static struct msghdr message;
static struct mmsghdr several[4];
static struct linger lingering = {1, 1};
static struct ip_mreqn membership;
static struct timeval soon = {0, 10000};
static struct timespec at_once;
static struct sigaction action;
static sigset_t signals;
static fd_set readable;
static union {
    char bytes[256];
    struct cmsghdr header;
} control;

/* A stack with a guard page below it. */
static unsigned char *stack_of(size_t size) {
    unsigned char *made =
        mmap(NULL, GUARD + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED || mprotect(made, GUARD, PROT_NONE))
        exit(3);
    return made + GUARD;
}

static long depth(void) {
    long untouched = 0;
    while (untouched < MEASURED && small[untouched] == PATTERN)
        untouched++;
    return MEASURED - untouched;
}

static void step(const char *name, void (*work)(void)) {
    result = 0, failure = 0;
    if (is_measured) {
        memset(small, PATTERN, MEASURED);
        getcontext(&inside);
        inside.uc_stack.ss_sp = small;
        inside.uc_stack.ss_size = MEASURED;
        inside.uc_link = &outside;
        makecontext(&inside, work, 0);
        swapcontext(&outside, &inside);
        if (forked)
            _exit((depth() - at_rest) / 64);
        printf("%ld %s\n", depth() - at_rest, name);
    } else {
        work();
        if (forked)
            _exit(0);
    }
    if (result < 0) {
        printf("%s: %s\n", name, strerror(failure));
        exit(1);
    }
}

/* A call that must succeed, and one that must fail with this error. */
#define DO(name, call)                     \
    do {                                   \
        void work(void) {                  \
            result = (long)(call);         \
            failure = errno;               \
        }                                  \
        step(name, work);                  \
    } while (0)
#define FAIL(name, number, call)                          \
    do {                                                  \
        void work(void) {                                 \
            result = (long)(call);                        \
            failure = errno;                              \
            result = result < 0 && failure == number ? 0 : -1; \
        }                                                 \
        step(name, work);                                 \
    } while (0)
/* One that may do either. */
#define TRY(name, call)     \
    do {                    \
        void work(void) {   \
            (void)(call);   \
        }                   \
        step(name, work);   \
    } while (0)
#define OPTION(fd, level, name, value) DO("setsockopt " #name, setsockopt(fd, level, name, &value, sizeof value))

static const struct sockaddr *to(struct sockaddr_in address, int port) {
    place = address;
    place.sin_port = htons(port);
    return (const struct sockaddr *)&place;
}

static struct msghdr *of(int count) {
    for (int i = 0; i < 4; i++)
        parts[i] = (struct iovec){big + i * 1000, 100};
    message = (struct msghdr){.msg_iov = parts, .msg_iovlen = count};
    return &message;
}

static struct mmsghdr *many(void) {
    of(4);
    for (int i = 0; i < 4; i++)
        several[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &parts[i], .msg_iovlen = 1}};
    return several;
}

static struct pollfd *watched(int fd, int events) {
    polled[0] = (struct pollfd){fd, events, 0};
    return polled;
}

static fd_set *set_of(int fd) {
    FD_ZERO(&readable);
    FD_SET(fd, &readable);
    return &readable;
}

static void streams(void) {
    static int kept, next;
    /* A stream of 300 KB is sent while its echo is received. */
    OPTION(a, IPPROTO_TCP, TCP_NODELAY, one);
    static size_t sent, back;
    while (back < sizeof big) {
        if (sent < sizeof big)
            DO("send much", send(a, big, sizeof big - sent, MSG_DONTWAIT) + 1 ?: errno == EAGAIN ? 1 : -1);
        sent += result ? result - 1 : 0;
        DO("poll", poll(watched(a, POLLIN | (sent < sizeof big ? POLLOUT : 0)), 1, 5000));
        if (polled[0].revents & POLLIN) {
            DO("recv much", recv(a, big, sizeof big, 0));
            back += result;
        }
    }
    DO("write", write(a, "12345678", 8));
    DO("recv MSG_PEEK", recv(a, big, 8, MSG_PEEK));
    DO("read", read(a, big, 8));
    DO("writev", writev(a, of(4)->msg_iov, 4));
    DO("recv MSG_WAITALL", recv(a, big, 400, MSG_WAITALL));
    DO("sendmsg", sendmsg(a, of(4), 0));
    DO("recvmsg", recvmsg(a, of(4), MSG_WAITALL));
    DO("sendmmsg stream", sendmmsg(a, many(), 4, 0));
    DO("readv", readv(a, of(4)->msg_iov, 4));
    DO("recv rest", recv(a, big, 1000, MSG_DONTWAIT) + 1);
    DO("ioctl FIONREAD", ioctl(a, FIONREAD, &status));
    DO("select", select(a + 1, NULL, set_of(a), NULL, &soon));
    DO("select in vain", select(a + 1, set_of(a), NULL, NULL, &soon));
    for (next = 0; next < 64; next++)
        polled[next] = (struct pollfd){next % 3 ? a : ends[0], POLLIN, 0};
    DO("poll of many", poll(polled, 64, 10));
    length = sizeof big;
    DO("getsockopt TCP_INFO", getsockopt(a, IPPROTO_TCP, TCP_INFO, big, &length));
    OPTION(a, SOL_SOCKET, SO_RCVBUF, length);
    OPTION(a, SOL_SOCKET, SO_KEEPALIVE, one);
    OPTION(a, SOL_SOCKET, SO_LINGER, lingering);
    length = sizeof place;
    DO("getsockname", getsockname(a, (struct sockaddr *)&place, &length));
    DO("getpeername", getpeername(a, (struct sockaddr *)&place, &length));
    DO("dup", kept = dup(a));
    DO("dup2", dup2(a, kept));
    DO("fcntl F_DUPFD", next = fcntl(a, F_DUPFD, 50));
    DO("fcntl F_SETFL", fcntl(a, F_SETFL, O_NONBLOCK));
    DO("fcntl F_SETFL", fcntl(a, F_SETFL, 0));
    DO("close a copy", close(kept));
    DO("close_range", close_range(next, next, 0));
    DO("send MSG_OOB", send(a, "!", 1, MSG_OOB));
    DO("sendfile", sendfile(a, status = open("/proc/self/exe", O_RDONLY), NULL, 4096));
    DO("recv", recv(a, big, 4096, MSG_WAITALL));
    close(status);
    DO("write to a pipe", write(ends[1], "in the pipe", 11));
    DO("splice", splice(ends[0], NULL, a, NULL, 11, 0));
    DO("recv", recv(a, big, 11, 0));
}

static void sets(void) {
    static int set, around;
    DO("epoll_create1", set = epoll_create1(0));
    around = epoll_create1(0);
    event = (struct epoll_event){EPOLLIN, {.fd = a}};
    DO("epoll_ctl ADD", epoll_ctl(set, EPOLL_CTL_ADD, a, &event));
    DO("epoll_ctl ADD datagrams", epoll_ctl(set, EPOLL_CTL_ADD, b, &event));
    DO("epoll_ctl ADD pipe", epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
    DO("epoll_ctl ADD set", epoll_ctl(around, EPOLL_CTL_ADD, set, &event));
    DO("epoll_wait in vain", epoll_wait(set, events, 8, 10));
    DO("send", send(a, "x", 1, 0));
    DO("epoll_wait", epoll_wait(around, events, 8, 5000) - 1);
    DO("epoll_pwait", epoll_pwait(set, events, 8, 5000, &signals) - 1);
    DO("poll of a set", poll(watched(set, POLLIN), 1, 1000) - 1);
    DO("recv", recv(a, big, 8, 0));
    event.events = EPOLLIN | EPOLLOUT;
    DO("epoll_ctl MOD", epoll_ctl(set, EPOLL_CTL_MOD, a, &event));
    DO("epoll_ctl DEL", epoll_ctl(set, EPOLL_CTL_DEL, a, &event));
    DO("close a set", close(set));
    close(around);
}

static void datagrams(void) {
    DO("send datagram", send(b, "x", 1, 0));
    DO("recvfrom", (length = sizeof place, recvfrom(b, big, 100, 0, (struct sockaddr *)&place, &length)));
    DO("send large", send(b, big, 30000, 0));
    DO("recv large", recv(b, big, sizeof big, 0) - 30000);
    DO("sendmmsg", sendmmsg(b, many(), 4, 0) - 4);
    at_once = (struct timespec){1, 0};
    DO("recvmmsg", recvmmsg(b, many(), 4, 0, &at_once) - 4);
    static int size;
    size = 100;
    OPTION(b, SOL_UDP, UDP_SEGMENT, size);
    DO("send segments", send(b, big, 400, 0));
    size = 0;
    OPTION(b, SOL_UDP, UDP_SEGMENT, size);
    for (size = 0; size < 4; size++)
        DO("recv", recv(b, big, 100, 0));
    OPTION(b, SOL_SOCKET, SO_TIMESTAMPNS, one);
    OPTION(b, IPPROTO_IP, IP_PKTINFO, one);
    DO("sendmsg", sendmsg(b, of(4), 0));
    of(4)->msg_control = control.bytes, message.msg_controllen = sizeof control;
    DO("recvmsg with control", recvmsg(b, &message, 0) - 400);
    DO("sendto", sendto(c, "x", 1, 0, to(peer, 9000), sizeof place));
    DO("recv", recv(c, big, 100, 0));
    /* To an absent host, to this host, and to a group. */
    place.sin_addr.s_addr += htonl(99);
    DO("sendto absent", sendto(c, "x", 1, 0, (struct sockaddr *)&place, sizeof place));
    DO("sendto own", sendto(c, "x", 1, 0, to(own, 1), sizeof place) + 1);
    membership.imr_address = own.sin_addr;
    inet_pton(AF_INET, "239.1.2.3", &membership.imr_multiaddr);
    OPTION(c, IPPROTO_IP, IP_ADD_MEMBERSHIP, membership);
    OPTION(c, IPPROTO_IP, IP_MULTICAST_IF, membership);
    place.sin_addr = membership.imr_multiaddr;
    DO("sendto group", sendto(c, "x", 1, 0, (struct sockaddr *)&place, sizeof place));
    OPTION(c, IPPROTO_IP, IP_DROP_MEMBERSHIP, membership);
    DO("send MSG_MORE", send(b, "x", 1, MSG_MORE));
    DO("send the rest", send(b, "x", 1, 0));
    DO("recv", recv(b, big, 100, 0));
    DO("connect to nothing", (place.sin_family = AF_UNSPEC, connect(b, (struct sockaddr *)&place, sizeof place)));
    DO("close datagrams", close(b));
    close(c);
}

static void listeners(void) {
    static int listener;
    DO("socket", listener = socket(AF_INET, SOCK_STREAM, 0));
    OPTION(listener, SOL_SOCKET, SO_REUSEADDR, one);
    DO("bind stream", bind(listener, to(own, 7000), sizeof place));
    DO("listen", listen(listener, 8));
    /* The server connects back on request. */
    DO("send", send(a, "connect", 7, 0));
    DO("accept4", c = accept4(listener, NULL, NULL, SOCK_CLOEXEC));
    DO("recv", recv(a, big, 7, MSG_WAITALL));
    DO("recv", recv(c, big, 100, 0));
    DO("shutdown", shutdown(c, SHUT_WR));
    DO("close", close(c));
    DO("dup2 over a listener", dup2(ends[0], listener));
    DO("close_range", close_range(listener, listener, 0));
}

static void failures(void) {
    DO("socket", c = socket(AF_INET, SOCK_STREAM, 0));
    FAIL("connect refused", ECONNREFUSED, connect(c, to(peer, 1), sizeof place));
    DO("syscall SYS_close", syscall(SYS_close, c));
    /* A loopback peer, an option that only the kernel has, an option before the connection. */
    c = socket(AF_INET, SOCK_STREAM, 0);
    place = (struct sockaddr_in){AF_INET, htons(1), {htonl(INADDR_LOOPBACK)}};
    FAIL("connect loopback", ECONNREFUSED, connect(c, (struct sockaddr *)&place, sizeof place));
    close(c);
    c = socket(AF_INET, SOCK_DGRAM, 0);
    DO("connect datagrams", connect(c, to(peer, 9000), sizeof place));
    OPTION(c, IPPROTO_IP, IP_RECVERR, one);
    DO("send by the kernel", send(c, "x", 1, 0));
    DO("recv by the kernel", recv(c, big, 1, 0));
    close(c);
    FAIL("recv of nothing", EBADF, recv(c, big, 1, 0));
    c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    FAIL("connect at once", EINPROGRESS, connect(c, to(peer, 9000), sizeof place));
    DO("poll for a connection", poll(watched(c, POLLOUT), 1, 5000) - 1);
    length = sizeof status;
    DO("getsockopt SO_ERROR", getsockopt(c, SOL_SOCKET, SO_ERROR, &status, &length));
    FAIL("recv at once", EAGAIN, recv(c, big, 1, 0));
    DO("close", close(c));
}

static void children(void) {
    static char *arguments[] = {"true", NULL}, *variables[] = {NULL};
    DO("fork", (child = fork(), forked = child == 0, child));
    /* The child ends in `step`; its exit status is its stack depth in units of 64 bytes. */
    DO("waitpid", waitpid(child, &status, 0));
    if (!WIFEXITED(status) || (!is_measured && status))
        exit(4);
    if (is_measured)
        printf("%d fork in the child\n", WEXITSTATUS(status) * 64);
    DO("posix_spawn", -posix_spawn(&child, "/bin/true", NULL, NULL, arguments, variables));
    DO("waitpid", waitpid(child, &status, 0));
    DO("send", send(a, "x", 1, 0));
    DO("recv", recv(a, big, 1, 0));
}

static void handled(int number) { (void)number; }

static void begin(void) {
    void nothing(void) {}
    step("nothing", nothing);
    if (is_measured)
        at_rest = depth();
    if (pipe(ends))
        exit(3);
    action.sa_handler = handled;
}

/* The test stops the service before it sends the signal. */
static void left_alone(void) {
    static int set, listener;
    sigset_t before;
    begin();
    sigaction(SIGUSR2, &action, NULL);
    sigaddset(&signals, SIGUSR2);
    sigprocmask(SIG_BLOCK, &signals, &before);
    DO("socket", a = socket(AF_INET, SOCK_STREAM, 0));
    DO("connect", connect(a, to(peer, 9000), sizeof place));
    DO("socket datagrams", b = socket(AF_INET, SOCK_DGRAM, 0));
    DO("bind datagrams", bind(b, to(own, 7001), sizeof place));
    DO("socket", listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    DO("bind", bind(listener, to(own, 7000), sizeof place));
    DO("listen", listen(listener, 8));
    set = epoll_create1(0);
    event = (struct epoll_event){EPOLLIN, {.fd = a}};
    DO("epoll_ctl ADD", epoll_ctl(set, EPOLL_CTL_ADD, a, &event));
    puts("opened");
    sigsuspend(&before);
    TRY("socket", c = socket(AF_INET, SOCK_DGRAM, 0));
    TRY("sendto", sendto(b, "x", 1, 0, to(peer, 9000), sizeof place));
    TRY("recv", recv(b, big, 1, MSG_DONTWAIT));
    TRY("send", send(a, "x", 1, MSG_NOSIGNAL));
    TRY("poll", poll(watched(a, POLLIN), 1, 100));
    TRY("epoll_wait", epoll_wait(set, events, 8, 10));
    TRY("recv", recv(a, big, 1, MSG_DONTWAIT));
    TRY("accept", accept(listener, NULL, NULL));
    TRY("connect", connect(c, to(peer, 9000), sizeof place));
    TRY("close", close(a));
    TRY("close", close(b));
    TRY("close", close(c));
    TRY("close", close(listener));
    puts("all done");
}

static void everything(void) {
    begin();
    DO("first socket", a = socket(AF_INET, SOCK_STREAM, 0));
    DO("sigaction", sigaction(SIGUSR2, &action, NULL));
    DO("connect", connect(a, to(peer, 9000), sizeof place));
    DO("socket datagrams", b = socket(AF_INET, SOCK_DGRAM, 0));
    DO("bind datagrams", bind(b, to(own, 7001), sizeof place));
    DO("connect datagrams", connect(b, to(peer, 9000), sizeof place));
    DO("socket datagrams", c = socket(AF_INET, SOCK_DGRAM, 0));
    streams();
    sets();
    datagrams();
    listeners();
    failures();
    children();
    DO("shutdown", shutdown(a, SHUT_WR));
    DO("recv of the end", recv(a, big, 1, 0));
    DO("close", close(a));
    puts("all done");
}

static void *in_a_thread(void *nothing) {
    everything();
    return nothing;
}

static void in_a_handler(int number) {
    (void)number;
    everything();
}

static void send_in_a_handler(int number) {
    (void)number;
    DO("send", send(a, "x", 1, 0));
    DO("poll", poll(watched(a, POLLIN), 1, 5000) - 1);
    DO("recv", recv(a, big, 1, 0));
}

/* If the saved registers take too much of the stack, the kernel cannot use it either: skip. */
static void raise_on(size_t size, void (*handler)(int)) {
    stack_t on_it = {.ss_sp = stack_of(size), .ss_size = size};
    struct sigaction handled_there = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    if (sysconf(_SC_MINSIGSTKSZ) + 3500 > (long)size)
        return;
    if (sigaltstack(&on_it, NULL) || sigaction(SIGUSR1, &handled_there, NULL))
        exit(3);
    raise(SIGUSR1);
}

int main(int count, char **arguments) {
    if (count != 4 || inet_pton(AF_INET, arguments[2], &peer.sin_addr) != 1 || inet_pton(AF_INET, arguments[3], &own.sin_addr) != 1)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    if (!strcmp(arguments[1], "measured") || !strcmp(arguments[1], "left")) {
        is_measured = 1;
        small = stack_of(MEASURED);
        strcmp(arguments[1], "left") ? everything() : left_alone();
    } else if (!strcmp(arguments[1], "thread")) {
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        if (pthread_attr_setstack(&attributes, stack_of(THREAD), THREAD) || pthread_create(&thread, &attributes, in_a_thread, NULL))
            return 3;
        pthread_join(thread, NULL);
    } else {
        DO("socket", a = socket(AF_INET, SOCK_STREAM, 0));
        DO("connect", connect(a, to(peer, 9000), sizeof place));
        raise_on(SENDER, send_in_a_handler);
        close(a);
        raise_on(sysconf(_SC_MINSIGSTKSZ) + CALL, in_a_handler);
    }
    return 0;
}
