use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    thread,
};

use proptest::prelude::*;

use super::*;

const ROW: Identity<'static> = Identity {
    kind: "mcp_server",
    id: "0193fb11-0000-7000-8000-000000000000",
    field: "headers.authorization",
};

fn vault() -> Vault {
    Vault::new(&Secret::new("an example of thirty-two bytes.!")).expect("it is long enough")
}

fn sealed() -> Sealed {
    vault()
        .seal(&ROW, &Secret::new("Bearer hunter2"))
        .expect("it is sealed")
}

#[test]
fn a_sealed_value_unseals_where_it_was_sealed_for() {
    let value = vault()
        .unseal(&ROW, &sealed())
        .map(|v| v.expose().to_owned());
    assert_eq!(value, Ok("Bearer hunter2".to_owned()));
}

#[test]
fn a_value_moved_to_another_row_or_field_does_not_unseal() {
    let moved = [
        Identity {
            kind: "connector",
            ..ROW
        },
        Identity {
            id: "0193fb11-0000-7000-8000-000000000001",
            ..ROW
        },
        Identity {
            field: "headers.cookie",
            ..ROW
        },
        // The parts run together alike.
        Identity {
            kind: "mcp_serve",
            id: "r0193fb11-0000-7000-8000-000000000000",
            ..ROW
        },
    ];
    for identity in moved {
        let result = vault().unseal(&identity, &sealed()).map(|_| ());
        assert_eq!(result, Err(UnsealError::Corrupt), "{identity:?}");
    }
}

#[test]
fn every_tampered_byte_is_noticed() {
    let sealed = sealed();
    let (nonce, ciphertext) = sealed.split().expect("it is long enough");
    let whole: Vec<u8> = nonce.iter().chain(ciphertext).copied().collect();
    for place in 0..whole.len() {
        let mut tampered = whole.clone();
        tampered[place] ^= 1;
        let tampered = Sealed::new(sealed.key_id(), tampered);
        let result = vault().unseal(&ROW, &tampered).map(|_| ());
        assert_eq!(result, Err(UnsealError::Corrupt), "byte {place}");
    }
    for length in 0..whole.len() {
        let cut = Sealed::new(sealed.key_id(), whole[..length].to_vec());
        assert_eq!(
            vault().unseal(&ROW, &cut).map(|_| ()),
            Err(UnsealError::Corrupt)
        );
    }
}

#[test]
fn a_rotated_secret_is_told_from_damage() {
    let rotated =
        Vault::new(&Secret::new("another secret of thirty-three by")).expect("it is long enough");
    let error = rotated
        .unseal(&ROW, &sealed())
        .map(|_| ())
        .expect_err("another key");
    assert_eq!(error, UnsealError::WrongKey);
    assert!(
        error
            .to_string()
            .starts_with("credentials unreadable, enter them again")
    );
}

#[test]
fn the_same_value_is_never_sealed_to_the_same_text() {
    assert_ne!(sealed().to_string(), sealed().to_string());
}

#[test]
fn a_short_secret_is_refused_with_what_to_do() {
    let error = Vault::new(&Secret::new("short"))
        .map(|_| ())
        .expect_err("too short");
    assert_eq!(error, SealError::ShortSecret(5));
    assert!(error.to_string().contains("BETTER_AUTH_SECRET"));
}

#[test]
fn a_value_that_is_too_long_is_refused() {
    let value = Secret::new("x".repeat(VALUE_BYTES + 1));
    assert_eq!(
        vault().seal(&ROW, &value),
        Err(SealError::TooLong(VALUE_BYTES + 1))
    );
    let longest = vault()
        .seal(&ROW, &Secret::new("x".repeat(VALUE_BYTES)))
        .expect("it fits");
    assert_eq!(longest.to_string().parse(), Ok(longest));
}

#[test]
fn debug_shows_neither_key_nor_value() {
    let vault = vault();
    let shown = format!("{vault:?} {:?}", sealed());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.len() < 200, "{shown}");
}

#[test]
fn texts_that_are_no_sealed_values_are_refused() {
    let good = sealed().to_string();
    assert_eq!(
        good.parse(),
        Ok::<_, InvalidSealed>(good.parse::<Sealed>().expect("it is one"))
    );
    for bad in [
        "",
        "v1",
        "v1..",
        "v2.AAAAAAAA.AAAA",
        &format!("{good}."),
        &format!("{good}="),
        &good.replace("v1.", "v1"),
        &good[..good.len() / 2],
        &"v1.AAAAAAAA.".repeat(10_000),
    ] {
        assert_eq!(bad.parse::<Sealed>(), Err(InvalidSealed), "{bad:.40}");
    }
}

proptest! {
    #[test]
    fn whatever_is_sealed_comes_back(value in ".{0,400}", kind in ".{0,9}", id in ".{0,9}", field in ".{0,9}") {
        let identity = Identity { kind: &kind, id: &id, field: &field };
        let vault = vault();
        let sealed = vault.seal(&identity, &Secret::new(value.clone())).expect("it is sealed");
        let stored: Sealed = sealed.to_string().parse().expect("it reads back");
        prop_assert_eq!(&stored, &sealed);
        let back = vault.unseal(&identity, &stored).expect("it unseals");
        prop_assert_eq!(back.expose(), value);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(v1\\.)?.{0,60}") {
        drop(text.parse::<Sealed>());
    }
}

#[test]
fn the_secret_is_made_once_for_this_user_alone() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let made = load_or_create_secret(directory.path()).expect("it is made");
    let again = load_or_create_secret(directory.path()).expect("it is read");
    assert_eq!(made.expose(), again.expose());
    assert!(Vault::new(&made).is_ok());
    let permissions = fs::metadata(directory.path().join(SECRET_FILE))
        .expect("it exists")
        .mode();
    assert_eq!(permissions & 0o777, 0o600);
    assert_eq!(
        fs::read_dir(directory.path())
            .expect("it is listed")
            .count(),
        1
    );
}

#[test]
fn all_that_come_first_get_the_same_secret() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let path = directory.path();
    let secrets: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    load_or_create_secret(path)
                        .expect("one secret")
                        .expose()
                        .to_owned()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert!(secrets.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(fs::read_dir(path).expect("it is listed").count(), 1);
}

#[test]
fn a_secret_that_others_can_read_is_refused() {
    let directory = tempfile::TempDir::new().expect("a directory");
    load_or_create_secret(directory.path()).expect("it is made");
    let file = directory.path().join(SECRET_FILE);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("its mode");
    let error = load_or_create_secret(directory.path()).expect_err("others can read it");
    assert!(
        matches!(error, SecretFileError::Exposed { mode: 0o644, .. }),
        "{error}"
    );
}

#[test]
fn a_damaged_secret_is_refused_and_never_replaced() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let file = directory.path().join(SECRET_FILE);
    fs::write(&file, "cut").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
    let error = load_or_create_secret(directory.path()).expect_err("it is damaged");
    assert!(
        matches!(error, SecretFileError::Damaged { bytes: 3, .. }),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "cut");
}
