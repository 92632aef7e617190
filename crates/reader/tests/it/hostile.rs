//! Pages made to cost: each ends in a useful reading, and what its child took at most is printed and bounded.

use reader::{Form, Reading};

use crate::support::{read, read_html, source};

/// What the worst page may cost, the program's own pages included.
const MEMORY_BYTES: u64 = 64 * 1_024 * 1_024;

/// The page as it is read, once it is seen that the child was bounded.
async fn bounded(what: &str, page: String) -> Reading {
    let bytes = page.len();
    let reading = read_html(&page).await;
    print_cost(what, bytes, &reading);
    reading
}

fn print_cost(what: &str, bytes: usize, reading: &Reading) {
    let cost = reading.cost.map_or_else(
        || "the child did not end by itself".to_owned(),
        |cost| {
            format!(
                "{} KiB, {} ms of a core",
                cost.memory_bytes / 1_024,
                cost.core_micros / 1_000
            )
        },
    );
    println!("{what}: {bytes} bytes, {}, {cost}", reading.form.as_str());
    if let Some(cost) = reading.cost {
        assert!(cost.memory_bytes < MEMORY_BYTES, "{what}: {cost:?}");
    }
}

/// The page is read as a page, not as a fallback, and its last word is there.
fn assert_read(reading: &Reading, word: &str) {
    assert_eq!(
        reading.form,
        Form::Markdown,
        "{}",
        &reading.text[..reading.text.len().min(500)]
    );
    assert!(reading.text.contains(word), "{word} is missing");
}

/// What `piece` makes of each number.
fn each(numbers: std::ops::Range<usize>, piece: impl Fn(usize) -> String) -> String {
    numbers.map(piece).collect::<Vec<_>>().concat()
}

fn nested(open: &str, close: &str, times: usize) -> String {
    format!(
        "{}deepest{}<p>afterwards",
        open.repeat(times),
        close.repeat(times)
    )
}

#[tokio::test]
async fn bombs_of_100_000_nested_elements_keep_their_text() {
    for open in [
        "<div>",
        "<span>",
        "<blockquote>",
        "<ul><li>",
        "<section>",
        "<x-y>",
        "<em>",
        "<font size=1>",
        "<dl><dd>",
    ] {
        let name = open[1..].split(['>', ' ']).next().unwrap();
        let reading = bounded(open, nested(open, &format!("</{name}>"), 100_000)).await;
        assert_read(&reading, "deepest");
    }
    let reading = bounded(
        "b with attributes",
        each(0..100_000, |n| format!("<b id={n} style='x:{n}'>")) + "deepest",
    )
    .await;
    assert_read(&reading, "deepest");
    let reading = bounded(
        "links",
        each(0..100_000, |n| format!("<a href=/{n}><div>")) + "deepest",
    )
    .await;
    assert_eq!(reading.form, Form::Markdown);
}

#[tokio::test]
async fn bombs_of_nested_tables_are_read_or_said_to_be_cut() {
    for open in ["<table>", "<table><tr><td>", "<table><tbody><tr><td><p>"] {
        let reading = bounded(open, nested(open, "", 100_000)).await;
        assert_eq!(reading.form, Form::Markdown);
        assert!(reading.text.contains("deepest") || reading.truncated.is_some());
    }
}

#[tokio::test]
async fn bombs_of_a_million_siblings_are_cut_and_say_so() {
    for sibling in [
        "<p>x",
        "<br>",
        "<li>y</li>",
        "<i>z</i>",
        "</p>",
        "<td>c",
        "<a href=/x>l</a> ",
        "<img src=i alt=a>",
    ] {
        let reading = bounded(
            sibling,
            format!("<h1>first</h1>{}", sibling.repeat(1_000_000)),
        )
        .await;
        assert_read(&reading, "first");
        assert!(reading.truncated.is_some(), "{sibling}");
    }
}

#[tokio::test]
async fn bombs_of_twenty_megabytes_are_read_to_their_bounds() {
    let words = bounded(
        "20 MB of words",
        format!("<p>first {}", "word ".repeat(4_000_000)),
    )
    .await;
    assert_read(&words, "first");
    assert!(words.truncated.is_some());
    let paragraphs = "<p>All happy families are alike; <a href='/x'>each unhappy</a> family is unhappy in its own way.</p>\n";
    let page = bounded(
        "20 MB of paragraphs",
        format!("<h1>first</h1>{}", paragraphs.repeat(200_000)),
    )
    .await;
    assert_read(&page, "first");
    assert!(page.truncated.is_some());
}

#[tokio::test]
async fn bombs_of_attributes_end() {
    let many: String = each(0..400_000, |n| format!(" a{n}=1"));
    let reading = bounded(
        "400,000 attributes of one tag",
        format!("<h1>first</h1><p{many}>last"),
    )
    .await;
    assert_read(&reading, "first");
    let long = bounded(
        "an attribute of 4 MB",
        format!("<h1>first</h1><p class='{}'>last", "x".repeat(4_000_000)),
    )
    .await;
    assert_read(&long, "last");
    let each: String = each(0..50_000, |n| {
        format!("<a href='/{n}/{}'>l</a> ", "y".repeat(80))
    });
    assert_read(
        &bounded("50,000 links", format!("<h1>first</h1>{each}")).await,
        "first",
    );
    let style = format!(
        "<h1>first</h1>{}",
        "<p style='a:b;c:d;e:f;g:h;i:j;k:l' class='a b c d e f g h'>x</p>".repeat(60_000)
    );
    assert_read(&bounded("60,000 styles", style).await, "first");
}

#[tokio::test]
async fn bombs_of_formatting_explode_no_further_than_the_count_of_elements() {
    let marks = "<b><i><u><s><em><strong><code><small><big><tt><strike><font><nobr>";
    let page = format!(
        "<h1>first</h1>{}{}",
        marks.repeat(3),
        "<p>x".repeat(200_000)
    );
    assert_read(
        &bounded("formatting in each paragraph", page).await,
        "first",
    );
    let crossed = format!("<h1>first</h1>{}", "<b><p></b><i></p>x</i>".repeat(100_000));
    assert_read(&bounded("crossed formatting", crossed).await, "first");
    let classes: String = each(0..50_000, |n| format!("<code class=language-{n}><p>"));
    assert_read(
        &bounded(
            "code in 50,000 languages",
            format!("<h1>first</h1>{classes}"),
        )
        .await,
        "first",
    );
    let link = format!(
        "<h1>first</h1><a href='/{}'>{}",
        "z".repeat(2_000),
        "<p>x<div>".repeat(100_000)
    );
    assert_read(&bounded("one long link around all", link).await, "first");
}

#[tokio::test]
async fn bombs_that_never_end_what_they_began() {
    for start in [
        "<!--",
        "<plaintext>",
        "<script>",
        "<style>",
        "<textarea>",
        "<title>",
        "<svg><title>",
        "<![CDATA[",
        "<p a=\"",
        "<p ",
        "<svg><![CDATA[",
        "<noscript>",
        "<template>",
        "<select>",
        "<xmp>",
        "<math><mi>",
    ] {
        let page = format!(
            "<h1>first</h1>{start}{}",
            "never ends < & > ".repeat(100_000)
        );
        assert_read(&bounded(start, page).await, "first");
    }
}

#[tokio::test]
async fn bombs_of_a_huge_table_of_spans_and_of_entities() {
    let rows = "<tr><td>a<td>b<td>c</tr>".repeat(200_000);
    assert_read(
        &bounded(
            "200,000 rows",
            format!("<h1>first</h1><table>{rows}</table>"),
        )
        .await,
        "first",
    );
    let row = format!(
        "<table><tr><td>x</tr><tr>{}</table>",
        "<td>y".repeat(200_000)
    );
    assert_read(
        &bounded("200,000 columns", format!("<h1>first</h1>{row}")).await,
        "first",
    );
    let spans = format!(
        "<table><tr>{}</tr>{}</table>",
        "<td rowspan=65534 colspan=1000>spanned text</td>".repeat(100),
        "<tr><td>z</tr>".repeat(50_000)
    );
    assert_read(
        &bounded("spans", format!("<h1>first</h1>{spans}")).await,
        "first",
    );
    for row in ["<tr><td colspan=64>x", "<tr><td colspan=63>x<td>y"] {
        let wide = format!("<h1>first</h1><table>{}", row.repeat(32_000));
        assert_read(&bounded("wide cells", wide).await, "first");
    }
    let entities = "&amp;&lt;&#x41;&NotEqualTilde;&#xD800;&#0;&bogus;".repeat(50_000);
    assert_read(
        &bounded("entities", format!("<h1>first</h1>{entities}")).await,
        "first",
    );
    assert_read(
        &bounded(
            "NULs",
            format!("<h1>first</h1>{}", "<p>\0x\0</p>".repeat(50_000)),
        )
        .await,
        "first",
    );
}

#[tokio::test]
async fn bombs_for_the_search_for_an_article() {
    let sentence =
        "A sentence, with commas, long enough to count as one, and then some more of it. ";
    let flat = format!(
        "<h1>first</h1>{}",
        format!("<div><p>{sentence}</p></div>").repeat(6_000)
    );
    assert_read(&bounded("6,000 paragraphs", flat).await, "first");
    let deep = format!(
        "<h1>first</h1>{}{}",
        "<div>".repeat(480),
        format!("<p>{sentence}</p>").repeat(5_000)
    );
    assert_read(&bounded("5,000 paragraphs, 480 deep", deep).await, "first");
    let stairs: String = each(0..480, |_| {
        format!("<div class=article><p>{sentence}</p><span>x</span>")
    });
    assert_read(
        &bounded(
            "a paragraph on each of 480 levels",
            format!("<h1>first</h1>{stairs}"),
        )
        .await,
        "first",
    );
    let breaks = format!(
        "<h1>first</h1><div>{sentence}{}</div>",
        format!("<br><br>{sentence}").repeat(6_000)
    );
    assert_read(&bounded("12,000 line breaks", breaks).await, "first");
    let links = format!(
        "<h1>first</h1><p>{}</p>{}",
        sentence.repeat(20),
        "<ul><li><a href=/x>link</a></li></ul>".repeat(4_000)
    );
    assert_read(&bounded("4,000 lists of links", links).await, "first");
}

#[tokio::test]
async fn bombs_in_a_pdf_are_described() {
    for (what, document) in crate::bounds::documents() {
        let bytes = document.len();
        let reading = read(source(document, "application/pdf")).await.unwrap();
        print_cost(what, bytes, &reading);
        assert!(
            matches!(reading.form, Form::Description | Form::Pdf),
            "{reading:?}"
        );
    }
}
