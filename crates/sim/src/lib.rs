//! tickwire-sim
