//! tickwire-lab
