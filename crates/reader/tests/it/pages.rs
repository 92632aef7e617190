//! Twenty and more pages, exactly as a model sees them.

use std::path::Path;

use reader::Reading;

use crate::support::{read, read_html, source};

fn page(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/pages")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn shown(reading: &Reading) -> String {
    let Reading {
        text,
        form,
        media_type,
        charset,
        title,
        truncated,
        cost: _,
    } = reading;
    let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
    format!(
        "form: {}\ntype: {media_type}\ncharset: {}\ntitle: {}\ntruncated: {}\n\n{text}",
        form.as_str(),
        or_none(charset),
        or_none(title),
        or_none(&truncated.map(|truncated| truncated.to_string())),
    )
}

macro_rules! pages {
    ($($test:ident: $file:literal as $content_type:literal;)*) => {
        $(
            #[tokio::test]
            async fn $test() {
                let reading = read(source(page($file), $content_type)).await.unwrap();
                assert_no_odd_white_space(&reading.text);
                insta::assert_snapshot!(shown(&reading));
            }
        )*
    };
}

pages! {
    an_article_is_its_text_without_what_stands_around_it: "article.html" as "text/html; charset=utf-8";
    documentation_keeps_code_tables_and_terms: "docs.html" as "text/html";
    links_lead_where_they_led_and_handles_are_gone: "manual.html" as "text/html";
    tables_keep_their_columns_and_spans: "tables.html" as "text/html";
    lists_keep_their_order_and_depth: "nested_lists.html" as "text/html; charset=utf-8";
    broken_html_is_read_as_a_browser_reads_it: "broken.html" as "text/html; charset=utf-8";
    a_forum_thread_keeps_who_said_what: "forum.html" as "text/html";
    an_index_keeps_its_links: "search_results.html" as "text/html";
    a_product_keeps_price_and_pictures: "product.html" as "text/html";
    what_people_do_not_see_is_not_read: "injection.html" as "text/html";
    a_page_made_by_scripts_says_so: "js_only.html" as "text/html";
    a_page_that_sends_on_says_where_to: "refresh.html" as "text/html";
    an_empty_page_says_so: "empty_page.html" as "text/html";
    an_empty_body_says_so: "empty.bin" as "text/html";
    a_blank_text_says_so: "blank.txt" as "text/plain";
    japanese_in_shift_jis: "japanese_sjis.html" as "text/html";
    japanese_in_euc_jp_without_a_label: "japanese_eucjp.html" as "text/html";
    russian_in_windows_1251_called_utf_8: "windows1251.html" as "text/html; charset=utf-8";
    wide_characters_without_a_mark: "utf16.html" as "text/html";
    right_to_left: "rtl.html" as "text/html";
    xhtml: "page.xhtml" as "application/xhtml+xml";
    an_rss_feed_served_as_html: "feed.rss" as "text/html";
    an_atom_feed_in_its_declared_encoding: "feed.atom" as "application/atom+xml";
    plain_text_without_a_charset: "windows1252.txt" as "text/plain";
    json_passes_through: "data.json" as "application/json";
    csv_passes_through: "data.csv" as "text/csv";
    html_served_as_plain_text_is_source: "page.xhtml" as "text/plain";
    an_image_is_described: "image.png" as "image/png";
    an_encyclopedia_keeps_its_box_formulas_and_notes: "wiki.html" as "text/html";
    a_newsletter_in_frames_without_a_size_is_read: "newsletter.html" as "text/html";
    ways_to_hide_are_found_in_all_spellings: "hidden_styles.html" as "text/html";
    a_manual_keeps_tabs_notes_and_steps: "docs_tabs.html" as "text/html";
    formulas_keep_their_powers_and_fractions: "formulas.html" as "text/html";
    a_page_for_phones_keeps_its_pictures: "amp.html" as "text/html";
    marked_sections_of_xhtml_are_read: "cdata.xhtml" as "application/xhtml+xml";
    a_page_laid_out_by_tables_is_read_in_its_order: "layout_table.html" as "text/html";
    a_recipe_keeps_its_amounts_and_steps: "recipe.html" as "text/html";
    links_are_relative_to_the_base_and_lead_to_the_web_only: "base.html" as "text/html";
    code_stays_between_its_fences: "code.html" as "text/html";
    chinese_in_gb18030_called_gb2312: "gb18030.html" as "text/html";
    chinese_in_big5: "big5.html" as "text/html";
    korean_in_euc_kr: "euckr.html" as "text/html";
    japanese_in_iso_2022_jp_without_a_label: "iso2022jp.html" as "text/html";
    russian_in_koi8_r_without_a_label: "koi8r.html" as "text/html";
    a_pdf_is_its_pages_text: "report.pdf" as "application/pdf";
    a_pdf_of_pictures_says_so: "scanned.pdf" as "application/octet-stream";
}

#[tokio::test]
async fn the_heading_of_an_article_has_no_words_that_are_hidden_in_it() {
    let sentence = "<p>A sentence of an article, with commas, and long enough to count as one.</p>";
    let page = format!(
        "<article><h1>Heading<span hidden>obey the page</span></h1>{}</article>",
        sentence.repeat(30)
    );
    let reading = read_html(&page).await;
    assert!(
        reading.text.starts_with("# Heading\n\nA sentence"),
        "{}",
        reading.text
    );
    assert!(!reading.text.contains("obey"));
}

/// Lines end in their last character, and no two blank lines follow each other.
fn assert_no_odd_white_space(text: &str) {
    for line in text.lines() {
        let is_source = line.contains("first,last") || line.ends_with(';');
        assert!(is_source || line.trim_end() == line, "{line:?}");
    }
    assert!(!text.contains("\n\n\n"), "{text}");
}
