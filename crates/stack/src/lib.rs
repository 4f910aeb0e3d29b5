#![cfg_attr(not(any(test, feature = "owned")), no_std)]
#![forbid(unsafe_code)]
pub mod addr; pub mod error; pub mod pool; pub mod time; pub mod frame; pub mod path;
#[doc(inline)] pub use error::Error;
pub struct Stack;
impl Stack { pub fn path_set(){} }
