//! A network device, frame by frame: a packet socket.

use anyhow::{Context, Result, bail};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvmsg, send,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeSpec, TimeValLike};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Larger than any frame, also a merged one (GRO): a frame must not be truncated.
const LARGEST: usize = 1 << 17;
/// The socket's queue, as the kernel accounts memory: some ten thousand frames of 1500 bytes.
const QUEUE: usize = 32 << 20;

/// A received frame.
pub(crate) struct Arrived {
    pub(crate) bytes: Vec<u8>,
    /// The kernel's receive timestamp, in nanoseconds of the system's clock.
    pub(crate) at_ns: Option<u64>,
}

/// One end of the cable.
#[derive(Debug)]
pub(crate) struct Port {
    device: String,
    socket: OwnedFd,
    frame: Vec<u8>,
    control: Vec<u8>,
    overflowed: u32,
    refused: u64,
}

impl Port {
    /// Opens the device of that name in the network namespace of this process, and drops frames
    /// received before.
    pub(crate) fn open(device: &str) -> Result<Self> {
        let address = link_address(device)?;
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)
            .context("cannot open a packet socket, which only root may")?;
        bind(socket.as_raw_fd(), &address).with_context(|| format!("cannot bind to the device {device}"))?;
        setsockopt(&socket, sockopt::RcvBufForce, &QUEUE).context("cannot enlarge the receive queue")?;
        setsockopt(&socket, sockopt::SndBufForce, &QUEUE).context("cannot enlarge the send queue")?;
        setsockopt(&socket, sockopt::RxqOvfl, &1).context("cannot count what overflows")?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true).context("cannot ask when frames come")?;
        let mut port = Self {
            device: device.to_owned(),
            socket,
            frame: vec![0; LARGEST],
            control: cmsg_space!(u32, TimeSpec),
            overflowed: 0,
            refused: 0,
        };
        // Before the bind it received from all devices.
        while port.receive()?.is_some() {}
        Ok(port)
    }

    /// The next received frame; none: there is none yet.
    pub(crate) fn receive(&mut self) -> Result<Option<Arrived>> {
        let mut at_ns = None;
        loop {
            let mut into = [IoSliceMut::new(&mut self.frame)];
            let (fd, control) = (self.socket.as_raw_fd(), Some(&mut self.control[..]));
            let length = match recvmsg::<()>(fd, &mut into, control, MsgFlags::empty()) {
                Ok(message) => {
                    for control in message.cmsgs()? {
                        match control {
                            ControlMessageOwned::RxqOvfl(count) => self.overflowed = count,
                            ControlMessageOwned::ScmTimestampns(at) => at_ns = u64::try_from(at.num_nanoseconds()).ok(),
                            _ => {}
                        }
                    }
                    message.bytes
                }
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error).with_context(|| format!("the device {} has gone", self.device)),
            };
            return Ok(Some(Arrived { bytes: self.frame[..length].to_vec(), at_ns }));
        }
    }

    /// Sends a frame.
    pub(crate) fn send(&mut self, frame: &[u8]) -> Result<()> {
        match send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
            Ok(_) => Ok(()),
            Err(Errno::EAGAIN | Errno::ENOBUFS) => {
                self.refused += 1;
                Ok(())
            }
            Err(error) => Err(error).with_context(|| format!("cannot send {} bytes by {}", frame.len(), self.device)),
        }
    }

    /// Frames lost because this socket's queue was full.
    pub(crate) fn overflowed(&self) -> u32 {
        self.overflowed
    }

    /// Frames that the device did not take.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The address for the bind of a packet socket: its protocol is 0, so the socket keeps its own.
fn link_address(device: &str) -> Result<LinkAddr> {
    let mut addresses = nix::ifaddrs::getifaddrs().context("cannot list the devices")?;
    let found = addresses.find_map(|one| one.address?.as_link_addr().copied().filter(|_| one.interface_name == device));
    let Some(address) = found else { bail!("there is no device {device}") };
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let error = link_address("no-such-device").unwrap_err().to_string();
        assert_eq!(error, "there is no device no-such-device");
    }
}
