//! Writes a record.

use super::SECOND;
use super::line::{Begin, ExchangeRecord, LeapSeconds, Line, Server, VERSION, scale};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use tickclock::{Count, Parameters};
use tickwire_clock::Exchange;
use tickwire_clock::ensemble::leap::Announcement;
use tickwire_clock::ensemble::table::Table;
use tickwire_clock::ensemble::{self, SourceConfig};

/// Writes a record.
#[derive(Debug)]
pub struct ExchangeRecorder<W: Write> {
    to: W,
}

impl ExchangeRecorder<BufWriter<File>> {
    /// Creates a new file; an existing one is kept as it is, and is an error.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self::new(BufWriter::new(File::create_new(path)?)))
    }
}

impl<W: Write> ExchangeRecorder<W> {
    /// Writes to `to`.
    pub const fn new(to: W) -> Self {
        Self { to }
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        serde_json::to_writer(&mut self.to, line)?;
        self.to.write_all(b"\n")
    }

    /// The first line: the clock's configuration, its counter, its servers by name, the table of
    /// leap seconds, and the arguments of [`Ensemble::after`](tickwire_clock::Ensemble::after).
    ///
    /// # Errors
    /// The line cannot be written.
    pub fn begin(
        &mut self,
        config: &ensemble::EnsembleConfig,
        counter: &str,
        servers: &[(&str, SourceConfig)],
        table: Option<&Table>,
        (disruptions, since): (u32, Count),
    ) -> io::Result<()> {
        let server = |&(name, SourceConfig { asymmetry, smeared }): &(&str, SourceConfig)| Server {
            name: name.into(),
            asymmetry_ns: asymmetry,
            smeared,
        };
        let servers = servers.iter().map(server).collect();
        let leap_seconds = table.map(|table| LeapSeconds {
            entries: table.entries().iter().map(|&(at, offset)| (at.0.div_euclid(SECOND), offset)).collect(),
            expires_s: table.expires().0.div_euclid(SECOND),
        });
        self.line(&Line::Begin(Begin {
            version: VERSION,
            counter: counter.into(),
            nominal: scale(config.nominal),
            rate_error: config.rate_error,
            holdover_after_ns: config.holdover_after,
            fresh_for_ns: config.fresh_for,
            tai_offset_s: config.tai_offset,
            leap_seconds,
            disruptions,
            since: since.0,
            servers,
        }))
    }

    /// Writes an exchange, before the clock processes it.
    ///
    /// # Errors
    /// See [`Self::begin`].
    pub fn exchange(&mut self, server: usize, exchange: &Exchange, announced: Announcement) -> io::Result<()> {
        self.line(&Line::Exchange(ExchangeRecord::new(server, exchange, announced)))
    }

    /// Writes a server's new silence timeout.
    ///
    /// # Errors
    /// See [`Self::begin`].
    pub fn silence_timeout(&mut self, server: usize, ns: i64) -> io::Result<()> {
        self.line(&Line::SilenceTimeout { server, ns })
    }

    /// Writes a break of the counter, which is at this value now.
    ///
    /// # Errors
    /// See [`Self::begin`].
    pub fn disruption(&mut self, at: Count) -> io::Result<()> {
        self.line(&Line::Disruption { at: at.0 })
    }

    /// Writes the page that is published now; the file is complete up to here.
    ///
    /// # Errors
    /// See [`Self::begin`].
    pub fn page(&mut self, parameters: &Parameters) -> io::Result<()> {
        self.line(&Line::Page(parameters.into()))?;
        self.to.flush()
    }
}
