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
