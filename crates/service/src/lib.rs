//! tickwire-service
