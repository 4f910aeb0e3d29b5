//! Timestamps of NTP's packets by WinDivert, which gives the clock copies of them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tickwire_card_windows::windivert::error::WinDivertError;
use tickwire_card_windows::windivert::handle::WinDivertHandle;
use tickwire_card_windows::windivert::library::WinDivertLibrary;
use tickwire_card_windows::windivert::passing_datagrams::{NTP_FILTER, PassingDatagrams, SocketDatagram};
use tickwire_timekeeper::packet_observer::{ObservedMessage, PacketObserver};

struct WinDivertObserver(Mutex<PassingDatagrams<WinDivertHandle>>);

impl WinDivertObserver {
    fn open() -> Result<Self, WinDivertError> {
        let handle = WinDivertHandle::of_copies(WinDivertLibrary::beside_program()?, NTP_FILTER)?;
        Ok(Self(Mutex::new(PassingDatagrams::new(handle))))
    }

    fn datagrams(&self) -> MutexGuard<'_, PassingDatagrams<WinDivertHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for WinDivertObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WinDivertObserver")
    }
}

impl PacketObserver for WinDivertObserver {
    fn passed(&self, message: &ObservedMessage<'_>) -> Option<i64> {
        let ObservedMessage { is_outgoing, local, peer, bytes: data } = *message;
        self.datagrams().count_of(&SocketDatagram { is_outgoing, local, peer, data })
    }

    fn prepare(&self) {
        self.datagrams().collect();
    }

    fn has_ended(&self) -> bool {
        self.datagrams().has_ended()
    }
}

/// WinDivert's, if its library is beside the program and the driver agrees; the log says why not.
/// To be used by one thread.
pub(crate) fn open() -> Option<Arc<dyn PacketObserver>> {
    match WinDivertObserver::open() {
        Ok(observer) => Some(Arc::new(observer)),
        Err(error) => {
            tracing::info!(%error, "packets of NTP have no timestamps of WinDivert");
            None
        }
    }
}
