//! Multicast as on Linux: each socket receives what it would receive on the kernel, and as often,
//! whatever other sockets and programs have joined (`IP_MULTICAST_ALL`, source filters, several
//! interfaces, both families).

mod common;

use common::{TIMEOUT, python, start};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tickwire_lab::{CableOptions, LabPair, Process, Service, ServiceOptions};

/// Opens sockets, applies the given steps to each, and on a signal prints what each has received.
const HEAR: &str = r#"
import json, select, signal, socket, struct, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
def storage(address):
    if ':' in address: raw = struct.pack('=HHI', socket.AF_INET6, 0, 0) + socket.inet_pton(socket.AF_INET6, address)
    else: raw = struct.pack('=HH', socket.AF_INET, 0) + socket.inet_aton(address)
    return raw.ljust(128, b'\0')
def act(s, do, group, device='eth0', *sources):
    level = socket.IPPROTO_IPV6 if ':' in str(group) else socket.IPPROTO_IP
    if do == 'all': return s.setsockopt(socket.IPPROTO_IP, 49, group)
    if do == 'all6': return s.setsockopt(socket.IPPROTO_IPV6, 29, group)
    if do == 'bind': return s.bind((group, 7400))
    if do == 'connect': return s.connect((group, device))
    # The older options.
    if do in ('add', 'drop'): return s.setsockopt(level, 35 if do == 'add' else 36, socket.inet_aton(group) + socket.inet_aton(device))
    request = struct.pack('=I4x', socket.if_nametoindex(device)) + storage(group)
    if do in ('include', 'exclude'): request += struct.pack('=II', do == 'include', len(sources))
    number = dict(join=42, block=43, unblock=44, leave=45, source=46, unsource=47, include=48, exclude=48)[do]
    s.setsockopt(level, number, request + b''.join(map(storage, sources)))
sockets = []
for how in json.loads(sys.argv[1]):
    s = socket.socket(socket.AF_INET6 if how['family'] == 6 else socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for step in how['steps']: act(s, *step)
    sockets.append(s)
print('ready', flush=True)
signal.sigwait({signal.SIGUSR1})
heard = [[] for _ in sockets]
while ready := select.select(sockets, [], [], 0.5)[0]:
    for s in ready: heard[sockets.index(s)].append(s.recv(100).decode())
print('heard', json.dumps([sorted(one) for one in heard]), flush=True)
signal.sigwait({signal.SIGUSR1})
"#;

/// Sends to groups, by the named interfaces and from the named addresses.
const TELL: &str = r#"
import json, socket, sys
for text, source, group, device in json.loads(sys.argv[1]):
    six = ':' in group
    s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
    index = socket.if_nametoindex(device)
    if six: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
    else: s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, bytes(8) + index.to_bytes(4, sys.byteorder))
    if source: s.bind((source, 0))
    s.sendto(text.encode(), (group, 7400))
"#;

/// Hosts a and b with two cables, and a service for both on a.
struct Net {
    pair: LabPair,
    service: Service,
}

/// A test case: programs, each a list of sockets, and the datagrams that the other host (or this
/// one) sends.
struct Scene {
    name: &'static str,
    programs: Vec<Value>,
    /// Which of the programs are accelerated in the run on lanes.
    accelerated: Vec<bool>,
    told: Value,
    /// The sender is on the same host.
    looped: bool,
    /// The minimum number of datagrams copied to lanes.
    copies: u64,
}

impl Net {
    fn new() -> Self {
        let pair = LabPair::new().unwrap();
        pair.lab.cable(&pair.a, &pair.b, "eth1", &CableOptions::default()).unwrap();
        for (host, number) in [(&pair.a, 1), (&pair.b, 2)] {
            host.address("eth1", &format!("10.78.0.{number}/24")).unwrap();
            host.address("eth1", &format!("fd78::{number}/64")).unwrap();
        }
        pair.b.address("eth0", "10.77.0.9/24").unwrap();
        pair.b.address("eth0", "fd77::9/64").unwrap();
        let arguments = vec!["--interface".into(), "eth1".into()];
        let service = Service::start_with(&pair.a, &ServiceOptions { arguments, ..ServiceOptions::default() }).unwrap();
        Self { pair, service }
    }

    fn copies(&self) -> u64 {
        self.service.stat().unwrap().number("/host/counters/group_copies")
    }

    /// Runs a test case, and returns what every socket of every program has received.
    fn play(&self, scene: &Scene, lanes: bool) -> Vec<String> {
        let opened = scene.programs.iter().zip(&scene.accelerated).map(|(sockets, accelerated)| {
            let command = [python(), "-c", HEAR, &sockets.to_string()];
            let mut program = start(&self.pair.a, lanes && *accelerated, &command);
            program.wait_for("ready", TIMEOUT).unwrap_or_else(|e| panic!("{}: {e:#}", scene.name));
            program
        });
        let mut opened: Vec<Process> = opened.collect();
        let host = if scene.looped { &self.pair.a } else { &self.pair.b };
        let command = [python(), "-c", TELL, &scene.told.to_string()];
        start(host, lanes && scene.looped, &command).success(TIMEOUT).unwrap();
        let heard = opened.iter_mut().map(|program| {
            program.signal(Signal::SIGUSR1).unwrap();
            program.wait_for("]]", TIMEOUT).unwrap_or_else(|e| panic!("{}: {e:#}", scene.name));
            program.stdout().lines().find(|line| line.starts_with("heard")).unwrap().to_owned()
        });
        heard.collect()
    }

    fn compare(&self, scenes: &[Scene]) {
        for scene in scenes {
            let by_kernel = self.play(scene, false);
            let before = self.copies();
            let by_lanes = self.play(scene, true);
            let copies = self.copies() - before;
            println!("{}: {by_kernel:?}, {copies} copies", scene.name);
            assert_eq!(by_lanes, by_kernel, "{}", scene.name);
            assert!(copies >= scene.copies, "{}: {copies} copies to lanes", scene.name);
        }
    }
}

/// The groups of a family, its wildcard address and the peer's two addresses.
struct Names {
    family: u8,
    groups: [&'static str; 3],
    any: &'static str,
    peer: [&'static str; 2],
}

const FAMILIES: [Names; 2] = [
    Names {
        family: 4,
        groups: ["239.5.0.1", "239.5.0.2", "239.5.0.3"],
        any: "0.0.0.0",
        peer: ["10.77.0.2", "10.77.0.9"],
    },
    Names { family: 6, groups: ["ff05::501", "ff05::502", "ff05::503"], any: "::", peer: ["fd77::2", "fd77::9"] },
];

impl Names {
    /// A socket that is bound last.
    fn socket(&self, steps: &[Value]) -> Value {
        let mut all = steps.to_vec();
        all.push(json!(["bind", self.any]));
        json!({"family": self.family, "steps": all})
    }

    /// A socket that is bound first.
    fn bound(&self, to: &str, steps: &[Value]) -> Value {
        let mut all = vec![json!(["bind", to])];
        all.extend_from_slice(steps);
        json!({"family": self.family, "steps": all})
    }

    /// Sends to two of the groups from both addresses, and over the other cable.
    fn told(&self) -> Value {
        let [first, second] = self.peer;
        let [one, two, three] = self.groups;
        json!([
            ["1 from 2", first, one, "eth0"],
            ["1 from 9", second, one, "eth0"],
            ["2 from 2", first, two, "eth0"],
            ["3 from 2", first, three, "eth0"],
            ["1 by eth1", null, one, "eth1"],
            ["2 by eth1", null, two, "eth1"],
        ])
    }

    fn scene(&self, name: &'static str, programs: Vec<Value>, copies: u64) -> Scene {
        let accelerated = vec![true; programs.len()];
        Scene { name, programs, accelerated, told: self.told(), looped: false, copies }
    }
}

fn play(make: impl Fn(&Names) -> Vec<Scene>) {
    let net = Net::new();
    for names in &FAMILIES {
        net.compare(&make(names));
    }
}

#[test]
fn a_socket_that_joined_nothing_hears_what_another_has_joined_once() {
    play(|names| {
        let [one, two, _] = names.groups;
        let (none, joined) = (names.bound(names.any, &[]), names.bound(names.any, &[json!(["join", one])]));
        let off = if names.family == 4 { json!(["all", 0]) } else { json!(["all6", 0]) };
        let deaf = names.bound(names.any, std::slice::from_ref(&off));
        let other = names.bound(names.any, &[off, json!(["join", two, "eth1"])]);
        vec![
            names.scene("one joined", vec![json!([none, joined])], 2),
            names.scene("one is deaf", vec![json!([deaf, joined, other])], 3),
        ]
    });
}

#[test]
fn each_socket_hears_its_own_group_and_those_of_others_once() {
    play(|names| {
        let [one, two, three] = names.groups;
        let of = |group| names.bound(names.any, &[json!(["join", group])]);
        let at = |group| names.bound(group, &[json!(["join", group])]);
        vec![
            names.scene("a socket a group", vec![json!([of(one), of(two)])], 3),
            names.scene("bound to groups", vec![json!([at(one), at(two), at(three)])], 4),
            names.scene(
                "one of both",
                vec![json!([names.bound(names.any, &[json!(["join", one]), json!(["join", two])]), of(three)])],
                4,
            ),
        ]
    });
}

#[test]
fn source_filters_are_those_of_the_kernel() {
    play(|names| {
        let [one, two, _] = names.groups;
        let [first, second] = names.peer;
        let socket = |steps: &[Value]| names.bound(names.any, steps);
        let sockets = json!([
            socket(&[json!(["source", one, "eth0", first])]),
            socket(&[json!(["source", one, "eth0", second]), json!(["source", two, "eth0", second])]),
            socket(&[json!(["join", one]), json!(["block", one, "eth0", first])]),
            socket(&[
                json!(["join", one]),
                json!(["block", one, "eth0", first]),
                json!(["unblock", one, "eth0", first])
            ]),
            socket(&[json!(["join", one]), json!(["exclude", one, "eth0", second])]),
            socket(&[json!(["join", one]), json!(["include", one, "eth0", first, second])]),
            socket(&[
                json!(["source", one, "eth0", first]),
                json!(["source", one, "eth0", second]),
                json!(["unsource", one, "eth0", first])
            ]),
        ]);
        let alone = socket(&[json!(["source", one, "eth0", second])]);
        vec![names.scene("seven filters", vec![sockets], 2), names.scene("one source", vec![json!([alone])], 1)]
    });
}

#[test]
fn a_group_is_heard_on_the_interfaces_where_it_was_joined() {
    play(|names| {
        let [one, two, _] = names.groups;
        let on = |devices: &[&str]| {
            let steps: Vec<Value> = devices.iter().map(|device| json!(["join", one, device])).collect();
            names.bound(names.any, &steps)
        };
        let moved = names.bound(
            names.any,
            &[json!(["join", two, "eth0"]), json!(["join", two, "eth1"]), json!(["leave", two, "eth0"])],
        );
        vec![
            names.scene("each an interface", vec![json!([on(&["eth0"]), on(&["eth1"]), on(&["eth0", "eth1"])])], 3),
            names.scene("one left", vec![json!([moved])], 1),
            names.scene("one of two", vec![json!([on(&["eth1"])])], 1),
        ]
    });
}

#[test]
fn programs_that_share_a_port_hear_once_each() {
    play(|names| {
        let [one, two, three] = names.groups;
        let of = |group| names.bound(names.any, &[json!(["join", group])]);
        let none = names.bound(names.any, &[]);
        let programs = vec![json!([of(one)]), json!([of(one), of(two)]), json!([none]), json!([of(three), none])];
        let mixed = Scene {
            accelerated: vec![true, false, true, false],
            ..names.scene("two on the kernel", programs.clone(), 2)
        };
        vec![names.scene("four programs", programs, 6), mixed]
    });
}

#[test]
fn memberships_before_the_port_and_after_it_and_no_longer() {
    play(|names| {
        let [one, two, _] = names.groups;
        let early = names.socket(&[json!(["join", one])]);
        let changed = names.bound(names.any, &[json!(["join", one]), json!(["leave", one]), json!(["join", two])]);
        let left = names.bound(names.any, &[json!(["join", one]), json!(["leave", one])]);
        let again = names.socket(&[json!(["join", one]), json!(["leave", one]), json!(["join", one])]);
        let mut scenes = vec![
            names.scene("early and late", vec![json!([early, changed])], 3),
            names.scene("left", vec![json!([left, changed])], 1),
            names.scene("again", vec![json!([again])], 2),
        ];
        if names.family == 4 {
            let old = names.bound(names.any, &[json!(["add", one, "10.78.0.1"]), json!(["add", two, "10.77.0.1"])]);
            scenes.push(names.scene("by address", vec![json!([old])], 2));
        } else {
            let mapped = json!({"family": 6, "steps": [["bind", "::"], ["join", "239.5.0.1", "eth0"]]});
            let all = json!({"family": 6, "steps": [["bind", "::"], ["all", 1]]});
            let told = json!([["1", "10.77.0.2", "239.5.0.1", "eth0"], ["2", "10.77.0.2", "239.5.0.2", "eth0"]]);
            scenes
                .push(Scene { told, ..names.scene("IPv4's groups of an IPv6 socket", vec![json!([mapped, all])], 1) });
        }
        scenes
    });
}

#[test]
fn what_this_host_sends_to_a_group_its_members_hear_once() {
    play(|names| {
        let [one, two, _] = names.groups;
        let of = |group| names.bound(names.any, &[json!(["join", group])]);
        let told = json!([["1", null, one, "eth0"], ["2", null, two, "eth0"], ["1 there", null, one, "eth1"]]);
        let programs = vec![json!([of(one), of(two)]), json!([of(one)])];
        let scene = Scene { told, looped: true, accelerated: vec![true, false], ..names.scene("looped", programs, 0) };
        // The other scenes show that such sockets are on lanes; here they receive from the kernel.
        vec![scene]
    });
}
