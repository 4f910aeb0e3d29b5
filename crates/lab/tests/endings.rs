//! The end of a program, by exit or by exec: what it still does then works, and what it has sent arrives.

mod common;

use common::{Both, PATIENCE, bound, built_from, compiled, crossing, python, start};

/// Prints what comes on each connection, and how that ends.
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

/// A part of a program that has a thread and a connection, and ends both when the program ends, as a static object of C++ would.
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
    bound(both.b(), &mut server, "tcp", 9000);
    let handler = |on: &str| format!("-DATEXIT={on}");
    let directory = both.a().directory();
    let library = directory.join("libworker.so");
    let library = library.to_str().unwrap();
    // The end of a library that the program is linked with comes after the program's own handlers.
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
            let said = start(both.a(), true, &[program, &address]).success(PATIENCE).unwrap();
            assert_eq!(said, "joined\n", "{program}");
            server.wait_for("7 the end ended\n", PATIENCE).unwrap();
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
    bound(both.b(), &mut server, "tcp", 9000);
    let program = compiled(both.a(), SENDER);
    // What exec closes is reset, but not before all has arrived.
    let ways = [
        ("_exit", "ended"),
        ("quick_exit", "ended"),
        ("in the daemon", "ended"),
        ("exec, shut", "ended"),
        ("exec", "reset"),
    ];
    for (way, end) in ways {
        println!("{way}");
        crossing(&both.a_service, 10, || {
            start(both.a(), true, &[&program, way, &address]).success(PATIENCE).unwrap();
            server.wait_for(&format!("150000 {way} {end}\n"), PATIENCE).unwrap();
        });
    }
}
