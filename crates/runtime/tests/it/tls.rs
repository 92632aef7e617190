//! TLS between services.

use std::{fs, path::Path};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use runtime::{
    Transport,
    tls::{TlsError, TlsSettings},
};
use tonic::Code;

use crate::support::{Rig, ask, local};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn write(&self, directory: &Path, name: &str) -> String {
        let path = directory.join(name);
        fs::write(&path, self.0.pem()).unwrap();
        path.display().to_string()
    }

    /// A certificate for localhost and its key.
    fn issue(&self, directory: &Path, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".to_owned()])
            .unwrap()
            .signed_by(&key, &self.0)
            .unwrap();
        let paths = [format!("{name}.pem"), format!("{name}.key")].map(|name| directory.join(name));
        fs::write(&paths[0], certificate.pem()).unwrap();
        fs::write(&paths[1], key.serialize_pem()).unwrap();
        let [certificate, key] = paths.map(|path| path.display().to_string());
        (certificate, key)
    }
}

#[tokio::test]
async fn with_a_client_authority_only_its_clients_get_through() {
    let rig = Rig::named("secure");
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let ca = ours.write(directory.path(), "ca.pem");
    let (certificate, key) = ours.issue(directory.path(), "server");
    let server = TlsSettings {
        certificate,
        key,
        client_ca: ca.clone(),
        ca: String::new(),
    };
    let address = rig
        .host()
        .with_tls(server.server().unwrap())
        .listen(local())
        .await
        .unwrap();
    let url = format!("https://localhost:{}", address.port());
    let ask_with = async |settings: TlsSettings| {
        let tls = settings.client().unwrap();
        ask(
            &rig.peer(Transport::remote(&url, tls.as_ref()).unwrap()),
            "name",
        )
        .await
    };
    let client = |authority: &Authority, name: &str, ca: &str| {
        let (certificate, key) = authority.issue(directory.path(), name);
        TlsSettings {
            certificate,
            key,
            client_ca: String::new(),
            ca: ca.to_owned(),
        }
    };
    assert_eq!(
        ask_with(client(&ours, "client", &ca)).await.unwrap(),
        "secure"
    );
    let without_certificate = TlsSettings {
        ca: ca.clone(),
        ..TlsSettings::default()
    };
    let stranger = client(&theirs, "stranger", &ca);
    let distrustful = client(
        &ours,
        "other",
        &theirs.write(directory.path(), "their-ca.pem"),
    );
    for refused in [without_certificate, stranger, distrustful] {
        assert_eq!(
            ask_with(refused).await.unwrap_err().code(),
            Code::Unavailable
        );
    }
    // Without TLS there is no way in either.
    let plain = rig.peer(crate::support::remote(address));
    assert_eq!(
        ask(&plain, "name").await.unwrap_err().code(),
        Code::Unavailable
    );
}

#[test]
fn settings_that_do_not_fit_are_sentences() {
    let directory = tempfile::tempdir().unwrap();
    let junk = directory.path().join("junk.pem");
    fs::write(&junk, "hunter2").unwrap();
    let junk = junk.display().to_string();
    let with = |certificate: &str, key: &str, client_ca: &str, ca: &str| TlsSettings {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        client_ca: client_ca.to_owned(),
        ca: ca.to_owned(),
    };
    assert!(with("", "", "", "").server().unwrap().is_none());
    assert!(with("", "", "", "").client().unwrap().is_none());
    assert!(matches!(
        with(&junk, "", "", "").server(),
        Err(TlsError::Half)
    ));
    assert!(matches!(
        with("", "", &junk, "").server(),
        Err(TlsError::ClientCaAlone)
    ));
    assert!(matches!(
        with("/nonexistent", &junk, "", "").server(),
        Err(TlsError::Unreadable {
            setting: "tls.certificate",
            ..
        })
    ));
    assert!(matches!(
        with("", "", "", &junk).client(),
        Err(TlsError::NoPem {
            setting: "tls.ca",
            ..
        })
    ));
    let error = with(&junk, &junk, "", "").server().unwrap_err().to_string();
    assert!(!error.contains("hunter2"), "{error}");
}
