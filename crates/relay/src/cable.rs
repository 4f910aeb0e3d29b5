//! Both directions of the cable. The caller supplies the time.

use crate::options::{Blackout, Options};
use crate::way::Way;
use tickwire_sim::{LinkStats, Messages, Rng, SimulatedLink};
use tickwire_stack::time::Instant;

/// The cable.
#[derive(Debug)]
pub(crate) struct Cable {
    links: [SimulatedLink; 2],
    /// One for each direction, so that return traffic does not change the faults of the forward
    /// direction.
    chance: [Rng; 2],
    blackout: Option<(Blackout, Messages)>,
}

impl Cable {
    pub(crate) fn new(options: &Options) -> Self {
        let mut seeds = Rng::new(options.seed);
        Self {
            links: Way::BOTH.map(|way| SimulatedLink::new(options.link(way))),
            chance: Way::BOTH.map(|_| Rng::new(seeds.next_u64())),
            blackout: options.blackout().map(|blackout| (blackout, Messages::new(blackout.size))),
        }
    }

    /// Takes a frame into the cable.
    pub(crate) fn put(&mut self, way: Way, now: Instant, frame: Vec<u8>) {
        let place = way.from();
        let middle = way == Way::Forth && self.blackout.as_mut().is_some_and(|(_, seen)| seen.see(&frame).middle);
        self.links[place].send(now, &mut self.chance[place], frame);
        // The segment in the middle itself passes.
        if let Some((blackout, _)) = self.blackout.as_ref().filter(|_| middle) {
            self.links[blackout.way.from()].config.dark_until = now + blackout.lasts;
        }
    }

    /// Returns a due frame, with the time at which it was due.
    pub(crate) fn take(&mut self, way: Way, now: Instant) -> Option<(Instant, Vec<u8>)> {
        let link = &mut self.links[way.from()];
        let due = link.next_arrival()?;
        link.arrive(now).map(|frame| (due, frame))
    }

    /// When the next frame is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.links.iter().filter_map(SimulatedLink::next_arrival).min()
    }

    pub(crate) fn stats(&self, way: Way) -> LinkStats {
        self.links[way.from()].stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use tickwire_stack::time::Span;

    fn cable(arguments: &[&str]) -> Cable {
        Cable::new(&Options::try_parse_from([&["relay", "a", "b"][..], arguments].concat()).unwrap())
    }

    /// A segment of a stream with initial sequence number 1, or its SYN.
    fn segment(sequence: u32, data: usize) -> Vec<u8> {
        let mut frame = vec![0; 14 + 20];
        frame[12] = 0x08;
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&u16::try_from(40 + data).unwrap().to_be_bytes());
        frame[23] = 6;
        frame.extend([0, 80, 1, 2]);
        frame.extend(sequence.to_be_bytes());
        frame.extend([0, 0, 0, 0, 0x50, if data == 0 { 2 } else { 16 }, 0, 0, 0, 0, 0, 0]);
        frame.extend(vec![0; data]);
        frame
    }

    fn at(us: u64) -> Instant {
        Instant::from_nanos(1_000_000_000) + Span::from_micros(us)
    }

    /// Sends the frames into the cable, 10 us apart; returns which come out.
    fn through(cable: &mut Cable, way: Way, frames: &[Vec<u8>]) -> Vec<bool> {
        let mut out = Vec::new();
        for (number, frame) in (0..).zip(frames) {
            let delivered = cable.stats(way).delivered;
            cable.put(way, at(number * 10), frame.clone());
            while cable.take(way, at(number * 10 + 1000)).is_some() {}
            out.push(cable.stats(way).delivered > delivered);
        }
        out
    }

    #[test]
    fn a_frame_comes_out_after_the_delay_at_the_other_end_only() {
        let mut cable = cable(&["--delay", "70"]);
        cable.put(Way::Back, at(0), vec![1; 60]);
        assert_eq!(cable.next(), Some(at(70)));
        assert!(cable.take(Way::Back, at(69)).is_none() && cable.take(Way::Forth, at(100)).is_none());
        assert_eq!(cable.take(Way::Back, at(80)), Some((at(70), vec![1; 60])));
        assert_eq!(cable.next(), None);
        assert_eq!((cable.stats(Way::Back).delivered, cable.stats(Way::Forth).sent), (1, 0));
    }

    #[test]
    fn each_direction_has_its_own_chance_and_the_seed_decides() {
        let frames = vec![vec![0; 60]; 200];
        let forth = |arguments: &[&str], back: usize| {
            let mut cable = cable(&[&["--loss", "300000"][..], arguments].concat());
            through(&mut cable, Way::Back, &frames[..back]);
            through(&mut cable, Way::Forth, &frames)
        };
        assert_eq!(forth(&[], 0), forth(&[], 100));
        assert_ne!(forth(&[], 0), forth(&["--seed", "2"], 0));
    }

    #[test]
    fn the_end_of_a_message_is_lost_once_and_only_on_the_way_forth() {
        let frames = [segment(0, 0), segment(1, 1000), segment(1001, 200), segment(1001, 200), segment(1201, 1200)];
        let mut told = cable(&["--tail", "1200"]);
        assert_eq!(through(&mut told, Way::Forth, &frames), [true, true, false, true, false]);
        assert_eq!(through(&mut told, Way::Back, &frames), [true; 5]);
    }

    #[test]
    fn it_gets_dark_in_the_middle_of_a_message_for_as_long_as_told() {
        for (way, dark, light) in [("forth", Way::Forth, Way::Back), ("back", Way::Back, Way::Forth)] {
            let mut told = cable(&["--blackout", "3000", "--dark", way, "--dark-for", "10"]);
            through(&mut told, Way::Forth, &[segment(0, 0), segment(1, 1000)]);
            told.put(Way::Forth, at(20), segment(1001, 1000));
            for (us, passes) in [(30, false), (10_000, false), (10_020, true), (20_000, true)] {
                let before = told.stats(dark);
                told.put(dark, at(us), vec![0; 60]);
                told.put(light, at(us), vec![0; 60]);
                assert_eq!(told.stats(dark).dark == before.dark, passes, "{way} after {us} us");
            }
            assert_eq!((told.stats(dark).dark, told.stats(light).dark), (2, 0));
        }
    }

    #[test]
    fn what_is_no_share_is_refused() {
        let refused = |arguments: &[&str]| {
            Options::try_parse_from([&["relay", "a", "b"][..], arguments].concat()).unwrap_err().to_string()
        };
        assert!(refused(&["--loss", "1000001"]).contains("0..=1000000"));
        assert!(refused(&["--tail", "0"]).contains("1.."));
        assert!(refused(&["--dark", "back"]).contains("--blackout"));
    }
}
