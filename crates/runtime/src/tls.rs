//! TLS between services: rustls, with ring, from PEM files.

use std::{path::Path, sync::Arc};

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use serde::Deserialize;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}, which {setting} names: {source}")]
    Unreadable {
        /// The setting.
        setting: &'static str,
        /// Its value.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file has no PEM of the right kind.
    #[error("{path}, which {setting} names, holds no {what} in PEM")]
    NoPem {
        /// The setting.
        setting: &'static str,
        /// Its value.
        path: String,
        /// What it should hold.
        what: &'static str,
    },
    /// Certificate without key, or the other way round.
    #[error("tls.certificate and tls.key belong together; set both or neither")]
    Half,
    /// Client certificates without a certificate of one's own.
    #[error(
        "tls.client_ca is set and tls.certificate is not; a server without TLS cannot ask for client certificates"
    )]
    ClientCaAlone,
    /// rustls refuses the material.
    #[error("the certificates that [tls] names cannot be used: {0}")]
    Rejected(String),
}

/// The section `tls`: paths of PEM files, empty for none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsSettings {
    /// This process's certificate chain.
    pub certificate: String,
    /// Its private key.
    pub key: String,
    /// Certificate authorities whose clients are accepted.
    pub client_ca: String,
    /// Certificate authorities of the peers' servers.
    pub ca: String,
}

impl TlsSettings {
    /// What a listener needs; `None` without a certificate. With a client CA, clients must have a certificate of it.
    pub fn server(&self) -> Result<Option<Arc<ServerConfig>>, TlsError> {
        let Some(Pem { certificate, key }) = self.identity()? else {
            if !self.client_ca.is_empty() {
                return Err(TlsError::ClientCaAlone);
            }
            return Ok(None);
        };
        let rejected = |error: rustls::Error| TlsError::Rejected(error.to_string());
        let chain = certificates("tls.certificate", &self.certificate, &certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_error| TlsError::NoPem {
            setting: "tls.key",
            path: self.key.clone(),
            what: "private key",
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(rejected)?;
        let builder = match self.client_verifier(provider)? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(rejected)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Some(Arc::new(config)))
    }

    /// What clients of https peers need; `None` without a CA.
    pub fn client(&self) -> Result<Option<ClientTls>, TlsError> {
        if self.ca.is_empty() {
            return Ok(None);
        }
        let ca = read("tls.ca", &self.ca)?;
        certificates("tls.ca", &self.ca, &ca)?;
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
        if let Some(Pem { certificate, key }) = self.identity()? {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        Ok(Some(ClientTls(config)))
    }

    fn identity(&self) -> Result<Option<Pem>, TlsError> {
        match (self.certificate.is_empty(), self.key.is_empty()) {
            (true, true) => Ok(None),
            (false, false) => Ok(Some(Pem {
                certificate: read("tls.certificate", &self.certificate)?,
                key: read("tls.key", &self.key)?,
            })),
            _ => Err(TlsError::Half),
        }
    }

    fn client_verifier(
        &self,
        provider: Arc<rustls::crypto::CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
        if self.client_ca.is_empty() {
            return Ok(None);
        }
        let rejected = |error: &dyn std::error::Error| TlsError::Rejected(error.to_string());
        let pem = read("tls.client_ca", &self.client_ca)?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates("tls.client_ca", &self.client_ca, &pem)? {
            roots.add(certificate).map_err(|error| rejected(&error))?;
        }
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map(Some)
            .map_err(|error| rejected(&error))
    }
}

/// The contents of a certificate's and a key's file.
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// What clients of https peers need.
#[derive(Clone)]
pub struct ClientTls(ClientTlsConfig);

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientTls")
    }
}

impl ClientTls {
    pub(crate) fn config(&self, host: &str) -> ClientTlsConfig {
        self.0.clone().domain_name(host)
    }
}

fn read(setting: &'static str, path: &str) -> Result<Vec<u8>, TlsError> {
    std::fs::read(Path::new(path)).map_err(|source| TlsError::Unreadable {
        setting,
        path: path.to_owned(),
        source,
    })
}

fn certificates(
    setting: &'static str,
    path: &str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .filter_map(Result::ok)
        .collect();
    if chain.is_empty() {
        return Err(TlsError::NoPem {
            setting,
            path: path.to_owned(),
            what: "certificate",
        });
    }
    Ok(chain)
}
