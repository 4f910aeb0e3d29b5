//! tickwire-preload
