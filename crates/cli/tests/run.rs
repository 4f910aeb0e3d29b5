//! `tickwire run`: exit statuses, messages and what the program finds in its environment. No
//! service and no root needed.
#![cfg(unix)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The files of a test: an empty file that stands in for the preload library, a socket, programs.
struct Setup {
    directory: tempfile::TempDir,
}

impl Setup {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// An executable file, written by another process. If this process had it open for writing,
    /// another test could fork meanwhile. Until that child calls exec, the file would be busy
    /// (ETXTBSY).
    fn program(&self, name: &str, content: &[u8]) -> String {
        let path = self.path(name);
        let mut install = Command::new("install");
        install.args(["-m", "755", "/dev/stdin"]).arg(&path).stdin(Stdio::piped());
        let mut install = install.spawn().unwrap();
        install.stdin.take().unwrap().write_all(content).unwrap();
        assert!(install.wait().unwrap().success());
        path.to_str().unwrap().to_owned()
    }

    /// Runs `tickwire run` with a library that is an empty file, and a socket on which no service
    /// listens.
    fn run(&self, arguments: &[&str]) -> Output {
        let library = self.file("libtickwire_preload.so", b"");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickwire"));
        command.arg("run").args(arguments).env("TICKWIRE_PRELOAD", library).env_remove("LD_PRELOAD");
        command.env("TICKWIRE_SOCKET", self.path("service.sock"));
        command.output().unwrap()
    }

    /// Listens on the socket, as a service would.
    fn listen(&self) -> std::os::fd::OwnedFd {
        use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
        use std::os::fd::AsRawFd;
        let fd = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(fd.as_raw_fd(), &UnixAddr::new(&self.path("service.sock")).unwrap()).unwrap();
        listen(&fd, Backlog::new(16).unwrap()).unwrap();
        fd
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The messages of `tickwire`; the loader also complains about the empty library.
fn own_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|l| l.starts_with("tickwire: ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_programs_arguments_and_exit_status_are_its_own() {
    let setup = Setup::new();
    let output = setup.run(&["sh", "-c", "echo \"$0 $1\"; exit 7", "--require", "-x"]);
    assert_eq!(stdout(&output), "--require -x\n");
    assert_eq!(output.status.code(), Some(7));
    let output = setup.run(&["--", "echo", "--", "-n"]);
    assert_eq!(stdout(&output), "-- -n\n");
}

#[test]
fn without_a_service_the_program_runs_and_one_line_says_why() {
    let setup = Setup::new();
    let output = setup.run(&["echo", "hello"]);
    assert_eq!(stdout(&output), "hello\n");
    let words = own_words(&output);
    assert!(words.starts_with("tickwire: echo runs on the kernel's network stack for now: no service at "), "{words}");
    assert_eq!(words.lines().count(), 1);
}

#[test]
fn what_no_waiting_changes_is_not_said_to_be_for_now() {
    let setup = Setup::new();
    let _other = std::os::unix::net::UnixListener::bind(setup.path("service.sock")).unwrap();
    let words = own_words(&setup.run(&["echo", "hello"]));
    let expected = "tickwire: echo runs on the kernel's network stack: what is at ";
    assert!(words.starts_with(expected) && words.contains("is not the service's socket"), "{words}");
}

#[test]
fn without_a_service_a_program_that_requires_it_is_not_started() {
    let setup = Setup::new();
    let output = setup.run(&["--require", "echo", "hello"]);
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(69)));
    let words = own_words(&output);
    assert!(words.starts_with("tickwire: echo was not started: no service at "), "{words}");
}

#[test]
fn the_program_finds_library_and_settings_in_its_environment() {
    let setup = Setup::new();
    let _service = setup.listen();
    let show = [
        "sh",
        "-c",
        "echo $LD_PRELOAD $TICKWIRE_SPIN $TICKWIRE_MIN_RTO $TICKWIRE_HELPER_POLICY $TICKWIRE_HELPER_CPUS $TICKWIRE_REALTIME $TICKWIRE_REQUIRE $TICKWIRE_SOCKET",
    ];
    let helper = ["--helper-policy", "fifo:50", "--helper-cpus", "0,1"];
    let options = [&["--require", "--spin", "25", "--min-rto", "20", "--realtime", "never"][..], &helper].concat();
    let output = setup.run(&[&options[..], &show].concat());
    let library = setup.path("libtickwire_preload.so");
    let expected =
        format!("{} 25 20 fifo:50 0,1 never 1 {}\n", library.display(), setup.path("service.sock").display());
    assert_eq!(stdout(&output), expected);
    assert_eq!(own_words(&output), "");
}

#[test]
fn a_static_program_runs_on_the_kernel_and_is_not_started_if_acceleration_is_required() {
    let setup = Setup::new();
    let _service = setup.listen();
    // An ELF file without a loader that cannot even be executed: `tickwire run` must not try.
    let mut header = vec![0; 64];
    header[..6].copy_from_slice(b"\x7fELF\x02\x01");
    header[54] = 56;
    let program = setup.program("static", &header);
    let output = setup.run(&["--require", &program]);
    assert_eq!(output.status.code(), Some(69));
    assert!(own_words(&output).contains("is a static program"), "{}", own_words(&output));
    let output = setup.run(&[&program]);
    assert!(![Some(0), Some(69)].contains(&output.status.code()), "it was tried: {output:?}");
    assert!(own_words(&output).contains("runs on the kernel"), "{}", own_words(&output));
}

#[test]
fn a_program_that_is_not_there_or_not_executable_has_the_shells_exit_status() {
    let setup = Setup::new();
    let output = setup.run(&["no-such-program"]);
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(own_words(&output), "tickwire: no-such-program: not found");
    let plain = setup.file("plain", b"");
    assert_eq!(setup.run(&[&plain]).status.code(), Some(126));
    let output = setup.run(&["--", ""]);
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(own_words(&output), "tickwire: the name of the program is empty");
}

#[test]
fn an_interpreter_that_is_not_there_is_named() {
    let setup = Setup::new();
    let _service = setup.listen();
    let script = setup.program("script", b"#!/no/such/interpreter -x\n");
    let output = setup.run(&[&script]);
    assert_eq!(output.status.code(), Some(126));
    assert!(
        own_words(&output).ends_with("what runs it, \"/no/such/interpreter\", is not there"),
        "{}",
        own_words(&output)
    );
}

#[test]
fn a_text_without_interpreter_is_run_by_the_shell() {
    let setup = Setup::new();
    let script = setup.program("script", b"echo from $1 $TICKWIRE_SPIN\n");
    let output = setup.run(&["--spin", "never", &script, "here"]);
    assert_eq!(stdout(&output), "from here never\n");
}

#[test]
fn a_wrong_command_line_is_explained() {
    let setup = Setup::new();
    for wrong in ["soon", "-5"] {
        let output = setup.run(&["--spin", wrong, "true"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("or microseconds"), "{wrong}");
    }
    assert_eq!(setup.run(&["--no-such-option", "true"]).status.code(), Some(2));
    assert_eq!(setup.run(&[]).status.code(), Some(2));
}

#[test]
fn starting_costs_little() {
    let setup = Setup::new();
    let _service = setup.listen();
    assert!(Path::new("/bin/true").exists());
    let best = |f: &dyn Fn()| {
        let time = || {
            let start = Instant::now();
            f();
            start.elapsed()
        };
        (0..10).map(|_| time()).min().unwrap_or_default()
    };
    let plain = best(&|| assert!(Command::new("/bin/true").status().unwrap().success()));
    let ours = best(&|| drop(setup.run(&["/bin/true"])));
    assert!(ours < plain + Duration::from_millis(20), "{plain:?} became {ours:?}");
}
