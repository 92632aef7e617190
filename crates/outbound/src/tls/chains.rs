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
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rustls::CertificateError;

    use super::*;

    /// Takes every chain but those of `bad.test`, and counts.
    #[derive(Debug, Default)]
    struct Counting {
        asked: AtomicUsize,
    }

    impl ServerCertVerifier for Counting {
        fn verify_server_cert(
            &self,
            _end_entity: &CertificateDer<'_>,
            _intermediates: &[CertificateDer<'_>],
            server_name: &ServerName<'_>,
            _ocsp_response: &[u8],
            _now: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if server_name.to_str() == "bad.test" {
                return Err(CertificateError::NotValidForName.into());
            }
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(CertificateError::BadSignature.into())
        }

        fn verify_tls13_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(CertificateError::BadSignature.into())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            Vec::new()
        }
    }

    struct Bench {
        counting: Arc<Counting>,
        chains: RecentChains,
    }

    impl Bench {
        fn new() -> Self {
            let counting = Arc::new(Counting::default());
            let chains = RecentChains::new(Arc::clone(&counting) as Arc<dyn ServerCertVerifier>);
            Self { counting, chains }
        }

        /// Whether the chain is taken, and whether the verifier inside was asked.
        fn verify(&self, chain: &[&[u8]], name: &str, ocsp: &[u8], at: u64) -> (bool, bool) {
            let before = self.counting.asked.load(Ordering::Relaxed);
            let chain: Vec<CertificateDer<'_>> = chain
                .iter()
                .map(|&bytes| CertificateDer::from(bytes))
                .collect();
            let name = ServerName::try_from(name).expect("a name");
            let now = UnixTime::since_unix_epoch(Duration::from_secs(at));
            let outcome = self
                .chains
                .verify_server_cert(&chain[0], &chain[1..], &name, ocsp, now);
            let asked = self.counting.asked.load(Ordering::Relaxed) > before;
            (outcome.is_ok(), asked)
        }
    }

    const CHAIN: &[&[u8]] = &[b"leaf", b"middle"];

    #[test]
    fn a_chain_that_held_holds_for_a_minute_and_not_before_its_time() {
        let bench = Bench::new();
        assert_eq!(bench.verify(CHAIN, "a.test", b"", 100), (true, true));
        assert_eq!(bench.verify(CHAIN, "a.test", b"", 100), (true, false));
        assert_eq!(bench.verify(CHAIN, "a.test", b"", 159), (true, false));
        assert_eq!(bench.verify(CHAIN, "a.test", b"", 160), (true, true));
        assert_eq!(bench.verify(CHAIN, "a.test", b"", 99), (true, true));
    }

    #[test]
    fn a_chain_that_held_says_nothing_of_another_name_chain_or_staple() {
        let bench = Bench::new();
        assert_eq!(bench.verify(CHAIN, "a.test", b"", 100), (true, true));
        assert_eq!(bench.verify(CHAIN, "bad.test", b"", 100), (false, true));
        assert_eq!(bench.verify(CHAIN, "127.0.0.1", b"", 100), (true, true));
        let others: [&[&[u8]]; 6] = [
            &[b"leaf"],
            &[b"leafm", b"iddle"],
            &[b"leaf", b"middle", b""],
            &[b"middle", b"leaf"],
            &[b"", b"leaf", b"middle"],
            &[b"leaf", b"middle", b"a.test"],
        ];
        for other in others {
            assert_eq!(bench.verify(other, "a.test", b"", 100), (true, true));
        }
        assert_eq!(bench.verify(CHAIN, "a.test", b"new", 100), (true, true));
    }

    #[test]
    fn a_chain_that_failed_is_not_remembered() {
        let bench = Bench::new();
        assert_eq!(bench.verify(CHAIN, "bad.test", b"", 100), (false, true));
        assert_eq!(bench.verify(CHAIN, "bad.test", b"", 100), (false, true));
    }

    #[test]
    fn a_flood_of_chains_fills_no_memory_and_pushes_none_out() {
        let bench = Bench::new();
        assert_eq!(bench.verify(CHAIN, "a.test", b"", 100), (true, true));
        for number in 0..5_000_u32 {
            bench.verify(&[&number.to_be_bytes()], "a.test", b"", 100);
        }
        let held = || bench.chains.held.lock().expect("no panic").len();
        assert_eq!(held(), MAX_CHAINS);
        assert_eq!(bench.verify(CHAIN, "a.test", b"", 100), (true, false));
        assert_eq!(bench.verify(&[b"later"], "a.test", b"", 200), (true, true));
        assert_eq!(held(), 1);
    }
}
