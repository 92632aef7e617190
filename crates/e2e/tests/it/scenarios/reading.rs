//! How a model reads the web: as Markdown, in pieces of one snapshot, and without what others have read.

use serde_json::json;
use testkit::origin::Reply;

use super::{in_both_shapes, site::Site};
use crate::village::{OPERATOR_TOKEN, Shape};

in_both_shapes!(
    an_html_page_reaches_the_model_as_markdown,
    a_long_page_is_read_in_pieces_of_one_snapshot,
    a_snapshot_is_shared_with_no_other_npc_and_no_other_player,
);

const HTML: &str = r#"<!doctype html><html lang="en"><head><title>Tides of Saltmarsh</title>
<style>body { color: navy }</style><script>stealCookies()</script></head><body>
<nav><a href="/">Home</a><a href="/login">Log in</a></nav>
<main><article><h1>Tides of Saltmarsh</h1>
<p>The tide turns <strong>twice</strong> a day at Saltmarsh, and the harbour master writes both times on the board by the
<a href="/harbour">harbour gate</a>. Boats of more than two metres draught wait for the flood.</p>
<p>In spring the water stands highest. Fishers then leave in the hour before dawn, and come home with the ebb, which is when the
market opens and the bell rings for the first sale of the day.</p>
<table><thead><tr><th>Port</th><th>Height</th></tr></thead><tbody><tr><td>Saltmarsh</td><td>4.2 m</td></tr></tbody></table>
<pre><code>tide --port saltmarsh</code></pre>
</article></main></body></html>"#;

async fn an_html_page_reaches_the_model_as_markdown(shape: Shape) {
    let site = Site::start(shape).await;
    site.reader("reader", &[]);
    let reply = Reply::ok("text/html; charset=utf-8", HTML);
    site.origin.serve("/tides", reply);
    let call = json!({"url": site.url("/tides")});
    let told = site.read("reader", "c", &[call]).await.remove(0);
    for line in [
        "# Tides of Saltmarsh",
        "**twice**",
        &format!("[harbour gate]({})", site.url("/harbour")),
        "| Saltmarsh | 4.2 m",
        "tide --port saltmarsh",
    ] {
        assert!(told.contains(line), "no {line:?} in {told}");
    }
    for markup in ["<p>", "<table", "stealCookies", "color: navy"] {
        assert!(!told.contains(markup), "{markup:?} in {told}");
    }
    site.village.finish().await;
}

/// So many lines that the page comes in several pieces.
const LINES: usize = 1_500;

fn long_page(edition: &str) -> String {
    let lines: Vec<String> = (0..LINES)
        .map(|line| format!("{edition} edition, line {line:04}.\n"))
        .collect();
    lines.concat()
}

/// The lines of an edition that a model was told of.
fn lines_of(edition: &str, told: &str) -> Vec<usize> {
    let start = format!("{edition} edition, line ");
    told.lines()
        .filter_map(|line| line.strip_prefix(&start)?.strip_suffix('.')?.parse().ok())
        .collect()
}

/// Where a model is told to go on.
fn next_index(told: &str) -> Option<u64> {
    let lead = told.split("<<<data").next().unwrap_or_default();
    let (_, after) = lead.split_once("start_index")?;
    let digits: String = after
        .chars()
        .skip_while(|character| !character.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

async fn a_long_page_is_read_in_pieces_of_one_snapshot(shape: Shape) {
    let site = Site::start(shape).await;
    site.reader("reader", &[]);
    site.origin.serve("/long", Reply::text(long_page("old")));
    let url = site.url("/long");
    let first = json!({"url": url});
    let mut told = site.read("reader", "piece-0", &[first]).await.remove(0);
    // From here on the page is another one.
    site.origin.serve("/long", Reply::text(long_page("new")));
    let mut lines = lines_of("old", &told);
    let mut pieces = 1;
    while let Some(next) = next_index(&told) {
        let call = json!({"url": url, "start_index": next});
        let conversation = format!("piece-{pieces}");
        told = site.read("reader", &conversation, &[call]).await.remove(0);
        assert!(!told.contains("new edition"), "{told}");
        lines.extend(lines_of("old", &told));
        pieces += 1;
        assert!(pieces < 50, "it does not end");
    }
    assert!(pieces > 2, "{pieces}");
    assert_eq!(lines, (0..LINES).collect::<Vec<_>>());
    assert_eq!(site.origin.requests().len(), 1);

    // Whoever starts again gets the page as it is now.
    let first = json!({"url": url});
    let told = site.read("reader", "again", &[first]).await.remove(0);
    assert!(told.contains("new edition, line 0000."), "{told}");
    site.village.finish().await;
}

async fn a_snapshot_is_shared_with_no_other_npc_and_no_other_player(shape: Shape) {
    let site = Site::start(shape).await;
    site.reader("one", &[]);
    site.reader("two", &[]);
    let player = site.village.cli_json(&["player", "create", "Ada"]);
    let ada = player["token"].as_str().unwrap().to_owned();
    site.origin.serve("/long", Reply::text(long_page("old")));
    let url = site.url("/long");
    let start = json!({"url": url});
    let told = site.read("one", "first", &[start]).await.remove(0);
    let next = next_index(&told).unwrap();
    site.origin.serve("/long", Reply::text(long_page("new")));
    let on = [json!({"url": url, "start_index": next})];
    for (token, npc, edition) in [
        (OPERATOR_TOKEN, "two", "new"),
        (ada.as_str(), "one", "new"),
        (ada.as_str(), "two", "new"),
        (OPERATOR_TOKEN, "one", "old"),
    ] {
        let conversation = format!("{npc}-{edition}-{}", token.len());
        let told = site.read_as(token, npc, &conversation, &on).await.remove(0);
        let other = if edition == "new" { "old" } else { "new" };
        assert!(!lines_of(edition, &told).is_empty(), "{npc}: {told}");
        assert!(lines_of(other, &told).is_empty(), "{npc}: {told}");
    }
    site.village.finish().await;
}
