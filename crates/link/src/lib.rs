//! tickwire-link
