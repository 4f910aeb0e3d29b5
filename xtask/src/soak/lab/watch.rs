//! A round from its beginning to its end, and the checks during and after it.

use super::Sums;
use super::holdings::{Holdings, held, memory};
use super::plan::{Plan, Side};
use super::sums::{Arrived, of_lanes};
use super::topology::{Round, Topology};
use anyhow::Result;
use std::time::{Duration, Instant};

/// The time for resources and counters to settle.
const SETTLES: Duration = Duration::from_secs(10);
/// The baseline must be unchanged for this long.
const UNCHANGED: Duration = Duration::from_secs(1);
/// The allowed growth of a service's memory after its first round, in KiB: its state is bounded.
const GROWTH: u64 = 4096;

/// The hosts, and the baseline of their resources.
pub(super) struct Watch {
    pub(super) bed: Topology,
    before: [Holdings; 2],
    /// The memory of each service after the first round it saw, in KiB, and its process.
    memory: [Option<(u32, u64)>; 2],
}

impl Watch {
    /// Takes the baseline after a first use of the hosts.
    pub(super) fn new(mut bed: Topology) -> Result<Self> {
        let defects = bed.prove(0)?;
        anyhow::ensure!(defects.is_empty(), "before anything happened: {}", defects.join("\n"));
        let mut look = |side| {
            let process = bed.service(side)?.process().id();
            let mut holdings = Holdings::look(bed.host(side), process)?;
            let mut since = Instant::now();
            // Wait until the first lanes are gone and nothing changes. A removed device disappears
            // from the list before its removal returns in the removing thread, which holds a
            // socket.
            let left = settled(|| {
                let before = std::mem::replace(&mut holdings, Holdings::look(bed.host(side), process)?);
                if !holdings.is_nobodys() || holdings != before {
                    since = Instant::now();
                }
                Ok((since.elapsed() < UNCHANGED).then_some(()))
            })?;
            anyhow::ensure!(left.is_none(), "the first programs have gone, and host {side} holds {holdings:?}");
            Ok(holdings)
        };
        let before = [look(Side::A)?, look(Side::B)?];
        Ok(Self { bed, before, memory: [None; 2] })
    }

    /// Runs a round; returns the defects.
    pub(super) fn round(&mut self, seed: u64, events: u32, sums: &mut Sums) -> Result<Vec<String>> {
        let plan = Plan::new(seed, events);
        eprintln!("round of seed {seed}: servers accelerated: {:?}, talkers: {:?}", plan.servers, plan.talkers);
        let arrived = [Arrived::read(self.bed.host(Side::A))?, Arrived::read(self.bed.host(Side::B))?];
        let began = Instant::now();
        let mut round = Round::begin(&mut self.bed, &plan)?;
        round.live(&plan, &mut |event| eprintln!("    {:6.3} s: {event}", began.elapsed().as_secs_f64()))?;
        round.rest();
        for side in Side::BOTH {
            look_at_lanes(&mut round, side, &arrived[side as usize], sums)?;
        }
        let (said, mut defects) = round.end_all();
        sums.rounds += 1;
        sums.events += plan.steps.len() as u64;
        sums.hear(&said);
        defects.extend(self.prove(seed as u32 % 1_000_000, sums)?);
        for side in Side::BOTH {
            defects.extend(self.nothing_stays(side)?);
            defects.extend(self.memory_is_bounded(side, sums)?);
        }
        Ok(defects)
    }

    /// Checks that new programs run without errors, and that all packets that they receive are
    /// counted: no service is restarted meanwhile.
    fn prove(&mut self, seed: u32, sums: &mut Sums) -> Result<Vec<String>> {
        let before = [Arrived::read(self.bed.host(Side::A))?, Arrived::read(self.bed.host(Side::B))?];
        let mut defects = self.bed.prove(seed)?;
        for side in Side::BOTH {
            let host = self.bed.host(side);
            sums.counters_compared += 1;
            let defect = settled(|| Ok(Arrived::read(host)?.defect(&before[side as usize])))?;
            defects.extend(defect.map(|defect| format!("host {side}, in the calm afterwards: {defect}")));
        }
        Ok(defects)
    }

    fn nothing_stays(&mut self, side: Side) -> Result<Option<String>> {
        let process = self.bed.service(side)?.process().id();
        let (host, before) = (self.bed.host(side), &self.before[side as usize]);
        let left = settled(|| Ok(Holdings::look(host, process)?.difference(before)))?;
        Ok(left.map(|left| format!("host {side} holds more or less than at first: {left}")))
    }

    fn memory_is_bounded(&mut self, side: Side, sums: &mut Sums) -> Result<Option<String>> {
        let process = self.bed.service(side)?.process().id();
        let now = memory(process)?;
        sums.memory_kib = sums.memory_kib.max(now);
        let first = &mut self.memory[side as usize];
        let (_, then) = *first.filter(|&(of, _)| of == process).get_or_insert((process, now));
        *first = Some((process, then));
        let growth = now.saturating_sub(then);
        sums.growth_kib = sums.growth_kib.max(growth);
        Ok((growth > GROWTH).then(|| format!("the memory of the service of {side} grew from {then} to {now} KiB")))
    }
}

/// Audits the lanes of a host whose programs are idle, and compares its counters.
fn look_at_lanes(round: &mut Round<'_>, side: Side, arrived: &Arrived, sums: &mut Sums) -> Result<()> {
    let (unaddressed, interrupted) = (round.unaddressed[side as usize], round.interrupted[side as usize]);
    let bed = round.bed();
    let process = bed.service(side)?.process().id();
    let host = bed.host(side);
    let mut defects = settled(|| {
        let found = of_lanes(host, unaddressed)?;
        Ok((!found.is_empty()).then_some(found))
    })?
    .unwrap_or_default();
    match held(host, process) {
        Ok(held) => sums.lanes_audited += held.audited.len() as u64,
        Err(error) => defects.push(format!("{error:#}")),
    }
    // A service that was restarted meanwhile has not counted from the beginning.
    if !interrupted {
        sums.counters_compared += 1;
        defects.extend(settled(|| Ok(Arrived::read(host)?.defect(arrived)))?);
    }
    round.defects.extend(defects.into_iter().map(|defect| format!("host {side}: {defect}")));
    Ok(())
}

/// Repeats a check until it finds nothing, or until the time to settle is over; returns its last
/// findings.
fn settled<T>(mut look: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let end = Instant::now() + SETTLES;
    loop {
        let left = look()?;
        if left.is_none() || Instant::now() > end {
            return Ok(left);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
