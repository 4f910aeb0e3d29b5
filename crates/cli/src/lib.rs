//! tickwire
