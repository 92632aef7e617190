//! TLS towards the outside.
//!
//! **Architecture invariant:** a server proves for every connection that it holds the key of a certificate for the target's own
//! name, signed by an authority that was named here. Nothing of the environment has a say, and no session is resumed.

use std::{io, path::Path, sync::Arc};

use rustls::{
    CertificateError, CipherSuite, ClientConfig, RootCertStore,
    client::Resumption,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, pem::PemObject as _},
};

use crate::{SetUpError, error::heard};

/// A client that trusts the public authorities that the web trusts, and those in `ca_file`. The roots are part of the program, so
/// that an image needs none, and no verifier fetches anything.
pub(crate) fn client(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, SetUpError> {
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    if let Some(path) = ca_file {
        add(&mut roots, path).map_err(|why| SetUpError::CaFile {
            path: path.display().to_string(),
            why,
        })?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // A resumed session would let a server link what different NPCs fetch.
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Ring, with the suite of AES-128 and SHA-256 first, as browsers have it: processors have instructions for both, and a handshake
/// hashes more than it encrypts.
fn provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider
}

/// What failed in a handshake. The names of a certificate are left out: whoever made it has chosen them, and a model would read them
/// as ours.
pub(crate) fn explain(problem: &io::Error) -> String {
    let inner = problem
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "its certificate is for other names".to_owned(),
        Some(_) | None => heard(problem),
    }
}

fn add(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|problem| problem.to_string())?;
    let mut count = 0_usize;
    for certificate in certificates {
        let certificate = certificate.map_err(|problem| problem.to_string())?;
        roots
            .add(certificate)
            .map_err(|problem| problem.to_string())?;
        count += 1;
    }
    if count == 0 {
        return Err("it holds no certificate".to_owned());
    }
    Ok(())
}
