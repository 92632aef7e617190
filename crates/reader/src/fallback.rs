//! The text of a page that could not be read properly: what is left when tags are taken away, in one pass.

/// Characters of a page that are looked at.
const LOOKED_AT: usize = 1_024 * 1_024;
/// Characters that a reference like `&amp;` may have.
const REFERENCE_BYTES: usize = 10;

/// Elements whose text is for programs.
const UNREAD: [&str; 6] = ["script", "style", "noscript", "template", "svg", "iframe"];
/// Elements that go on in the line.
const INLINE: [&str; 16] = [
    "a", "abbr", "b", "cite", "code", "em", "font", "i", "img", "kbd", "q", "small", "span",
    "strong", "sub", "sup",
];

/// The text between tags. Linear in the page, and never longer than it.
pub(crate) fn strip(page: &str) -> String {
    let page = &page[..kernel::floor_char_boundary(page, LOOKED_AT)];
    let mut text = String::new();
    let mut rest = page;
    // Once the end of an element was not found, it need not be looked for again.
    let mut unended = [false; UNREAD.len()];
    while !rest.is_empty() {
        let Some(at) = rest.find('<') else {
            push_text(rest, &mut text);
            break;
        };
        push_text(&rest[..at], &mut text);
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let tag = &rest[1..];
        let name_start = tag.strip_prefix('/').unwrap_or(tag);
        if !name_start.starts_with(|c: char| c.is_ascii_alphabetic() || c == '!' || c == '?') {
            text.push('<');
            rest = tag;
            continue;
        }
        let Some(end) = tag.find('>') else { break };
        let name_end = name_start
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(name_start.len());
        let name = name_start[..name_end.min(20)].to_ascii_lowercase();
        rest = &tag[end + 1..];
        let unread = UNREAD.iter().position(|&unread| unread == name);
        if let Some(unread) = unread
            && !tag.starts_with('/')
            && !unended[unread]
        {
            match find_end(rest, UNREAD[unread]) {
                Some(end) => rest = &rest[end..],
                None => unended[unread] = true,
            }
        } else if !INLINE.contains(&name.as_str()) && !text.ends_with('\n') {
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
    }
    text.trim().to_owned()
}

/// Where the end tag of an element is.
fn find_end(rest: &str, name: &str) -> Option<usize> {
    memchr::memmem::find_iter(rest.as_bytes(), "</").find(|&at| {
        rest.get(at + 2..at + 2 + name.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(name))
    })
}

/// Text with its white space in one, and its references resolved.
fn push_text(raw: &str, to: &mut String) {
    let mut rest = raw;
    while let Some(c) = rest.chars().next() {
        if c == '&'
            && let Some((character, length)) = reference(rest)
        {
            to.push(character);
            rest = &rest[length..];
            continue;
        }
        if c.is_whitespace() {
            if !to.is_empty() && !to.ends_with([' ', '\n']) {
                to.push(' ');
            }
        } else {
            to.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
}

fn reference(rest: &str) -> Option<(char, usize)> {
    let head = &rest[..kernel::floor_char_boundary(rest, REFERENCE_BYTES)];
    let (name, _) = head.strip_prefix('&')?.split_once(';')?;
    let character = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        _ => {
            let digits = name.strip_prefix('#')?;
            let number = match digits.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(number)?
        }
    };
    Some((character, name.len() + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_left_without_tags_scripts_and_comments() {
        let page = "<!doctype html><title>T &amp; U</title><style>b{}</style><p>One <b>two</b>\n three<br>4 &lt; 5 \
                    &#x41;&bogus;<!-- <p>no --><SCRIPT>if (a<b) {}</script ><div>end < here";
        assert_eq!(
            strip(page),
            "T & U\nOne two three\n4 < 5 A&bogus;\nend < here"
        );
    }

    #[test]
    fn what_never_ends_is_no_trap() {
        assert_eq!(strip("a<!-- b"), "a");
        assert_eq!(strip("a<b c"), "a");
        assert_eq!(strip("<script>alert(1)"), "alert(1)");
        assert_eq!(strip(&"<".repeat(1_000)), "<".repeat(1_000));
        assert_eq!(strip(&"<script>".repeat(100_000)), "");
        assert_eq!(strip(&"&".repeat(1_000)), "&".repeat(1_000));
        // Each end is looked for once: looking again at each start would take minutes.
        let starts = format!("<{}>", UNREAD.join("><"));
        assert_eq!(strip(&starts.repeat(20_000)), "");
    }
}
