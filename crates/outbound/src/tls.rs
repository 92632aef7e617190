//! TLS towards the outside.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use crate::SetUpError;

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
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // A resumed session would let a server link what different NPCs fetch.
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
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
