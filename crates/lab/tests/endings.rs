//! The end of a program, by exit or by exec: its last actions work, and the data it has sent
//! arrives.

mod common;

use common::{Both, TIMEOUT, built_from, compiled, crossing, python, start, wait_until_listening};

/// Prints the data of each connection, and how it ends.
const LISTENER: &str = r#"
import socket, sys, threading
def serve(c):
    text = b''
    try:
        while d := c.recv(65536): text += d
        print(len(text), text.decode().strip('.'), 'ended', flush=True)
    except ConnectionResetError:
        print(len(text), text.decode().strip('.'), 'reset', flush=True)
listener = socket.create_server((sys.argv[1], 9000))
while True:
    c, _ = listener.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"#;

/// A library with a thread and a connection, which ends both when the program ends, like a static
/// object of C++.
const WORKER: &str = r#"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int connection;
static pthread_t thread;

static void *work(void *none) {
    char buffer[100];
    while (read(connection, buffer, sizeof buffer) > 0)
        ;
    return none;
}

END {
    if (write(connection, "the end", 7) != 7)
        puts("cannot write");
    shutdown(connection, SHUT_RDWR);
    pthread_join(thread, NULL);
    puts("joined");
}

int work_for(const char *address) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(9000)};
    inet_pton(AF_INET, address, &name.sin_addr);
    connection = socket(AF_INET, SOCK_STREAM, 0);
    return connect(connection, (struct sockaddr *)&name, sizeof name) || pthread_create(&thread, NULL, work, NULL);
}
"#;

#[test]
fn what_joins_threads_and_says_farewell_at_the_programs_end_can_do_so() {
    const MAIN: &str = r#"
#include <stdlib.h>
extern int work_for(const char *);
extern void finish(void);
int main(int count, char **arguments) {
    if (ATEXIT)
        atexit(finish);
    return work_for(arguments[1]);
}
"#;
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), true, &[python(), "-c", LISTENER, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let handler = |on: &str| format!("-DATEXIT={on}");
    let directory = both.a().directory();
    let library = directory.join("libworker.so");
    let library = library.to_str().unwrap();
    // A destructor of a linked library runs after the program's own handlers.
    built_from(WORKER, &["-DEND=__attribute__((destructor)) void finish(void)", "-shared", "-fPIC", "-o", library]);
    let program = |name: &str, source: &str, flags: &[&str]| {
        let program = directory.join(name).to_str().unwrap().to_owned();
        built_from(source, &[flags, &["-o", &program]].concat());
        program
    };
    let path = format!("-Wl,-rpath,{}", directory.display());
    let linked = program("linked", MAIN, &[&handler("0"), library, &path]);
    let handled = program("handled", &format!("{WORKER}{MAIN}"), &[&handler("1"), "-DEND=void finish(void)"]);
    crossing(&both.a_service, 4, || {
        for program in [&linked, &handled] {
            let said = start(both.a(), true, &[program, &address]).success(TIMEOUT).unwrap();
            assert_eq!(said, "joined\n", "{program}");
            server.wait_for("7 the end ended\n", TIMEOUT).unwrap();
        }
    });
}

#[test]
fn what_a_program_has_sent_arrives_whichever_way_it_ends() {
    // More than the window of a listener that has not begun to read.
    const SENDER: &str = r#"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char text[150000];

int main(int count, char **arguments) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(9000)};
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, arguments[2], &name.sin_addr);
    memset(text, '.', sizeof text);
    memcpy(text + sizeof text - strlen(arguments[1]), arguments[1], strlen(arguments[1]));
    if (connect(connection, (struct sockaddr *)&name, sizeof name))
        return 1;
    if (!strcmp(arguments[1], "in the daemon") && daemon(0, 0))
        return 2;
    if (write(connection, text, sizeof text) != sizeof text)
        return 3;
    if (!strcmp(arguments[1], "quick_exit"))
        quick_exit(0);
    if (!strcmp(arguments[1], "exec, shut"))
        close(connection);
    if (!strncmp(arguments[1], "exec", 4)) {
        execl("/no/such/program", "none", (char *)NULL);
        fcntl(connection, F_SETFD, FD_CLOEXEC);
        execl("/bin/true", "true", (char *)NULL);
    }
    _exit(0);
}
"#;
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), false, &[python(), "-c", LISTENER, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let program = compiled(both.a(), SENDER);
    for way in ["_exit", "quick_exit", "in the daemon", "exec, shut", "exec"] {
        println!("{way}");
        // The listener's kernel acknowledges segments that arrive together once: the SYN, a few
        // times as its window fills and opens, the FIN.
        crossing(&both.a_service, 4, || {
            start(both.a(), true, &[&program, way, &address]).success(TIMEOUT).unwrap();
            server.wait_for(&format!("150000 {way} ended\n"), TIMEOUT).unwrap();
        });
    }
}

/// The beginning of the programs below.
const CONNECTED: &str = r#"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int connected(const char *address, int port) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, address, &name.sin_addr);
    if (connect(connection, (struct sockaddr *)&name, sizeof name))
        exit(1);
    return connection;
}
"#;

/// Echoes on port 9000, and never reads on port 9001.
const ECHO_AND_DEAF: &str = r#"
import socket, sys, threading
def serve(c):
    try:
        while d := c.recv(65536): c.sendall(d)
    except OSError:
        pass
deaf = socket.create_server((sys.argv[1], 9001))
listener = socket.create_server((sys.argv[1], 9000))
while True:
    c, _ = listener.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"#;

/// Compiles a C program after the common beginning and runs it on host a against that server: it
/// must succeed, and `packets` packets must cross.
fn succeeds(source: &str, packets: u64) {
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), true, &[python(), "-c", ECHO_AND_DEAF, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let program = compiled(both.a(), &[CONNECTED, source].concat());
    crossing(&both.a_service, packets, || {
        let ended = start(both.a(), true, &[&program, &address]).wait(TIMEOUT).unwrap();
        assert!(ended.status.success(), "{:?} {}", ended.status, ended.stderr);
    });
}

#[test]
fn a_program_that_cannot_end_does_not_hold_up_its_children() {
    // No process reads its last data except its child, which first talks with the server.
    const PROGRAM: &str = r#"
static char text[1 << 20];

int main(int count, char **arguments) {
    int connection = connected(arguments[1], 9000), words[2], turn, parent = getpid(), call = -1, to = -1;
    char back[5], path[100];
    FILE *status;
    if (pipe(words) || dup2(words[1], 1) < 0)
        return 2;
    setvbuf(stdout, malloc(sizeof text), _IOFBF, sizeof text);
    if (fork()) {
        fwrite(text, sizeof text - 1, 1, stdout);
        return 0;
    }
    snprintf(path, sizeof path, "/proc/%d/syscall", parent);
    while (call != SYS_write || to != 1) {
        status = fopen(path, "r");
        if (!status || fscanf(status, "%d %x", &call, &to) < 1)
            call = -1;
        fclose(status);
    }
    for (turn = 0; turn < 100; turn++)
        if (write(connection, "hello", 5) != 5 || recv(connection, back, 5, MSG_WAITALL) != 5)
            _exit(3);
    while (read(words[0], text, sizeof text) > 0 && !kill(parent, 0))
        ;
    _exit(0);
}
"#;
    succeeds(&["#include <signal.h>\n", PROGRAM].concat(), 100);
}

#[test]
fn a_program_ends_as_it_means_to_though_a_thread_goes_on_and_it_would_linger() {
    // Unread data keeps the program for a while, but not for as long as `close` would wait.
    const PROGRAM: &str = r#"
static int talking;
static volatile int talked;

static void *talk(void *none) {
    char back[5];
    while (write(talking, "hello", 5) == 5 && recv(talking, back, 5, MSG_WAITALL) == 5)
        talked = 1;
    return none;
}

int main(int count, char **arguments) {
    struct linger linger = {1, 1000};
    struct pollfd room = {-1, POLLOUT, 0};
    static char text[65536];
    pthread_t thread;
    int turn, deaf;
    for (turn = 0; turn < 3; turn++) {
        deaf = connected(arguments[1], 9001);
        setsockopt(deaf, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        fcntl(deaf, F_SETFL, O_NONBLOCK);
        room.fd = deaf;
        do
            while (write(deaf, text, sizeof text) > 0)
                ;
        while (poll(&room, 1, 200) > 0);
    }
    talking = connected(arguments[1], 9000);
    pthread_create(&thread, NULL, talk, NULL);
    while (!talked)
        ;
    return 0;
}
"#;
    succeeds(&["#include <poll.h>\n", PROGRAM].concat(), 40);
}

#[test]
fn a_thread_goes_on_whenever_an_exec_fails() {
    const PROGRAM: &str = r#"
static volatile int over;

static void *talk(void *connection) {
    char back[5];
    while (!over)
        if (write(*(int *)connection, "hello", 5) != 5 || recv(*(int *)connection, back, 5, MSG_WAITALL) != 5)
            return connection;
    return NULL;
}

int main(int count, char **arguments) {
    int connections[2] = {connected(arguments[1], 9000), connected(arguments[1], 9000)}, turn;
    pthread_t threads[2];
    void *failed;
    for (turn = 0; turn < 2; turn++)
        pthread_create(&threads[turn], NULL, talk, &connections[turn]);
    for (turn = 0; turn < 2000; turn++)
        if (execl("/no/such/program", "none", (char *)NULL) != -1)
            return 2;
    over = 1;
    for (turn = 0; turn < 2; turn++)
        if (pthread_join(threads[turn], &failed) || failed)
            return 3;
    return 0;
}
"#;
    succeeds(PROGRAM, 10);
}
