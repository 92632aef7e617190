//! Certificate chains that held a moment ago.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ring::digest::{Context, SHA256};
use rustls::{
    DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// How long a chain is held to hold. A certificate may be taken for so long after its end, as by a clock that is slow.
const TIME: Duration = Duration::from_mins(1);
/// Chains remembered, at 40 bytes each.
const MAX_CHAINS: usize = 1_024;

/// Everything that the verdict on a chain depends on but the time: name, certificates in their order, and what was stapled.
type Fingerprint = [u8; 32];

/// Verifies as the verifier inside it does, and does not verify a chain again that held for the very same name within a minute.
///
/// Public signatures on larger curves cost more than the rest of a connection, and no session is resumed here, so that each
/// connection would pay for them. The server's own signature, which proves that it holds the key, is verified each time.
#[derive(Debug)]
pub(super) struct RecentChains {
    inner: Arc<dyn ServerCertVerifier>,
    held: Mutex<HashMap<Fingerprint, UnixTime>>,
}

impl RecentChains {
    pub(super) fn new(inner: Arc<dyn ServerCertVerifier>) -> Self {
        Self {
            inner,
            held: Mutex::default(),
        }
    }

    fn has_held(&self, chain: &Fingerprint, now: UnixTime) -> bool {
        self.held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(chain)
            .is_some_and(|&since| is_recent(since, now))
    }

    fn remember(&self, chain: Fingerprint, now: UnixTime) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= MAX_CHAINS {
            held.retain(|_chain, &mut since| is_recent(since, now));
        }
        // So many different chains within a minute are somebody's attempt to fill this.
        if held.len() < MAX_CHAINS {
            held.insert(chain, now);
        }
    }
}

fn is_recent(since: UnixTime, now: UnixTime) -> bool {
    now.as_secs()
        .checked_sub(since.as_secs())
        .is_some_and(|age| age < TIME.as_secs())
}

fn fingerprint(
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    server_name: &ServerName<'_>,
    ocsp_response: &[u8],
) -> Fingerprint {
    let mut context = Context::new(&SHA256);
    let name = server_name.to_str();
    let certificates = std::iter::once(end_entity)
        .chain(intermediates)
        .map(CertificateDer::as_ref);
    // Each with its length, so that no two lists run into the same bytes; the last two are always there.
    for part in certificates.chain([ocsp_response, name.as_bytes()]) {
        context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        context.update(part);
    }
    let mut fingerprint = Fingerprint::default();
    for (to, from) in fingerprint.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    fingerprint
}

impl ServerCertVerifier for RecentChains {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let chain = fingerprint(end_entity, intermediates, server_name, ocsp_response);
        if self.has_held(&chain, now) {
            return Ok(ServerCertVerified::assertion());
        }
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        self.remember(chain, now);
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests;
