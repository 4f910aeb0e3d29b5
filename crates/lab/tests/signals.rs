//! Signal handlers that make async-signal-safe calls, wherever they interrupt the library.

mod common;

use common::{Both, ECHO_SERVER, TIMEOUT, compiled, crossing, python, start, wait_until_listening};

const START: &str = r#"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static struct sockaddr_in name = {.sin_family = AF_INET};

static int opened(int kind) {
    int fd = socket(AF_INET, kind, 0);
    if (connect(fd, (struct sockaddr *)&name, sizeof name)) {
        perror("connect");
        exit(1);
    }
    return fd;
}

static void every(int microseconds) {
    struct itimerval often = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &often, NULL);
}

static void install(void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(SIGALRM, &action, NULL);
}
"#;

/// A program that runs `run` of this source, with the server's address as its argument.
fn program(both: &Both, run: &str) -> String {
    let main = "int main(int count, char **arguments) {\n name.sin_port = htons(9000);\n \
                inet_pton(AF_INET, arguments[1], &name.sin_addr);\n return run();\n}\n";
    compiled(both.a(), &[START, run, main].concat())
}

fn against_echo(run: &str, packets: u64) -> String {
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), true, &[python(), "-c", ECHO_SERVER, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    wait_until_listening(both.b(), &mut server, "udp", 9000);
    let program = program(&both, run);
    crossing(&both.a_service, packets, || start(both.a(), true, &[&program, &address]).success(TIMEOUT).unwrap())
}

#[test]
fn a_handler_uses_sockets_a_thousand_times_a_second_whatever_it_interrupts() {
    const PROGRAM: &str = r#"
static int handlers, datagrams;
static volatile sig_atomic_t ran;
static unsigned written;

static void handler(int number) {
    int before = errno, used;
    struct pollfd fds[2] = {{handlers, POLLIN | POLLOUT, 0}, {datagrams, POLLOUT, 0}};
    struct timeval none = {0, 0};
    fd_set set;
    char back[64];
    ran++;
    if (poll(fds, 2, 0) < 1)
        abort();
    FD_ZERO(&set);
    FD_SET(handlers, &set);
    if (select(handlers + 1, &set, NULL, NULL, &none) < 0)
        abort();
    if (fds[0].revents & POLLOUT && write(handlers, "tick", 4) != 4)
        abort();
    while (recv(handlers, back, sizeof back, MSG_DONTWAIT) > 0)
        ;
    send(datagrams, "tick", 4, MSG_DONTWAIT);
    while (recv(datagrams, back, sizeof back, MSG_DONTWAIT) > 0)
        ;
    // Each of these requests something from the service.
    if (ran % 20 == 0) {
        used = socket(AF_INET, SOCK_DGRAM, 0);
        if (connect(used, (struct sockaddr *)&name, sizeof name) || write(used, "once", 4) != 4)
            abort();
        close(used);
    }
    errno = before;
}

static int run(void) {
    int own = opened(SOCK_STREAM), instance = epoll_create1(0), turn, other;
    struct epoll_event event = {EPOLLIN, {0}};
    handlers = opened(SOCK_STREAM);
    datagrams = opened(SOCK_DGRAM);
    install(handler, SA_RESTART);
    every(1000);
    for (turn = 0; ran < 1500; turn++) {
        unsigned sent[64], received[64];
        char *memory[16];
        int n;
        for (n = 0; n < 64; n++)
            sent[n] = written++;
        if (send(own, sent, sizeof sent, 0) != sizeof sent)
            return 2;
        for (n = 0; n < 16; n++)
            memory[n] = memset(malloc(1 + turn % 100 + n * 8), n, 1);
        if (recv(own, received, sizeof received, MSG_WAITALL) != sizeof received || memcmp(sent, received, sizeof sent))
            return 3;
        for (n = 0; n < 16; n++)
            free(memory[n]);
        if (turn % 10 == 0) {
            other = opened(SOCK_STREAM);
            epoll_ctl(instance, EPOLL_CTL_ADD, other, &event);
            if (write(other, "x", 1) != 1)
                return 4;
            while (epoll_wait(instance, &event, 1, 20000) != 1)
                if (errno != EINTR)
                    return 5;
            close(other);
        }
    }
    every(0);
    puts("ok");
    return 0;
}
"#;
    assert_eq!(against_echo(PROGRAM, 3000), "ok\n");
}

#[test]
fn a_thread_that_jumps_out_of_its_calls_does_not_count_as_waiting() {
    const PROGRAM: &str = r#"
static sigjmp_buf out;
static volatile sig_atomic_t jumps;

static void handler(int number) {
    if (++jumps <= 100)
        siglongjmp(out, 1);
}

static int run(void) {
    int own = opened(SOCK_STREAM);
    char back[1000];
    install(handler, 0);
    // The jump target must exist before the first signal.
    if (!sigsetjmp(out, 1))
        every(1000);
    while (jumps < 100)
        if (!sigsetjmp(out, 1))
            recv(own, back, sizeof back, 0);
    every(0);
    if (write(own, "now", 3) != 3)
        return 1;
    // Busy without any call that the library could see.
    while (access("GO", F_OK))
        ;
    if (recv(own, back, sizeof back, MSG_WAITALL) != sizeof back)
        return 2;
    puts("ok");
    return 0;
}
"#;
    // On the kernel, which knows what was acknowledged.
    const PEER: &str = r#"
import array, fcntl, socket, sys, termios
listener = socket.create_server((sys.argv[1], 9000))
c, _ = listener.accept()
assert c.recv(3) == b'now'
c.sendall(bytes(1000))
unacknowledged = array.array('i', [1])
while unacknowledged[0]:
    fcntl.ioctl(c, termios.TIOCOUTQ, unacknowledged)
print('acknowledged', flush=True)
c.recv(1)
"#;
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut peer = start(both.b(), false, &[python(), "-c", PEER, &address]);
    wait_until_listening(both.b(), &mut peer, "tcp", 9000);
    let go = both.a().directory().join("go");
    let program = program(&both, &PROGRAM.replace("GO", go.to_str().unwrap()));
    let mut jumper = crossing(&both.a_service, 2, || {
        let jumper = start(both.a(), true, &[&program, &address]);
        peer.wait_for("acknowledged", TIMEOUT).unwrap();
        jumper
    });
    std::fs::write(&go, "").unwrap();
    assert_eq!(jumper.success(TIMEOUT).unwrap(), "ok\n");
}

#[test]
fn a_thread_that_has_the_name_of_a_cancelled_one_is_not_disturbed() {
    const PROGRAM: &str = r#"
static int own;

static void *sleeps(void *none) {
    pause();
    return none;
}

static void *waits(void *failed) {
    char back[4];
    // No data arrives until the other thread has sent.
    return recv(own, back, 4, MSG_WAITALL) == 4 && !memcmp(back, "back", 4) ? NULL : failed;
}

static int run(void) {
    pthread_t first, second;
    int turn, same = 0;
    void *failed;
    own = opened(SOCK_STREAM);
    for (turn = 0; turn < 50; turn++) {
        pthread_create(&first, NULL, sleeps, NULL);
        pthread_cancel(first);
        pthread_join(first, NULL);
        pthread_create(&second, NULL, waits, "failed");
        same += pthread_equal(first, second) != 0;
        usleep(2000);
        if (write(own, "back", 4) != 4 || pthread_join(second, &failed) || failed)
            return 1;
    }
    puts(same ? "ok" : "never the same name");
    return 0;
}
"#;
    assert_eq!(against_echo(PROGRAM, 50), "ok\n");
}

#[test]
fn a_thread_is_cancelled_after_many_others_that_were_elsewhere() {
    const PROGRAM: &str = r#"
static int own;
static volatile int waiting;

static void *sleeps(void *none) {
    pause();
    return none;
}

static void asleep(volatile int *thread) {
    char path[100], state = 0;
    FILE *file;
    while (!*thread)
        ;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", *thread);
    while (state != 'S') {
        file = fopen(path, "r");
        if (!file || fscanf(file, "%*d %*s %c", &state) != 1)
            abort();
        fclose(file);
    }
}

static void *waits(void *none) {
    char back[4];
    waiting = gettid();
    recv(own, back, 4, MSG_WAITALL);
    return none;
}

static int run(void) {
    pthread_t some[100], last;
    void *how;
    int n;
    own = opened(SOCK_STREAM);
    pthread_create(&last, NULL, waits, NULL);
    for (n = 0; n < 100; n++)
        pthread_create(&some[n], NULL, sleeps, NULL);
    for (n = 0; n < 100; n++)
        pthread_cancel(some[n]);
    for (n = 0; n < 100; n++)
        pthread_join(some[n], NULL);
    asleep(&waiting);
    pthread_cancel(last);
    if (pthread_join(last, &how) || how != PTHREAD_CANCELED)
        return 2;
    for (n = 0; n < 100; n++)
        pthread_create(&some[n], NULL, n % 2 ? sleeps : waits, NULL);
    for (n = 0; n < 100; n++)
        pthread_cancel(some[n]);
    for (n = 0; n < 100; n++)
        if (pthread_join(some[n], &how) || how != PTHREAD_CANCELED)
            return 1;
    puts("ok");
    return 0;
}
"#;
    assert_eq!(against_echo(PROGRAM, 2), "ok\n");
}
