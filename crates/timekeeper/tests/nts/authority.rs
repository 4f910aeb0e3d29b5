//! Certificates that are made for one test.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use std::sync::Arc;

/// The certificate authority of the servers.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut parameters = CertificateParams::new([]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its own certificate.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A server of this name that speaks these protocols within TLS; its certificate has expired,
    /// or is good for some decades.
    pub(crate) fn server(&self, name: &str, expired: bool, protocols: &[&[u8]]) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
        if expired {
            parameters.not_after = date_time_ymd(2020, 1, 1);
        }
        let certificate = parameters.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let tls = tls.with_protocol_versions(&[&rustls::version::TLS13]).unwrap().with_no_client_auth();
        let mut tls = tls.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(tls)
    }
}
