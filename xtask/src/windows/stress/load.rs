//! Streams and connections, with the program as server and then as client.

use super::held::Held;
use super::{Options, PORT, Step, TIMEOUT, peer, start, start_server};
use crate::windows::lab::Hosts;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tickwire_lab::Process;

/// Within this a client does all of its work.
const LONGEST: Duration = Duration::from_secs(3600);

/// What is done with a server.
type Work<'a> = Box<dyn Fn(&str) -> Result<()> + Send + Sync + 'a>;

pub(super) fn run(hosts: &Hosts, options: &Options) -> Result<Vec<Step>> {
    let service = hosts.service()?;
    let mut steps = as_server(hosts, &service, options).context("the program as a server")?;
    steps.push(as_client(hosts, &service, options).context("the program as a client")?);
    Ok(steps)
}

fn as_server(hosts: &Hosts, service: &Process, options: &Options) -> Result<Vec<Step>> {
    let Options { stream_mib, connections, concurrent, .. } = *options;
    let length = stream_mib << 20;
    let mut server = start_server(hosts, PORT)?;
    let address = hosts.pair.a_v4();
    let do_it = |work: &Work<'_>| hosts.pair.b.within(|| work(&address))?;
    // What is there once.
    do_it(&(Box::new(|a: &str| peer::at_once(a, PORT, 4)) as Work<'_>))?;
    let before = Held::now(hosts, service)?;
    let works: [(String, Work<'_>); 4] = [
        (format!("{stream_mib} MiB to a server"), Box::new(move |a| peer::upload(a, PORT, length))),
        (format!("{stream_mib} MiB from a server"), Box::new(move |a| peer::download(a, PORT, length))),
        (
            format!("{connections} connections to a server"),
            Box::new(move |a| (0..connections).try_for_each(|n| peer::message(a, PORT, n as u8))),
        ),
        (
            format!("{concurrent} connections at once to a server"),
            Box::new(move |a| peer::at_once(a, PORT, concurrent as usize)),
        ),
    ];
    let mut steps = Vec::new();
    for (name, work) in &works {
        let begin = Instant::now();
        do_it(work).with_context(|| name.clone())?;
        let seconds = begin.elapsed().as_secs_f64();
        let held = before.settles(hosts, service).with_context(|| name.clone())?;
        steps.push(Step { name: name.clone(), seconds, figures: held.json() });
    }
    hosts.pair.b.within(|| peer::connect(&address, PORT, b'q', 0).map(drop))??;
    server.success(TIMEOUT)?;
    Ok(steps)
}

/// Its lane's end, too, leaves nothing behind.
fn as_client(hosts: &Hosts, service: &Process, options: &Options) -> Result<Step> {
    let address = hosts.pair.b_v4();
    hosts.pair.b.within(|| peer::serve(&address, PORT))??;
    let client = |amounts: &[String; 3]| {
        let words = ["client", &address, &PORT.to_string(), &amounts[0], &amounts[1], &amounts[2]];
        start(hosts, &words)?.success(LONGEST)
    };
    // What is there once.
    client(&["1", "1", "1"].map(str::to_owned))?;
    hosts.stat_until("the lanes have ended", |stat| stat["lanes"] == json!([]))?;
    let before = Held::now(hosts, service)?;
    let Options { stream_mib, connections, concurrent, .. } = options;
    let amounts = [*stream_mib, u64::from(*connections), u64::from(*concurrent)].map(|amount| amount.to_string());
    let begin = Instant::now();
    let told = client(&amounts)?;
    let seconds = begin.elapsed().as_secs_f64();
    let handles = handles(&told)?;
    let first = handles.first().context("the client says nothing")?.1;
    for (step, count) in &handles {
        ensure!(*count <= first, "the client's handles after {step}: {count} after {first}: {told}");
    }
    let held = before.settles(hosts, service)?;
    let name = format!("as a client: both streams, {connections} connections, {concurrent} at once");
    let own: Vec<Value> = handles.iter().map(|(step, count)| json!({ "after": step, "handles": count })).collect();
    Ok(Step { name, seconds, figures: json!({ "client": own, "left": held.json() }) })
}

/// What a client has said: how many handles it had after each step.
fn handles(told: &str) -> Result<Vec<(String, u64)>> {
    let lines = told.lines().filter_map(|line| line.trim_end().split_once(" handles="));
    lines.map(|(step, count)| Ok((step.to_owned(), count.parse().context("no number")?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_handles_are_read() {
        let told = handles("begin handles=20\r\nat once handles=21\r\n").unwrap();
        assert_eq!(told, [("begin".to_owned(), 20), ("at once".to_owned(), 21)]);
        assert!(handles("begin handles=x").is_err());
    }
}
