//! What every model of an oscillator does.

/// Variance of an offset of which nothing is known, in ns²: a millisecond, since the nominal clock
/// begins with the first exchange.
pub(crate) const UNKNOWN_OFFSET: f64 = 1e12;

/// An offset that was read from one exchange, and its variance, in ns and ns².
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) offset: f64,
    pub(crate) variance: f64,
}

/// What a model says of the present.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecast {
    /// In ns: what the nominal clock lacks.
    pub(crate) offset: f64,
    /// In ns/s: how that grows.
    pub(crate) rate: f64,
    /// In ns².
    pub(crate) variance: f64,
    /// In (ns/s)².
    pub(crate) rate_variance: f64,
}

/// An oscillator, as far as exchanges tell.
pub(crate) trait Model {
    /// Time passes, in seconds.
    fn advance(&mut self, dt: f64);
    /// What is known of the moment `dt` seconds from now.
    fn forecast(&self, dt: f64) -> Forecast;
    /// The cycle that it follows, in seconds.
    fn period(&self) -> Option<f64>;
    /// An exchange tells an offset.
    fn update(&mut self, reading: Reading);
    /// The offset was wrong by so much, in ns; now it is right within this variance, and the rate
    /// is what it was.
    fn displace(&mut self, by: f64, variance: f64);
}
