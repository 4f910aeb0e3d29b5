//! The library's constructor: other libraries' may run before it and open sockets, and it prepares
//! what would be dear once the program has several threads.

mod common;

use common::{Both, ECHO_SERVER, TIMEOUT, built_from, crossing, python, start, wait_until_listening};

/// A library that opens a socket as it is loaded, like a static object of C++.
const EARLY: &str = r#"
#include <sys/socket.h>
int early = -1;
__attribute__((constructor)) static void open_early(void) { early = socket(AF_INET, SOCK_STREAM, 0); }
"#;

/// Uses that socket, and looks for what a lane has in any other program: a helper thread, and
/// `EFAULT` for a bad pointer.
const MAIN: &str = r#"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

extern int early;

static int helper_runs(void) {
    DIR *threads = opendir("/proc/self/task");
    struct dirent *thread;
    int found = 0;
    while ((thread = readdir(threads))) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", thread->d_name);
        FILE *file = fopen(path, "r");
        if (file && fgets(name, sizeof name, file))
            found |= !strncmp(name, "tickwire-helper", 15);
        if (file)
            fclose(file);
    }
    closedir(threads);
    return found;
}

int main(int count, char **arguments) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(9000)};
    char back[5];
    void *volatile bad = (void *)8;
    inet_pton(AF_INET, arguments[1], &name.sin_addr);
    if (connect(early, (struct sockaddr *)&name, sizeof name))
        return 2;
    for (int turn = 0; turn < 20; turn++)
        if (send(early, "hello", 5, 0) != 5 || recv(early, back, 5, MSG_WAITALL) != 5)
            return 3;
    if (!helper_runs())
        return 4;
    return send(early, bad, 5, 0) == -1 && errno == EFAULT ? 0 : 5;
}
"#;

#[test]
fn a_socket_that_a_constructor_opens_is_served_like_any_other() {
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), false, &[python(), "-c", ECHO_SERVER, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let directory = both.a().directory();
    let [library, program] = ["libearly.so", "program"].map(|name| directory.join(name).to_str().unwrap().to_owned());
    built_from(EARLY, &["-shared", "-fPIC", "-o", &library]);
    let path = format!("-Wl,-rpath,{}", directory.display());
    built_from(MAIN, &[&library, &path, "-o", &program]);
    crossing(&both.a_service, 20, || {
        let ended = start(both.a(), true, &[&program, &address]).wait(TIMEOUT).unwrap();
        assert!(ended.status.success(), "{:?} {}", ended.status, ended.stderr);
    });
}

/// Compares the size of the kernel's descriptor table before the first socket with the numbers of
/// the descriptors that the lane has afterwards.
const TABLE: &str = r#"
import os, socket, sys
def table():
    with open('/proc/self/status') as f:
        return next(int(line.split()[1]) for line in f if line.startswith('FDSize:'))
before = table()
with socket.create_connection((sys.argv[1], 9000), timeout=20) as s:
    for _ in range(20):
        s.sendall(b'hello')
        assert s.recv(5, socket.MSG_WAITALL) == b'hello'
    highest = max(map(int, os.listdir('/proc/self/fd')))
print(before, highest)
assert highest > 100, 'the lane has descriptors of high numbers'
assert before > highest, 'the table grew when there were several threads'
"#;

#[test]
fn the_descriptor_table_has_room_for_a_lane_before_the_program_has_threads() {
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), false, &[python(), "-c", ECHO_SERVER, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    crossing(&both.a_service, 20, || {
        let ended = start(both.a(), true, &[python(), "-c", TABLE, &address]).wait(TIMEOUT).unwrap();
        assert!(ended.status.success(), "{:?} {}", ended.status, ended.stderr);
    });
}
