//! The manager of Windows' firewall, by COM (`INetFwMgr` of `netfw.h`).

use crate::firewall::{FirewallError, InboundPort, InboundVerdict};
use crate::port_owner::PortProtocol;
use std::ffi::c_void;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ptr::{NonNull, null, null_mut};
use tickwire_stack::addr::{Address, Family};
use windows_sys::Win32::Foundation::{SysAllocStringLen, SysFreeString};
use windows_sys::Win32::System::Com::{
    CLSCTX_INPROC_SERVER, COINIT_MULTITHREADED, CoCreateInstance, CoInitializeEx, CoUninitialize,
};
use windows_sys::Win32::System::Variant::{VARIANT, VT_BOOL, VariantClear};
use windows_sys::core::{BSTR, GUID, HRESULT};

/// `CLSID_NetFwMgr`, `IID_INetFwMgr`.
static CLASS: GUID = GUID::from_u128(0x304c_e942_6e39_40d8_943a_b913_c40c_9cd4);
static INTERFACE: GUID = GUID::from_u128(0xf789_8af5_cac4_4632_a2ec_da06_e511_1af2);

/// `NET_FW_IP_VERSION_...`.
const VERSION_4: i32 = 0;
const VERSION_6: i32 = 1;
const VERSION_ANY: i32 = 2;

type IsPortAllowed =
    unsafe extern "system" fn(*mut c_void, BSTR, i32, i32, BSTR, i32, *mut VARIANT, *mut VARIANT) -> HRESULT;

/// The methods of `INetFwMgr`.
#[repr(C)]
struct Methods {
    query_interface: *const c_void,
    add_ref: *const c_void,
    release: unsafe extern "system" fn(*mut c_void) -> u32,
    /// Those of `IDispatch`.
    dispatch: [*const c_void; 4],
    local_policy: *const c_void,
    current_profile_type: *const c_void,
    restore_defaults: *const c_void,
    is_port_allowed: IsPortAllowed,
    is_icmp_type_allowed: *const c_void,
}

/// COM on this thread, until it is dropped.
struct Apartment;

impl Apartment {
    fn enter() -> Result<Self, FirewallError> {
        // SAFETY: no memory is passed.
        check("use COM", unsafe { CoInitializeEx(null(), COINIT_MULTITHREADED as u32) })?;
        Ok(Self)
    }
}

impl Drop for Apartment {
    fn drop(&mut self) {
        // SAFETY: it was entered on this thread: the manager, which has it, stays on its thread.
        unsafe { CoUninitialize() };
    }
}

/// An object whose first word is a pointer to its methods.
#[repr(C)]
struct Object {
    methods: *const Methods,
}

/// The manager. Stays on the thread that has made it.
pub(crate) struct FirewallManager {
    object: NonNull<Object>,
    /// Left after the object has been released.
    _apartment: Apartment,
}

impl FirewallManager {
    /// Gets it.
    ///
    /// # Errors
    /// If Windows has none, or refuses it.
    pub(crate) fn connect() -> Result<Self, FirewallError> {
        let apartment = Apartment::enter()?;
        let mut object = null_mut();
        // SAFETY: two identifiers, no outer object, and a place for the result.
        let made = unsafe {
            CoCreateInstance(&raw const CLASS, null_mut(), CLSCTX_INPROC_SERVER, &raw const INTERFACE, &raw mut object)
        };
        check("use the manager of its firewall", made)?;
        let object = NonNull::new(object.cast()).ok_or(FirewallError::Silent)?;
        Ok(Self { object, _apartment: apartment })
    }

    fn methods(&self) -> &Methods {
        // SAFETY: an object of this interface, whose methods live as long.
        unsafe { &*(*self.object.as_ptr()).methods }
    }

    /// Whether a program may receive at a port.
    ///
    /// # Errors
    /// If Windows does not say.
    pub(crate) fn inbound(&self, port: &InboundPort) -> Result<InboundVerdict, FirewallError> {
        let program = Text::new(port.program.as_deref());
        let address = Text::new(text_of(port.local.address).as_deref());
        let version = match (port.local.address, port.local.address.family()) {
            (Address::ANY, _) => VERSION_ANY,
            (_, Family::V4) => VERSION_4,
            (_, Family::V6) => VERSION_6,
        };
        let protocol = match port.protocol {
            PortProtocol::Tcp => 6,
            PortProtocol::Udp => 17,
        };
        let (mut allowed, mut restricted) = (Flag::new(), Flag::new());
        // SAFETY: an object of this interface; texts that are null or of COM, and live during the
        // call; places for two results.
        let asked = unsafe {
            (self.methods().is_port_allowed)(
                self.object.as_ptr().cast(),
                program.0,
                version,
                port.local.port.into(),
                address.0,
                protocol,
                &raw mut allowed.0,
                &raw mut restricted.0,
            )
        };
        check("say whether its firewall lets packets in", asked)?;
        // What is not a flag is taken for the answer that keeps a port with the kernel.
        Ok(match (allowed.is_set().unwrap_or(false), restricted.is_set().unwrap_or(true)) {
            (true, false) => InboundVerdict::Allowed,
            (true, true) => InboundVerdict::Restricted,
            (false, _) => InboundVerdict::Blocked,
        })
    }
}

impl Drop for FirewallManager {
    fn drop(&mut self) {
        // SAFETY: the only reference to it.
        unsafe { (self.methods().release)(self.object.as_ptr().cast()) };
    }
}

/// A text of COM; null for none.
struct Text(BSTR);

impl Text {
    fn new(text: Option<&str>) -> Self {
        let Some(text) = text else { return Self(null()) };
        let wide: Vec<u16> = text.encode_utf16().collect();
        // SAFETY: so many characters. (Without memory the result is null: any program.)
        Self(unsafe { SysAllocStringLen(wide.as_ptr(), wide.len() as u32) })
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: a text of COM, or null, which nothing else refers to.
        unsafe { SysFreeString(self.0) };
    }
}

/// A result that should be a flag.
struct Flag(VARIANT);

impl Flag {
    fn new() -> Self {
        Self(VARIANT::default())
    }

    fn is_set(&self) -> Option<bool> {
        // SAFETY: the first field says what the others are.
        let value = unsafe { self.0.Anonymous.Anonymous };
        if value.vt != VT_BOOL {
            return None;
        }
        // SAFETY: so says the field.
        Some(unsafe { value.Anonymous.boolVal } != 0)
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        // SAFETY: a variant that was empty at first, or that the call has written.
        unsafe { VariantClear(&raw mut self.0) };
    }
}

/// An address as text, none if it is unspecified.
fn text_of(address: Address) -> Option<String> {
    if address.is_unspecified() {
        return None;
    }
    Some(match address.to_v4() {
        Some(v4) => Ipv4Addr::from(v4).to_string(),
        None => Ipv6Addr::from(address.0).to_string(),
    })
}

fn check(what: &'static str, result: HRESULT) -> Result<(), FirewallError> {
    if result >= 0 {
        return Ok(());
    }
    Err(FirewallError::Refused { what, source: io::Error::from_raw_os_error(result) })
}
