//! Latency profiles of transmission (Lisovy, Sojka, Hanzalek 2013): how long it takes to read a
//! network card's clock, how long a message takes from the call to the driver, the wire and the
//! peer, and by how much it misses the instant for which it was meant; with the machine at rest and
//! under the paper's loads.
//!
//! | module | purpose |
//! |---|---|
//! | `figures` | of many times: percentiles, jitter, and the latency profile |
//! | `quantity` | what is measured, between which two moments |
//! | `pace` | waiting for an instant: watching the clock, or asleep |
//! | `sender` | messages at instants, with the stamps of driver and card |
//! | `receiver` | when they came, by the kernel's stamps |
//! | `load`, `disk` | what keeps the machine busy meanwhile |
//! | `readout` | reading a card's clock |
//! | `bench` | a lab of two hosts: the kernel's path and Tickwire's, by the same method |
//! | `card` | a network card: the kernel's path, with the card's own stamps |
//! | `options` | what to measure, and whether that can be meant |
//! | `study` | all of it, in order |
//! | `table`, `html` | the study for a terminal and for a browser |
//!
//! May know the lab, the sockets with the kernel's stamps (`tickwire-ntp`), the cards' clocks, the
//! operating system; nothing of lanes but what `tickwire stat` says.
#![forbid(unsafe_code)]

mod bench;
mod card;
mod disk;
mod figures;
mod html;
mod load;
mod options;
mod pace;
mod quantity;
mod readout;
mod receiver;
mod sender;
mod study;
mod table;

pub use figures::{AtLeast, Figures};
pub use html::html;
pub use load::Load;
pub use options::{Options, Target};
pub use pace::{PERIOD, Wait};
pub use quantity::{Carrier, Quantity};
pub use sender::{FRAMES, Message, SendError, Sender};
pub use study::{Absent, Applied, Profile, Study, StudyError, study};
pub use table::table;
