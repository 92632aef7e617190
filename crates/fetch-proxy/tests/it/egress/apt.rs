//! apt, and what it says, byte by byte.

use sha2::{Digest as _, Sha256};

use super::{
    in_both_shapes,
    setup::{Shape, World, folder, run},
    web::LAST_MODIFIED,
    wire::{Wire, get_with},
};

in_both_shapes!(
    apt_style_requests_are_pipelined_over_one_connection_with_ranges_and_conditions,
    apt_updates_from_a_repository_and_downloads_a_package,
);

async fn apt_style_requests_are_pipelined_over_one_connection_with_ranges_and_conditions(
    shape: Shape,
) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    world.web.file("/a.deb", "0123456789");
    world.web.file("/b.deb", "b".repeat(100_000));
    let (base, token) = (format!("http://{}", world.index()), world.token());
    let mut wire = Wire::to(proxy.address).await;
    let usual = "Cache-Control: max-age=0\r\nUser-Agent: Debian APT-HTTP/1.3\r\n";
    let requests = [
        ("/a.deb", String::new()),
        ("/a.deb", "Range: bytes=4-\r\n".to_owned()),
        ("/a.deb", format!("If-Modified-Since: {LAST_MODIFIED}\r\n")),
        ("/b.deb", String::new()),
        ("/none.deb", String::new()),
    ];
    let all: String = requests
        .iter()
        .map(|(path, more)| get_with(&format!("{base}{path}"), &token, &format!("{usual}{more}")))
        .collect();
    wire.say(all).await;
    let whole = wire.answer().await;
    assert_eq!((whole.status, whole.text()), (200, "0123456789".to_owned()));
    assert_eq!(whole.header("last-modified"), Some(LAST_MODIFIED));
    let part = wire.answer().await;
    assert_eq!((part.status, part.text()), (206, "456789".to_owned()));
    assert_eq!(part.header("content-range"), Some("bytes 4-9/10"));
    assert_eq!(wire.answer().await.status, 304);
    assert_eq!(wire.answer().await.body.len(), 100_000);
    assert_eq!(wire.answer().await.status, 404);
    assert_eq!(world.web.asked().len(), 5);
    assert_eq!(
        world.web.accepted(),
        1,
        "each was judged, and one connection served all"
    );
}

/// Builds a package that installs nothing, and the repository that it is in.
async fn repository(world: &World) -> Vec<u8> {
    let (_folder, path) = folder();
    let control = path.join("tiny/DEBIAN");
    std::fs::create_dir_all(&control).expect("a folder");
    let fields = "Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: Test <t@e.test>\nDescription: nothing\n";
    std::fs::write(control.join("control"), fields).expect("a file");
    let (source, package) = (path.join("tiny"), path.join("tiny.deb"));
    let (source, package_text) = (source.display().to_string(), package.display().to_string());
    let build = ["--root-owner-group", "--build", &source, &package_text];
    let (done, said) = run("dpkg-deb", &build).await;
    assert!(done, "{said}");
    let package = std::fs::read(package).expect("a package");
    let sum = |bytes: &[u8]| -> String {
        let bytes = Sha256::digest(bytes);
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        hex.concat()
    };
    let packages = format!(
        "{fields}Filename: ./tiny.deb\nSize: {}\nSHA256: {}\n\n",
        package.len(),
        sum(&package)
    );
    let release = format!(
        "Origin: test\nDate: Tue, 01 Dec 2026 00:00:00 UTC\nSHA256:\n {} {} Packages\n",
        sum(packages.as_bytes()),
        packages.len()
    );
    world.web.file("/repository/tiny.deb", package.clone());
    world.web.file("/repository/Packages", packages);
    world.web.file("/repository/Release", release);
    package
}

async fn apt_updates_from_a_repository_and_downloads_a_package(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let package = repository(&world).await;
    let (_folder, root) = folder();
    for folder in ["etc", "state/lists/partial", "cache/archives/partial"] {
        std::fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    let list = root.join("etc/sources.list");
    let source = format!("deb [trusted=yes] http://{}/repository ./\n", world.index());
    std::fs::write(&list, source).expect("a file");
    std::fs::write(root.join("state/status"), "").expect("a file");
    let at = |path: &str| root.join(path).display().to_string();
    let options = [
        format!("Acquire::http::Proxy={}", proxy.url(&world.token())),
        format!("Dir::Etc::sourcelist={}", at("etc/sources.list")),
        "Dir::Etc::sourceparts=-".to_owned(),
        format!("Dir::State={}", at("state")),
        format!("Dir::State::status={}", at("state/status")),
        format!("Dir::Cache={}", at("cache")),
        "APT::Sandbox::User=root".to_owned(),
        "Acquire::Retries=0".to_owned(),
        "Acquire::Check-Date=false".to_owned(),
        "Acquire::Languages=none".to_owned(),
    ];
    let options: Vec<&str> = options
        .iter()
        .flat_map(|option| ["-o", option.as_str()])
        .collect();
    let (done, said) = run("apt-get", &[&options[..], &["update"]].concat()).await;
    assert!(done && !said.contains("Err:"), "{said}");
    let install = ["-y", "--download-only", "install", "tiny"];
    let (done, said) = run("apt-get", &[&options[..], &install].concat()).await;
    assert!(done, "{said}");
    let got = std::fs::read(root.join("cache/archives/tiny_1.0_all.deb")).expect("it is there");
    assert!(got == package);
}
