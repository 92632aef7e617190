//! pip, from an index on loopback that an Operator opened.

use super::{
    in_both_shapes,
    setup::{Shape, World, folder, run},
    web::Web,
};

in_both_shapes!(pip_downloads_by_absolute_form_and_over_a_tunnel);

/// Makes a wheel that installs nothing.
const MAKE_WHEEL: &str = r"
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    info = 'tiny-1.0.dist-info/'
    wheel.writestr('tiny.py', 'answer = 42\n')
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr(info + 'RECORD', '')
";
const WHEEL: &str = "tiny-1.0-py3-none-any.whl";

fn serve_index(web: &Web, wheel: &[u8]) {
    let page = format!("<!DOCTYPE html><a href=\"/files/{WHEEL}\">{WHEEL}</a>");
    web.file("/simple/tiny/", page);
    web.answer("/simple/tiny/", 200, &[("content-type", "text/html")]);
    web.file(&format!("/files/{WHEEL}"), wheel.to_vec());
}

async fn pip_downloads_by_absolute_form_and_over_a_tunnel(shape: Shape) {
    let world = World::start().await;
    let proxy = world.proxy(shape, &[]).await;
    let (_folder, path) = folder();
    let made = path.join(WHEEL);
    let (done, said) = run("python3", &["-c", MAKE_WHEEL, &made.display().to_string()]).await;
    assert!(done, "{said}");
    let wheel = std::fs::read(&made).expect("a wheel");
    let ca = world.authority.pem_path().display().to_string();
    for (web, index) in [
        (&world.web, format!("http://{}/simple/", world.index())),
        (&world.secure, format!("https://{}/simple/", world.secure())),
    ] {
        serve_index(web, &wheel);
        let (_folder, target) = folder();
        let (to, proxy_url) = (target.display().to_string(), proxy.url(&world.token()));
        let mut arguments = vec!["-m", "pip", "download", "--isolated", "--no-deps"];
        arguments.extend([
            "--no-cache-dir",
            "--disable-pip-version-check",
            "--retries=0",
        ]);
        arguments.extend(["--proxy", &proxy_url, "--index-url", &index, "-d", &to]);
        if index.starts_with("https") {
            arguments.extend(["--cert", &ca]);
        } else {
            arguments.extend(["--trusted-host", "index.test"]);
        }
        arguments.push("tiny");
        let (done, said) = run("python3", &arguments).await;
        assert!(done, "{said}");
        assert_eq!(
            std::fs::read(target.join(WHEEL)).expect("it is there"),
            wheel
        );
        assert!(web.asked().len() >= 2, "{:?}", web.asked());
    }
}
