//! The `ioctl` requests whose answer is in the stack (`asm-generic/ioctls.h`, `linux/sockios.h`).

use core::ffi::c_ulong;
use tickwire_stack::tcp::TcpInfo;

/// Whether the urgent byte is next to be read. The libc crate does not have it.
pub const SIOCATMARK: c_ulong = 0x8905;

/// The number of bytes of a connection that a request asks for: `FIONREAD` (`SIOCINQ`), `TIOCOUTQ`
/// (`SIOCOUTQ`), `SIOCOUTQNSD`; `None` for other requests.
#[must_use]
pub fn tcp_bytes(info: &TcpInfo, request: c_ulong) -> Option<u32> {
    Some(match request {
        libc::FIONREAD => info.unread_to_mark,
        libc::TIOCOUTQ => info.outstanding + info.unsent,
        libc::SIOCOUTQNSD => info.unsent,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp_info::tests::SAMPLE;

    #[test]
    fn each_request_has_its_number_of_bytes() {
        let info = TcpInfo { unread: 9, unread_to_mark: 5, outstanding: 700, unsent: 30, ..SAMPLE };
        assert_eq!(tcp_bytes(&info, 0x541b), Some(5), "FIONREAD, which ends at the urgent byte");
        assert_eq!(tcp_bytes(&info, 0x5411), Some(730), "SIOCOUTQ");
        assert_eq!(tcp_bytes(&info, 0x894b), Some(30), "SIOCOUTQNSD");
        for other in [0, SIOCATMARK, 0x5421, c_ulong::MAX] {
            assert_eq!(tcp_bytes(&info, other), None, "{other:x}");
        }
    }
}
