//! tickwire-host
