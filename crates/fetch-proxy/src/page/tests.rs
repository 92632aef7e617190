use super::*;

/// All pages of a text.
fn pages(text: &str, characters: usize, cutting: Cutting) -> Vec<Page> {
    let (mut pages, mut start) = (Vec::new(), 0);
    loop {
        let page = cut(text, start, characters, cutting);
        let next = page.next;
        pages.push(page);
        match next {
            Some(next) => {
                assert!(next > start, "no progress at {start}");
                start = next;
            }
            None => return pages,
        }
    }
}

fn joined(pages: &[Page]) -> String {
    pages.iter().map(|page| page.text.as_str()).collect()
}

#[test]
fn pages_join_to_the_whole_text_and_never_split_a_character() {
    let mut pieces: Vec<String> = (0..500).map(|n| format!("line {n} é 村 𝄞\n")).collect();
    pieces.push("no line ends here ".repeat(200));
    let text = pieces.concat();
    for cutting in [Cutting::Text, Cutting::Markdown] {
        let pages = pages(&text, 333, cutting);
        assert!(pages.len() > 20);
        assert!(pages.iter().all(|page| page.text.chars().count() <= 333));
        assert_eq!(joined(&pages), text);
    }
}

#[test]
fn a_page_is_no_longer_than_a_model_is_shown() {
    let text = "村".repeat(20_000);
    let page = cut(&text, 0, 12_000, Cutting::Markdown);
    assert!(page.text.len() <= PAGE_BYTES);
    assert_eq!((page.next, page.total), (Some(count(&page.text)), 20_000));
}

#[test]
fn a_start_beyond_the_end_is_said_and_an_empty_text_is_empty() {
    assert_eq!(
        cut("abc", 3, 10, Cutting::Text).text,
        "[There is nothing at character 3: the text has 3 characters.]"
    );
    assert_eq!(cut("abc", u64::MAX, 10, Cutting::Text).next, None);
    assert_eq!(cut("", 0, 10, Cutting::Text).text, "");
}

#[test]
fn a_page_ends_at_a_paragraph_rather_than_at_a_line_rather_than_at_a_word() {
    for (text, first) in [
        ("one two\nthree\n\nfour five", "one two\nthree\n\n"),
        ("one two three\nfour five six", "one two three\n"),
        ("one two three four five six", "one two three four "),
        ("onetwothreefourfivesixseven", "onetwothreefourfives"),
    ] {
        assert_eq!(cut(text, 0, 20, Cutting::Text).text, first);
    }
}

#[test]
fn a_link_stays_whole_if_it_can() {
    let link = "[the words](https://example.org/a_long/address)";
    let image = "[![alt text](https://example.org/i.png)](https://example.org/a)";
    for link in [link, image, "![alt](https://example.org/image.png)"] {
        let before = "w".repeat(80);
        let text = format!("{before} {link} and after");
        for characters in 83..100 {
            let pages = pages(&text, characters, Cutting::Markdown);
            assert_eq!(joined(&pages), text);
            assert!(
                pages.iter().any(|page| page.text.contains(link)),
                "{characters}: {pages:?}"
            );
        }
    }
}

#[test]
fn a_short_block_of_code_stays_whole_and_a_long_one_is_opened_again() {
    let short = format!(
        "{}\n\n```rust\nlet a = 1;\nlet b = 2;\n```\nafter\n",
        "w".repeat(90)
    );
    let first = cut(&short, 0, 110, Cutting::Markdown);
    assert_eq!(first.text, format!("{}\n\n", "w".repeat(90)));

    let long = format!(
        "before\n\n````rust\n{}````\nafter\n",
        "let a = 1;\n".repeat(60)
    );
    let pages = pages(&long, 200, Cutting::Markdown);
    assert!(pages.len() > 3);
    for page in &pages {
        assert_eq!(page.text.matches("````").count() % 2, 0, "{page:?}");
    }
    assert!(
        pages[1].text.starts_with("````rust\nlet a"),
        "{}",
        pages[1].text
    );
    assert_eq!(joined(&pages).matches("let a = 1;\n").count(), 60);
}

#[test]
fn a_piece_may_begin_anywhere_in_a_block_of_code() {
    let text = format!(
        "{}\n\n```rust\n{}```\nafter\n",
        "w".repeat(50_000),
        "let a = 1;\n".repeat(5_000)
    );
    for start in [50_001, 50_010, 60_000, 60_005, 105_000] {
        let page = cut(&text, start, 12_000, Cutting::Markdown);
        assert!(page.text.chars().count() <= 12_000, "{start}");
        assert_eq!(page.text.matches("```").count() % 2, 0, "{start}");
    }
    for characters in [100, 150, 333] {
        for page in pages(&text[49_900..52_000], characters, Cutting::Markdown) {
            assert!(page.text.chars().count() <= characters, "{page:?}");
        }
    }
}

#[test]
fn whatever_the_text_each_page_goes_on_where_the_last_ended() {
    for text in [
        "[".repeat(3_000),
        "`".repeat(3_000),
        "```\n".repeat(700),
        "~~~ `\n".repeat(700),
        "[a](".repeat(700),
        "![[![](".repeat(700),
        "\n".repeat(3_000),
        "```a\n\u{301}\n".repeat(500),
    ] {
        let pages = pages(&text, 100, Cutting::Markdown);
        assert!(pages.len() < 70, "{}", pages.len());
        assert_eq!(pages.last().and_then(|page| page.next), None);
    }
}
