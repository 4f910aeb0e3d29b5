//! The testbed as a user runs it: in its own lab, and over `ssh`. The tests check which messages
//! arrive, not how fast.

mod common;

use common::{TIMEOUT, built};
use serde_json::Value;
use std::process::{Command, Output};
use std::time::Duration;

fn testbed(arguments: &[&str]) -> Command {
    let mut command = Command::new(built("tickwire"));
    command.args(["testbed", "run", "--json"]).args(arguments);
    command
}

/// The printed report, and the exit status.
fn report(output: &Output) -> (Value, Option<i32>) {
    let printed = String::from_utf8_lossy(&output.stdout);
    let report = serde_json::from_str(&printed)
        .unwrap_or_else(|error| panic!("{error}: {printed}{}", String::from_utf8_lossy(&output.stderr)));
    (report, output.status.code())
}

/// Every message sent arrived once, intact and in order, on this stack.
fn all_came(report: &Value, carrier: &str) {
    for stream in report["streams"].as_array().unwrap() {
        let figures = &stream[carrier];
        let count = |name: &str| figures[name].as_u64().unwrap();
        assert!(count("received") > 0, "{stream}");
        assert_eq!(count("received"), count("sent"), "{stream}");
        for fault in ["lost", "duplicates", "reordered", "corrupt"] {
            assert_eq!(count(fault), 0, "{fault}: {stream}");
        }
    }
}

#[test]
fn the_pattern_of_2015_comes_whole_on_both_stacks_and_tickwires_run_took_the_lane() {
    let output = testbed(&["--duration", "2", "--warm-up", "1"]).output().unwrap();
    let (report, status) = report(&output);
    assert_eq!(report["streams"].as_array().unwrap().len(), 48);
    all_came(&report, "kernel");
    all_came(&report, "tickwire");
    let runs = report["runs"].as_array().unwrap();
    let ours = runs.iter().find(|run| run["carrier"] == "tickwire").unwrap();
    // Each TCP message is at least one diverted packet, even if the interface merges received
    // packets (GRO).
    let streams = report["streams"].as_array().unwrap().iter();
    let by_tcp = streams.filter(|stream| stream["transport"].as_str().unwrap().ends_with("tcp"));
    let messages: u64 = by_tcp.map(|stream| stream["tickwire"]["received"].as_u64().unwrap()).sum();
    assert!(messages > 500 && ours["diverted"].as_u64().unwrap() >= messages, "{messages}: {ours}");
    assert_eq!(ours["faults"], serde_json::json!([]));
    // The exit status reflects the verdict, whatever that is.
    assert_eq!(status, Some(if report["verdict"]["met"] == true { 0 } else { 1 }), "{}", report["verdict"]);
}

#[test]
fn producers_and_consumer_on_tickwire_speak_with_each_other_and_with_the_kernel() {
    let directory = tempfile_directory();
    let pattern = directory.join("small.toml");
    let stream = |id: u32, producer: u16, transport: &str, size: u32| {
        format!(
            "[[streams]]\nid = {id}\nproducer = {producer}\ntransport = \"{transport}\"\nsize = {size}\nperiod_ms = 20\ndeadline_ms = 1000\n"
        )
    };
    let streams = [
        stream(1, 1, "tcp", 50_000),
        stream(2, 1, "udp", 1000),
        stream(3, 2, "udp-multicast", 3000),
        stream(4, 2, "low-latency-tcp", 10),
    ];
    std::fs::write(&pattern, streams.concat()).unwrap();
    for ends in ["producers", "both"] {
        let arguments = ["--pattern", pattern.to_str().unwrap(), "--on", "tickwire", "--accelerate", ends];
        let output = testbed(&[&arguments[..], &["--duration", "1", "--warm-up", "0.5"]].concat()).output().unwrap();
        let (report, _) = report(&output);
        all_came(&report, "tickwire");
        assert_eq!(report["runs"][0]["faults"], serde_json::json!([]), "{ends}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn the_clock_is_measured_after_the_messages_and_stands_in_the_same_report() {
    let page = std::env::temp_dir().join(format!("tickwire-testbed-{}.html", std::process::id()));
    let arguments = ["--on", "kernel", "--duration", "1", "--warm-up", "0.5", "--time=14"];
    let output = testbed(&arguments).arg("--html").arg(&page).output().unwrap();
    let (report, status) = report(&output);
    let said = String::from_utf8_lossy(&output.stderr);
    for step in
        ["of sending and 14 s for the clock", "1/3 kernel, 1 s", "2/3 clock, sync every 1 s", "3/3 clock, no sync"]
    {
        assert!(said.contains(step), "{step}: {said}");
    }
    assert_eq!(report["verdict"]["clock"], true, "{}", report["verdict"]);
    assert_eq!(status, Some(if report["verdict"]["met"] == true { 0 } else { 1 }), "{}", report["verdict"]);
    let rows = report["time"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row["measured_s"] == 2.0 && row["differences"]["outside"] == 0), "{rows:?}");
    let html = std::fs::read_to_string(&page).unwrap();
    std::fs::remove_file(page).unwrap();
    let compared = format!("<td>{}</td>", rows[0]["differences"]["iterations"]);
    assert!(html.contains(&compared) && html.contains("All streams"), "{compared}");
}

fn tempfile_directory() -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("tickwire-testbed-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Several machines over ssh: sshd on each host, keys and configuration as a user has them, and a
/// clock on each host.
mod site {
    use super::*;
    use std::fs;
    use std::path::Path;
    use tickwire_lab::{
        CableOptions, Lab, LabHost, Process, Service, ServiceOptions, Switch, run, tools, wait_until_listening,
    };

    const SSH: u16 = 22;
    const NTP: u16 = 123;

    struct Site {
        controller: LabHost,
        daq: LabHost,
        nodes: String,
        // In the order in which they are stopped.
        sshd: Vec<Process>,
        _services: Vec<Service>,
        _clock: Process,
        lab: Lab,
    }

    fn path(host: &LabHost, name: &str) -> String {
        host.directory().join(name).to_str().unwrap().to_owned()
    }

    fn plugged(lab: &Lab, switch: &Switch, name: &str, last: u8) -> LabHost {
        let host = lab.host(name).unwrap();
        lab.plug(&host, switch, "eth0", &CableOptions::default()).unwrap();
        host.address("eth0", &format!("10.79.0.{last}/24")).unwrap();
        host.run(&["ip", "route", "add", "224.0.0.0/4", "dev", "eth0"]).unwrap();
        host
    }

    /// A daemon of Debian's openssh-server, with this host's own key and settings.
    fn sshd(host: &LabHost, address: &str) -> Process {
        let (key, config) = (path(host, "host_key"), path(host, "sshd_config"));
        run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &key]).unwrap();
        let authorized = host.directory().join("../authorized_keys");
        let settings = format!(
            "ListenAddress {address}:{SSH}\nHostKey {key}\nPidFile none\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
             SetEnv TICKWIRE_SOCKET={} TICKWIRE_CLOCK={}\n",
            authorized.display(),
            host.socket().display(),
            path(host, "clock"),
        );
        fs::write(&config, settings).unwrap();
        // It needs its privilege separation directory, which Debian's unit creates.
        fs::create_dir_all("/run/sshd").unwrap();
        let mut process = host.spawn(&["/usr/sbin/sshd", "-D", "-e", "-f", &config]).unwrap();
        wait_until_listening(host, "tcp", SSH, &mut process).unwrap();
        process
    }

    impl Site {
        fn new() -> Self {
            let lab = Lab::new().unwrap();
            let switch = lab.switch("switch").unwrap();
            let controller = plugged(&lab, &switch, "controller", 9);
            let clock = truth(&controller);
            let client = path(&controller, "id");
            run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &client]).unwrap();
            fs::copy(format!("{client}.pub"), lab.directory().join("authorized_keys")).unwrap();
            let config = path(&controller, "ssh_config");
            let settings = format!(
                "Host daq\n HostName 10.79.0.1\nHost sensors\n HostName 10.79.0.2\nHost *\n User root\n IdentityFile {client}\n IdentitiesOnly yes\n\
                 StrictHostKeyChecking accept-new\n UserKnownHostsFile {}\n",
                path(&controller, "known_hosts")
            );
            fs::write(&config, settings).unwrap();
            let hosts = [("daq", 1), ("sensors", 2)].map(|(name, last)| plugged(&lab, &switch, name, last));
            let mut services = Vec::new();
            let mut daemons = Vec::new();
            for (host, address) in hosts.iter().zip(["10.79.0.1", "10.79.0.2"]) {
                let config =
                    format!("[clock]\npage = {:?}\n[[clock.servers]]\nhost = \"10.79.0.9\"\n", path(host, "clock"));
                services
                    .push(Service::start_with(host, &ServiceOptions { config, ..ServiceOptions::default() }).unwrap());
                daemons.push(sshd(host, address));
            }
            let nodes = path(&controller, "nodes.toml");
            let tickwire = tools::tickwire().unwrap();
            let file = format!(
                "ssh = [\"ssh\", \"-F\", {config:?}]\ntickwire = {tickwire:?}\n[consumer]\nhost = \"daq\"\naddress = \"10.79.0.1\"\n\
                 [[producers]]\nhost = \"sensors\"\naddress = \"10.79.0.2\"\nnumbers = [1, 2]\n"
            );
            fs::write(&nodes, file).unwrap();
            let [daq, _] = hosts;
            Self { controller, daq, nodes, sshd: daemons, _services: services, _clock: clock, lab }
        }

        fn pattern(&self) -> String {
            let pattern = path(&self.controller, "pattern.csv");
            let header = "producer,tcp0_kb,tcp0_ms,tcp0_max_ms,tcp1_kb,tcp1_ms,tcp1_max_ms,udp_kb,udp_ms,udp_max_ms,lowlat_kb,lowlat_ms,lowlat_max_ms\n";
            let row = |producer| format!("{producer},1,20,1000,20,20,1000,1,20,1000,0.01,20,1000\n");
            fs::write(&pattern, format!("{header}{}{}", row(1), row(2))).unwrap();
            pattern
        }

        /// `tickwire testbed run` on the controller.
        fn testbed(&self, more: &[&str]) -> Command {
            let mut command = self.controller.command(&built("tickwire"));
            command.args(["testbed", "run", "--json", "--nodes", &self.nodes, "--pattern", &self.pattern()]).args(more);
            command
        }

        fn wait_for_clocks(&self) {
            for name in ["daq", "sensors"] {
                let page = self.lab.directory().join(name).join("clock");
                run(&[
                    &built("tickwire"),
                    "clock",
                    "wait",
                    "--page",
                    page.to_str().unwrap(),
                    "--bound",
                    "1000",
                    "--timeout",
                    "20",
                ])
                .unwrap();
            }
        }
    }

    /// A time server on the controller.
    fn truth(host: &LabHost) -> Process {
        let (recipe, file) = (path(host, "recipe.toml"), path(host, "truth.toml"));
        fs::write(&recipe, "").unwrap();
        host.run(&[&built("truth"), "begin", &recipe, &file]).unwrap();
        let mut server = host.spawn(&[&built("truth"), "serve", &file, &format!("10.79.0.9:{NTP}")]).unwrap();
        wait_until_listening(host, "udp", NTP, &mut server).unwrap();
        server
    }

    #[test]
    fn machines_are_measured_over_ssh_and_what_happens_to_them_is_told() {
        let mut site = Site::new();
        site.wait_for_clocks();
        let (both, status) = report(&site.testbed(&["--duration", "2", "--warm-up", "0.5"]).output().unwrap());
        all_came(&both, "kernel");
        all_came(&both, "tickwire");
        assert_eq!(status, Some(0), "{}", both["verdict"]);

        // The producers' node is killed in the middle.
        let mut command = site.testbed(&["--duration", "20", "--on", "tickwire"]);
        let under_way = std::thread::scope(|scope| {
            let run = scope.spawn(|| command.output().unwrap());
            let pids = || nodes(&site.lab.directory().join("sensors"), &site.lab);
            tools::until("the producer sends", TIMEOUT, || !pids().is_empty()).unwrap();
            std::thread::sleep(Duration::from_secs(5));
            for pid in pids() {
                run_kill(pid);
            }
            run.join().unwrap()
        });
        let (broken, status) = report(&under_way);
        assert_eq!(status, Some(1));
        let faults = broken["runs"][0]["faults"].to_string();
        assert!(faults.contains("sensors"), "{faults}");

        // An unreachable sshd is reported before anything is sent.
        drop(site.sshd.pop());
        let output = site.testbed(&["--duration", "2"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("sensors: ") && said.contains("refused"), "{said}");
        assert!(
            nodes(&site.lab.directory().join("daq"), &site.lab).is_empty(),
            "a node was left on {}",
            site.daq.name()
        );
    }

    fn run_kill(pid: i32) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
    }

    /// The nodes that run on a host.
    fn nodes(directory: &Path, lab: &Lab) -> Vec<i32> {
        let namespace = format!("{}-{}", lab.name(), directory.file_name().unwrap().to_str().unwrap());
        let pids = run(&["ip", "netns", "pids", &namespace]).unwrap_or_default();
        let is_node = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|&b| b == 0).collect();
            words.windows(2).any(|pair| pair == [&b"testbed"[..], b"node"]) && words[0].ends_with(b"tickwire")
        };
        pids.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(is_node).collect()
    }
}
