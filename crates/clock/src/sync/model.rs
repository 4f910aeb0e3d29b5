//! The interface of the oscillator models.

/// Prior variance of the offset in ns²: (1 ms)², because the nominal clock begins with the first
/// exchange.
pub(crate) const UNKNOWN_OFFSET: f64 = 1e12;

/// The offset measured by one exchange in ns, and its variance in ns².
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) offset: f64,
    pub(crate) variance: f64,
}

/// The forecast of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecast {
    /// True time minus the nominal clock, in ns.
    pub(crate) offset: f64,
    /// Growth of the offset, in ns/s.
    pub(crate) rate: f64,
    /// Variance of the offset, in ns².
    pub(crate) variance: f64,
    /// Variance of the rate, in (ns/s)².
    pub(crate) rate_variance: f64,
}

/// A model of an oscillator, updated by exchanges.
pub(crate) trait Model {
    /// Advances the model by `dt` seconds.
    fn advance(&mut self, dt: f64);
    /// The forecast for `dt` seconds from now.
    fn forecast(&self, dt: f64) -> Forecast;
    /// The period of its cycle in seconds, if it has one.
    fn period(&self) -> Option<f64>;
    /// Updates the model with the offset of an exchange.
    fn update(&mut self, reading: Reading);
    /// Corrects the offset by `by` ns and adds `variance` to its variance; the rate is unchanged.
    fn displace(&mut self, by: f64, variance: f64);
}
