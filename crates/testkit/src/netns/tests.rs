//! What other tests rely on.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use super::*;

fn socket(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

fn exists(name: &str) -> bool {
    Path::new(FOLDER).join(name).exists()
}

#[test]
fn a_listener_inside_is_not_there_for_anybody_outside() {
    let namespace = Namespace::new();
    let listener = namespace
        .run(|| TcpListener::bind("127.0.0.1:0"))
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    assert!(namespace.run(|| TcpStream::connect(address)).is_ok());
    let other = Namespace::new();
    assert!(other.run(|| TcpStream::connect(address)).is_err());
}

#[test]
fn futures_tasks_and_processes_run_inside() {
    let namespace = Namespace::new();
    namespace.ip("address add 192.0.2.77/32 dev lo");
    let bind = async || {
        tokio::net::TcpListener::bind("192.0.2.77:0")
            .await
            .map(|listener| listener.local_addr())
    };
    assert!(namespace.block_on(bind).is_ok());
    let spawned = namespace.block_on(|| namespace.spawn(bind()));
    assert!(spawned.is_ok());
    let shown = namespace
        .start(
            Command::new("ip")
                .args(["-brief", "address"])
                .stdout(Stdio::piped()),
        )
        .and_then(Child::wait_with_output)
        .expect("ip runs");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("192.0.2.77/32"), "{shown}");
}

#[test]
fn a_namespace_ends_with_its_test_also_after_a_panic() {
    let mut name = String::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let namespace = Namespace::new();
        namespace.name().clone_into(&mut name);
        assert!(exists(&name));
        namespace.run(|| panic!("as a failed assertion does"));
    }));
    assert!(panicked.is_err());
    assert!(!exists(&name), "{name} is left");
}

#[test]
fn what_a_killed_test_left_is_removed_by_the_next() {
    // No process has this id: it is beyond the kernel's own maximum.
    let orphan = "avt-4194305-0";
    run_ip(["netns", "add", orphan], "");
    drop(Namespace::new());
    assert!(!exists(orphan));
}

#[test]
fn every_address_but_the_villages_own_is_somewhere_in_the_world() {
    let internet = Internet::new();
    let everywhere = internet
        .world
        .run(|| TcpListener::bind("[::]:0"))
        .expect("a port");
    let port = everywhere.local_addr().expect("an address").port();
    for address in [
        "93.184.216.34",
        "8.8.8.8",
        "10.0.0.5",
        "169.254.169.254",
        "2606:4700:4700::1111",
        "64:ff9b::5db8:d822",
        "fd00::5",
    ] {
        let to = socket(address, port);
        let near = internet
            .village
            .run(|| TcpStream::connect_timeout(&to, Duration::from_secs(10)))
            .unwrap_or_else(|problem| panic!("{to}: {problem}"));
        let (far, from) = everywhere.accept().expect("a connection");
        let met = far.local_addr().expect("an address").ip().to_canonical();
        assert_eq!(met, to.ip());
        assert!(Internet::own_addresses().contains(&from.ip().to_canonical()));
        drop(near);
    }
    for address in Internet::own_addresses() {
        let to = SocketAddr::new(address, port);
        assert!(
            internet.village.run(|| TcpStream::connect(to)).is_err(),
            "{to}"
        );
    }
}

#[test]
fn a_hosts_file_can_be_another_for_one_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let hosts = directory.path().join("hosts");
    fs::write(&hosts, "127.0.0.1 only-here.test\n").expect("a file");
    let mut command = with_file_in_place_of("/etc/hosts", &hosts, "cat");
    let seen = command.arg("/etc/hosts").output().expect("unshare runs");
    assert_eq!(
        String::from_utf8_lossy(&seen.stdout),
        "127.0.0.1 only-here.test\n",
        "{seen:?}"
    );
    let ours = fs::read_to_string("/etc/hosts").expect("a hosts file");
    assert!(!ours.contains("only-here.test"));
}
