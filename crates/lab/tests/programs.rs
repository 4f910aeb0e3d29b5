//! Third-party programs, accelerated; data of ours that they carry is checked byte by byte.

mod common;

use common::{Both, TIMEOUT, either_side, pattern, python, start, wait_until_listening};
use std::fmt::Write;
use std::path::Path;
use tickwire_lab::{LabHost, Process, tools};

fn nginx_configuration(directory: &Path, address: &str, port: u16) -> String {
    let mut text = String::from("daemon off; user root; worker_processes 2;\nevents { worker_connections 256; }\n");
    let shown = directory.display();
    let _ = writeln!(text, "pid {shown}/nginx.pid;\nhttp {{ access_log off; sendfile on;");
    for (number, name) in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].iter().enumerate() {
        let _ = writeln!(text, "{name}_temp_path {shown}/t{number};");
    }
    let _ = writeln!(text, "server {{ listen {address}:{port}; root {shown};");
    text + "} }\n"
}

#[test]
fn nginx_serves_files_to_curl_without_a_wrong_byte() {
    let both = Both::new();
    let directory = both.b().directory();
    let content = pattern(8 << 20);
    std::fs::write(directory.join("file"), &content).unwrap();
    let config = directory.join("nginx.conf");
    let address = both.pair.b_v4();
    // A kernel that merges segments may acknowledge only once per 64 KiB.
    either_side(&both, 60, |server, client, port| {
        std::fs::write(&config, nginx_configuration(&directory, &address, port)).unwrap();
        let nginx = ["nginx", "-p", directory.to_str().unwrap(), "-c", config.to_str().unwrap(), "-e", "stderr"];
        let mut nginx = start(both.b(), server, &nginx);
        wait_until_listening(both.b(), &mut nginx, "tcp", port);
        let copy = both.a().directory().join("copy");
        let url = format!("http://{address}:{port}/file");
        let curl = ["curl", "-sSf", "--max-time", "30", "-o", copy.to_str().unwrap(), &url];
        start(both.a(), client, &curl).success(TIMEOUT).unwrap();
        assert!(std::fs::read(&copy).unwrap() == content, "the file differs");
        std::fs::remove_file(copy).unwrap();
        nginx.stop(TIMEOUT).unwrap();
    });
}

/// With `reuseport` nginx opens a listener per worker, and a hash of a connection's addresses
/// selects one: both serve, at both ends of the lab.
#[test]
fn either_worker_of_nginx_serves_its_part_of_many_connections() {
    let both = Both::new();
    let directory = both.b().directory();
    std::fs::write(directory.join("file"), pattern(100)).unwrap();
    let address = both.pair.b_v4();
    // Each connection selects independently: all 64 at one worker have a probability of one in
    // 2^63.
    let ask = "import http.client, sys
connections = [http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=20) for _ in range(64)]
workers = set()
for connection in connections:
    connection.request('GET', '/file')
    answer = connection.getresponse()
    assert answer.status == 200 and len(answer.read()) == 100, answer.status
    workers.add(answer.headers['X-Worker'])
print(len(workers))";
    either_side(&both, 64 * 5, |server, client, port| {
        let config = directory.join("nginx.conf");
        let text = nginx_configuration(&directory, &address, port);
        let listen = format!("listen {address}:{port}");
        std::fs::write(&config, text.replace(&listen, &format!("{listen} reuseport; add_header X-Worker $pid")))
            .unwrap();
        let nginx = ["nginx", "-p", directory.to_str().unwrap(), "-c", config.to_str().unwrap(), "-e", "stderr"];
        let mut nginx = start(both.b(), server, &nginx);
        wait_until_listening(both.b(), &mut nginx, "tcp", port);
        let port = port.to_string();
        let mut client = start(both.a(), client, &["python3", "-c", ask, &address, &port]);
        assert_eq!(client.success(TIMEOUT).unwrap().trim(), "2", "workers that served");
        nginx.stop(TIMEOUT).unwrap();
    });
}

/// Many files over one persistent connection, some of them empty, and the rest of one that was half
/// present.
#[test]
fn wget_fetches_many_files_from_nginx() {
    let both = Both::new();
    let directory = both.b().directory();
    let content = pattern(90_000);
    let length = |number: usize| [0, 1, 1400, 90_000][number % 4];
    (0..40).for_each(|number| std::fs::write(directory.join(number.to_string()), &content[..length(number)]).unwrap());
    let address = both.pair.b_v4();
    either_side(&both, 40, |server, client, port| {
        let config = directory.join("nginx.conf");
        std::fs::write(&config, nginx_configuration(&directory, &address, port)).unwrap();
        let nginx = ["nginx", "-p", directory.to_str().unwrap(), "-c", config.to_str().unwrap(), "-e", "stderr"];
        let mut nginx = start(both.b(), server, &nginx);
        wait_until_listening(both.b(), &mut nginx, "tcp", port);
        let copies = both.a().directory().join("copies");
        std::fs::create_dir(&copies).unwrap();
        let whole = copies.join("3");
        std::fs::write(&whole, &content[..40_000]).unwrap();
        let urls: Vec<_> = (0..40).map(|number| format!("http://{address}:{port}/{number}")).collect();
        let wget = ["wget", "-nv", "--continue", "--tries=1", "--timeout=20", "-P", copies.to_str().unwrap()];
        let wget: Vec<_> = wget.into_iter().chain(urls.iter().map(String::as_str)).collect();
        start(both.a(), client, &wget).success(TIMEOUT).unwrap();
        for number in 0..40 {
            let copy = std::fs::read(copies.join(number.to_string())).unwrap();
            assert!(copy == content[..length(number)], "file {number} differs");
        }
        std::fs::remove_dir_all(copies).unwrap();
        nginx.stop(TIMEOUT).unwrap();
    });
}

/// redis, without persistence.
fn redis(host: &LabHost, accelerated: bool, address: &str, port: u16) -> Process {
    let number = port.to_string();
    let command = ["redis-server", "--port", &number, "--bind", address, "--save", "", "--appendonly", "no"];
    let mut server = start(host, accelerated, &[&command[..], &["--protected-mode", "no"]].concat());
    wait_until_listening(host, &mut server, "tcp", port);
    server
}

#[test]
fn redis_gives_back_what_it_was_given() {
    let both = Both::new();
    let address = both.pair.b_v4();
    let value: String = pattern(60_000).iter().map(|octet| char::from(b'0' + octet % 64)).collect();
    either_side(&both, 20, |server, client, port| {
        let mut redis = redis(both.b(), server, &address, port);
        let number = port.to_string();
        let ask = |words: &[&str]| {
            let command = [&["redis-cli", "-h", &address, "-p", &number][..], words].concat();
            start(both.a(), client, &command).success(TIMEOUT).unwrap()
        };
        assert_eq!(ask(&["set", "key", &value]), "OK\n");
        assert!(ask(&["get", "key"]).trim_end() == value, "the value differs");
        assert_eq!(ask(&["get", "another"]), "\n");
        redis.stop(TIMEOUT).unwrap();
    });
}

#[test]
fn redis_answers_its_benchmark() {
    let both = Both::new();
    let address = both.pair.b_v4();
    let tests = ["-t", "set,get,lrange_100", "-c", "20", "-n", "2000", "-d", "1000", "-q"];
    // Three times two thousand requests, each with a response.
    either_side(&both, 6000, |server, client, port| {
        let mut redis = redis(both.b(), server, &address, port);
        let port = port.to_string();
        let benchmark = [&["redis-benchmark", "-h", &address, "-p", &port][..], &tests].concat();
        let printed = start(both.a(), client, &benchmark).success(TIMEOUT).unwrap();
        assert!(printed.contains("GET") && !printed.contains("rror"), "{printed}");
        redis.stop(TIMEOUT).unwrap();
    });
}

/// An iperf3 server on host b.
fn iperf3(host: &LabHost, accelerated: bool, port: u16) -> Process {
    let mut server = start(host, accelerated, &["iperf3", "-s", "-p", &port.to_string()]);
    wait_until_listening(host, &mut server, "tcp", port);
    server
}

/// The report of an iperf3 client's run of one second; with `-R` the server sends.
fn report(host: &LabHost, accelerated: bool, address: &str, port: u16, options: &[&str]) -> serde_json::Value {
    let port = port.to_string();
    let client = [&["iperf3", "-c", address, "-p", &port, "-t", "1", "-J"], options].concat();
    let mut report = serde_json::Value::Null;
    // The server may still be finishing the last run, or have closed its listener to open another,
    // as it does after each run.
    let again = ["server is busy", "Connection refused"];
    tools::until("the server has time", TIMEOUT, || {
        report = serde_json::from_str(&start(host, accelerated, &client).success(TIMEOUT).unwrap()).unwrap();
        !report["error"].as_str().is_some_and(|error| again.iter().any(|reason| error.contains(reason)))
    })
    .unwrap();
    report
}

#[test]
fn iperf3_sends_and_receives_over_several_streams() {
    let both = Both::new();
    let address = both.pair.b_v4();
    either_side(&both, 200, |server, client, port| {
        let _server = iperf3(both.b(), server, port);
        for options in [&["-P", "3"][..], &["-P", "3", "-R"]] {
            let report = report(both.a(), client, &address, port, options);
            let rate = report.pointer("/end/sum_received/bits_per_second").and_then(serde_json::Value::as_f64);
            assert!(rate.is_some_and(|rate| rate > 1e6), "{report}");
        }
    });
}

#[test]
fn iperf3_sends_udp_without_loss_at_a_modest_rate() {
    let both = Both::new();
    let address = both.pair.b_v4();
    // 446 datagrams a second: the receiver counts most of them, at whichever end it is.
    either_side(&both, 300, |server, client, port| {
        let _server = iperf3(both.b(), server, port);
        for options in [&["-u", "-b", "5M", "-l", "1400"][..], &["-u", "-b", "5M", "-l", "1400", "-R"]] {
            let report = report(both.a(), client, &address, port, options);
            let lost = report.pointer("/end/sum/lost_percent").and_then(serde_json::Value::as_f64);
            assert!(lost.is_some_and(|lost| lost < 5.0), "{report}");
        }
    });
}

#[test]
fn sockperf_plays_ping_pong_over_both_protocols() {
    let both = Both::new();
    let address = both.pair.b_v4();
    for (protocol, more) in [("udp", &[][..]), ("tcp", &["--tcp"])] {
        either_side(&both, 50, |server, client, port| {
            let number = port.to_string();
            let serve = [&["sockperf", "server", "-i", &address, "-p", &number][..], more].concat();
            let mut server = start(both.b(), server, &serve);
            wait_until_listening(both.b(), &mut server, protocol, port);
            let ask = ["sockperf", "ping-pong", "-i", &address, "-p", &number, "-t", "1", "--data-integrity"];
            let printed = start(both.a(), client, &[&ask[..], more].concat()).success(TIMEOUT).unwrap();
            assert!(printed.contains("percentile 99.900"), "{printed}");
        });
    }
}

#[test]
fn pythons_web_server_serves_concurrent_clients() {
    let both = Both::new();
    let address = both.pair.b_v4();
    let directory = both.b().directory();
    let content = pattern(300_000);
    std::fs::write(directory.join("file"), &content).unwrap();
    let copies = both.a().directory();
    either_side(&both, 30, |server, client, port| {
        let number = port.to_string();
        let serve = ["-m", "http.server", &number, "--bind", &address, "--directory", directory.to_str().unwrap()];
        let mut server = start(both.b(), server, &[&[python()], &serve[..]].concat());
        wait_until_listening(both.b(), &mut server, "tcp", port);
        let url = format!("http://{address}:{port}/file");
        let one = format!("curl -sSf --max-time 20 -o {}/$i {url} || echo failed", copies.display());
        let script = format!("for i in 1 2 3 4 5 6; do ({one}) & done; wait");
        let ended = start(both.a(), client, &["sh", "-c", &script]).wait(TIMEOUT).unwrap();
        assert!(ended.stdout.is_empty(), "{ended:?}\nserver: {}", server.stderr());
        for copy in 1..=6 {
            let copy = copies.join(copy.to_string());
            assert!(std::fs::read(&copy).unwrap() == content, "{} differs", copy.display());
            std::fs::remove_file(copy).unwrap();
        }
    });
}
