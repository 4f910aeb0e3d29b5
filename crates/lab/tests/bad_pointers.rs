//! Calls with invalid pointers return the kernel's errors, and neither hold a resource nor change
//! state partially.

mod common;

use common::{Both, ECHO_SERVER, TIMEOUT, compiled, crossing, python, start, wait_until_listening};

const START: &str = r#"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static struct sockaddr_in name = {.sin_family = AF_INET};
/* An unmapped page, and a mapped one before it, of which the last 100 bytes are `edge`. */
static char *bad, *edge;

static int opened(int kind) {
    int fd = socket(AF_INET, kind, 0);
    if (connect(fd, (struct sockaddr *)&name, sizeof name)) {
        perror("connect");
        exit(1);
    }
    return fd;
}

static void talk(int fd) {
    char back[8];
    if (send(fd, "question", 8, 0) != 8 || recv(fd, back, 8, MSG_WAITALL) != 8 || memcmp(back, "question", 8))
        abort();
}

static void pages(void) {
    char *two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bad = two + 4096;
    edge = bad - 100;
    mprotect(bad, 4096, PROT_NONE);
}
"#;

const MAIN: &str = "int main(int count, char **arguments) {\n name.sin_port = htons(9000);\n \
                    inet_pton(AF_INET, arguments[1], &name.sin_addr);\n pages();\n return run();\n}\n";

/// The program's output against an echo server on Tickwire: on the kernel and on Tickwire.
fn on_both(run: &str, packets: u64) -> [String; 2] {
    beside(ECHO_SERVER, &["tcp", "udp"], run, packets)
}

/// The same against this server, which binds port 9000 of these transports.
fn beside(server: &str, transports: &[&str], run: &str, packets: u64) -> [String; 2] {
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), true, &[python(), "-c", server, &address]);
    transports.iter().for_each(|transport| wait_until_listening(both.b(), &mut server, transport, 9000));
    let program = compiled(both.a(), &[START, run, MAIN].concat());
    let run = |accelerated| start(both.a(), accelerated, &[&program, &address]).success(TIMEOUT).unwrap();
    [run(false), crossing(&both.a_service, packets, || run(true))]
}

#[test]
fn every_call_answers_a_bad_pointer_as_the_kernel_does() {
    const PROGRAM: &str = r#"
#define TELL(call) do { errno = 0; long told = (call); printf("%s: %ld %s\n", #call, told, told < 0 ? strerror(errno) : ""); } while (0)

/* Waits of a program without a socket. */
static void before_any(void) {
    int instance = epoll_create1(0), pair[2];
    struct epoll_event event = {EPOLLOUT, {0}};
    if (pipe(pair) || epoll_ctl(instance, EPOLL_CTL_ADD, pair[1], &event))
        abort();
    TELL(epoll_wait(instance, (struct epoll_event *)edge, 1024, 0));
    TELL(epoll_wait(instance, (struct epoll_event *)bad, 1024, 0));
    TELL(epoll_pwait2(instance, &event, 1, (struct timespec *)bad, NULL));
    TELL(epoll_pwait(instance, &event, 1, 0, (sigset_t *)bad));
}

static int run(void) {
    before_any();
    int stream = opened(SOCK_STREAM), datagrams = opened(SOCK_DGRAM), instance = epoll_create1(0), fresh;
    struct epoll_event event = {EPOLLIN | EPOLLOUT, {0}};
    struct sockaddr_in place;
    struct timespec none = {0, 0};
    struct timeval no_time = {0, 0};
    socklen_t length = sizeof place;
    char good[64] = "good", control[64];
    struct pollfd fds[1] = {{stream, POLLOUT, 0}};
    fd_set set;
    int *both[] = {&stream, &datagrams};

    epoll_ctl(instance, EPOLL_CTL_ADD, stream, &event);
    for (unsigned kind = 0; kind < 2; kind++) {
        int fd = *both[kind];
        struct iovec split[2] = {{good, 4}, {bad, 4}}, whole = {good, 4};
        struct msghdr message = {.msg_iov = split, .msg_iovlen = 2};
        struct mmsghdr many = {.msg_hdr = {.msg_iov = split, .msg_iovlen = 2}};
        puts(kind ? "datagrams" : "stream");
        TELL(send(fd, bad, 4, 0));
        TELL(send(fd, edge, 500, 0));
        TELL(write(fd, bad, 4));
        TELL(writev(fd, split, 2));
        TELL(writev(fd, (struct iovec *)bad, 2));
        TELL(sendto(fd, good, 4, 0, (struct sockaddr *)bad, sizeof name));
        TELL(sendmsg(fd, &message, 0));
        TELL(sendmsg(fd, (struct msghdr *)bad, 0));
        TELL(sendmmsg(fd, &many, 1, 0));
        TELL(sendmmsg(fd, (struct mmsghdr *)bad, 1, 0));
        message.msg_iov = &whole, message.msg_iovlen = 1, message.msg_control = bad, message.msg_controllen = 64;
        TELL(sendmsg(fd, &message, 0));
        /* None of this was sent. */
        talk(fd);
        TELL(recv(fd, good, 4, MSG_DONTWAIT));

        send(fd, "question", 8, 0);
        recv(fd, good, 4, MSG_PEEK);
        TELL(recvmsg(fd, (struct msghdr *)bad, 0));
        TELL(recvmmsg(fd, (struct mmsghdr *)bad, 1, 0, NULL));
        TELL(recvmmsg(fd, &many, 1, 0, (struct timespec *)bad));
        TELL(readv(fd, (struct iovec *)bad, 1));
        TELL(recv(fd, bad, 4, MSG_PEEK));
        TELL(recv(fd, bad, 4, 0));
        /* A stream keeps data that could not be copied, a datagram is lost. */
        TELL(recv(fd, good, 8, MSG_DONTWAIT));
        TELL(memcmp(good, "question", 8));
        send(fd, "question", 8, 0);
        recv(fd, good, 4, MSG_PEEK);
        TELL(recv(fd, bad - 4, 8, 0));
        TELL(recv(fd, good, 8, MSG_DONTWAIT));
        send(fd, "question", 8, 0);
        recv(fd, good, 4, MSG_PEEK);
        message.msg_iov = split, message.msg_iovlen = 2, message.msg_control = control, message.msg_controllen = 64;
        TELL(recvmsg(fd, &message, 0));
        TELL(recv(fd, good, 8, MSG_DONTWAIT));
        talk(fd);

        TELL(getsockname(fd, (struct sockaddr *)bad, &length));
        TELL(getsockname(fd, (struct sockaddr *)&place, (socklen_t *)bad));
        TELL(getpeername(fd, (struct sockaddr *)bad, &length));
        TELL(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, bad, &length));
        TELL(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, good, (socklen_t *)bad));
        TELL(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, bad, 4));
        TELL(ioctl(fd, FIONREAD, bad));
        TELL(ioctl(fd, FIONBIO, bad));
        TELL(connect(fd, (struct sockaddr *)bad, sizeof name));
        fresh = socket(AF_INET, kind ? SOCK_DGRAM : SOCK_STREAM, 0);
        TELL(bind(fresh, (struct sockaddr *)bad, sizeof name));
        TELL(connect(fresh, (struct sockaddr *)bad, sizeof name));
        close(fresh);
    }
    send(datagrams, "question", 8, 0);
    recv(datagrams, good, 4, MSG_PEEK);
    TELL(recvfrom(datagrams, good, 8, 0, (struct sockaddr *)bad, &length));
    TELL(recv(datagrams, good, 8, MSG_DONTWAIT));
    /* Of several datagrams in one call none is sent: the echo is that of the next one. */
    int segment = 100;
    TELL(setsockopt(datagrams, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment));
    TELL(send(datagrams, edge, 200, 0));
    TELL(send(datagrams, "question", 8, 0));
    TELL(recv(datagrams, good, 8, 0));
    TELL(memcmp(good, "question", 8));

    /* The C library reads some timeouts itself, and faults on the kernel, too: not tested. */
    puts("waits");
    TELL(poll((struct pollfd *)bad, 1, 0));
    TELL(ppoll(fds, 1, &none, (sigset_t *)bad));
    FD_ZERO(&set);
    FD_SET(stream, &set);
    TELL(select(stream + 1, (fd_set *)bad, &set, NULL, &no_time));
    TELL(epoll_ctl(instance, EPOLL_CTL_ADD, datagrams, (struct epoll_event *)bad));
    TELL(epoll_ctl(instance, EPOLL_CTL_MOD, stream, (struct epoll_event *)bad));
    TELL(epoll_wait(instance, (struct epoll_event *)bad, 1, 0));
    TELL(epoll_wait(instance, &event, 1, 0));
    TELL(epoll_wait(instance, (struct epoll_event *)edge, 1024, 0));
    TELL(epoll_pwait2(instance, &event, 1, (struct timespec *)bad, NULL));
    TELL(epoll_ctl(instance, EPOLL_CTL_DEL, stream, (struct epoll_event *)bad));
    TELL(poll(fds, 1, 0));
    return 0;
}
"#;
    let [kernel, tickwire] = on_both(PROGRAM, 10);
    assert_eq!(tickwire, kernel);
    assert!(kernel.matches("Bad address").count() > 50, "{kernel}");
}

#[test]
fn an_urgent_byte_for_a_bad_pointer_is_no_end_of_the_stream() {
    const SERVER: &str = "
import socket, sys
server, kept = socket.create_server((sys.argv[1], 9000)), []
while True:
    kept.append(server.accept()[0])
    kept[-1].send(b'u', socket.MSG_OOB)
";
    const PROGRAM: &str = r#"
static int run(void) {
    int fd = opened(SOCK_STREAM);
    struct pollfd urgent = {fd, POLLPRI, 0};
    if (poll(&urgent, 1, 10000) != 1)
        abort();
    for (int turn = 0; turn < 2; turn++) {
        ssize_t told = recv(fd, turn ? (char *)&name : bad, 1, MSG_OOB);
        printf("%zd %s\n", told, told < 0 ? strerror(errno) : "");
    }
    return 0;
}
"#;
    let [kernel, tickwire] = beside(SERVER, &["tcp"], PROGRAM, 2);
    assert_eq!(tickwire, kernel);
    assert_eq!(kernel, "-1 Bad address\n-1 Invalid argument\n");
}

#[test]
fn a_fault_handler_that_jumps_out_leaves_nothing_held() {
    const PROGRAM: &str = r#"
static sigjmp_buf out;
static volatile int faults, trips, over;

static void handler(int number) {
    faults++;
    siglongjmp(out, number);
}

static void across_the_edge(int fd) {
    ssize_t sent = send(fd, edge, 500, 0);
    printf("%zd %s\n", sent, strerror(errno));
}

static void *other(void *nothing) {
    int fd = opened(SOCK_STREAM);
    while (!over) {
        talk(fd);
        trips++;
    }
    return NULL;
}

static int run(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESETHAND}, told;
    int fd, before, turn;
    pthread_t thread;
    /* A handler removed before the first socket stays removed. */
    if (!fork()) {
        sigaction(SIGSEGV, &action, NULL);
        signal(SIGSEGV, SIG_DFL);
        fd = opened(SOCK_STREAM);
        sigaction(SIGSEGV, NULL, &told);
        printf("installed: %d\n", told.sa_handler == handler);
        across_the_edge(fd);
        fflush(stdout);
        _exit(0);
    }
    wait(&turn);
    pthread_create(&thread, NULL, other, NULL);
    /* Before the first socket, after it, and by `signal` as in a program in strict C. */
    for (turn = 0; turn < 3; turn++) {
        if (turn < 2)
            sigaction(SIGSEGV, &action, NULL);
        else
            __sysv_signal(SIGSEGV, handler);
        sigaction(SIGSEGV, NULL, &told);
        if (told.sa_handler != handler || (told.sa_flags & SA_SIGINFO) || !(told.sa_flags & SA_RESETHAND))
            abort();
        fd = opened(SOCK_STREAM);
        if (!sigsetjmp(out, 1))
            across_the_edge(fd);
        if (!sigsetjmp(out, 1))
            printf("%d\n", *(volatile char *)bad);
        sigaction(SIGSEGV, NULL, &told);
        printf("%d faults, installed: %d %d\n", faults, told.sa_handler == handler, told.sa_handler == SIG_DFL);
        talk(fd);
    }
    before = trips;
    while (trips < before + 100)
        usleep(1000);
    over = 1;
    pthread_join(thread, NULL);
    /* Without a handler, too; and a signal sent by `kill` takes effect. */
    across_the_edge(fd);
    talk(fd);
    fflush(stdout);
    if (!fork()) {
        kill(getpid(), SIGSEGV);
        _exit(0);
    }
    wait(&turn);
    printf("%d\n", WIFSIGNALED(turn) ? WTERMSIG(turn) : 0);
    fflush(stdout);
    if (!fork()) {
        *(volatile char *)bad = 1;
        _exit(0);
    }
    wait(&turn);
    printf("%d\n", WIFSIGNALED(turn) ? WTERMSIG(turn) : 0);
    return 0;
}
"#;
    let [kernel, tickwire] = on_both(&format!("#include <sys/wait.h>\n{PROGRAM}"), 100);
    assert_eq!(tickwire, kernel);
    let turns = (1..=3).map(|turn| format!("-1 Bad address\n{turn} faults, installed: 0 1\n"));
    let first = "installed: 0\n-1 Bad address\n".to_owned();
    assert_eq!(kernel, first + &turns.collect::<String>() + "-1 Bad address\n11\n11\n");
}
