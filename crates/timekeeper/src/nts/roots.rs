//! The trusted certificates for a server: the host's, or only those of one file.

use crate::lookup::Failure;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;

/// Certificates that cannot be parsed are skipped; one must be usable. Malformed PEM is an error.
pub(super) fn roots(file: Option<&Path>) -> Result<RootCertStore, Failure> {
    let nobody = |detail: String| Failure::new("there are no certificates to trust", detail);
    let (all, complaint) = match file {
        Some(file) => {
            let wrong = |error: &dyn std::fmt::Display| nobody(format!("{}: {error}", file.display()));
            let text = std::fs::read(file).map_err(|error| wrong(&error))?;
            let all = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
            (all.map_err(|error| wrong(&error))?, format!("{} has none (expected: PEM)", file.display()))
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            let error = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
            let hint = "install the host's (package ca-certificates), or name a file with nts_ca";
            (found.certs, format!("{hint}{error}"))
        }
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(all);
    if roots.is_empty() { Err(nobody(complaint)) } else { Ok(roots) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_trusted_certificate_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ca.pem");
        let fails = |file: &Path| roots(Some(file)).unwrap_err().to_string();
        assert!(fails(&file).contains("No such file"), "{}", fails(&file));
        let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for text in ["", "some text\n", damaged, "-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n"] {
            std::fs::write(&file, text).unwrap();
            assert!(fails(&file).contains("ca.pem"), "{}", fails(&file));
        }
    }
}
