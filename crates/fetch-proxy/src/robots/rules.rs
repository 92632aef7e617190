//! The rules of a `robots.txt` (RFC 9309 section 2.2).
//!
//! Read and forgotten in one pass, without a pattern ever being compiled: a file of 500 KiB has room for 40,000 of them, and whose
//! file it is wants us no good.

/// Whether a product may fetch this path and query.
pub(super) fn allow(file: &[u8], product: &str, path: &str) -> bool {
    match verdict(file, product, path) {
        Group::Named(allows) => allows,
        // Without a group of its own it is everybody (section 2.2.1).
        Group::Absent => match verdict(file, "*", path) {
            Group::Named(allows) => allows,
            Group::Absent => true,
        },
    }
}

enum Group {
    Absent,
    Named(bool),
}

/// What all groups of a product say together.
fn verdict(file: &[u8], product: &str, path: &str) -> Group {
    let (mut has_group, mut is_meant, mut in_agents) = (false, false, false);
    // The longest rule that fits, and whether it allows; of two as long, the one that does (section 2.2.2).
    let mut best = (0, true);
    let path = unescaped(path.as_bytes());
    for line in file.split(|byte| matches!(byte, b'\n' | b'\r')) {
        let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            continue;
        };
        let (key, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        if key.eq_ignore_ascii_case(b"user-agent") {
            is_meant = (in_agents && is_meant) || names(value, product);
            in_agents = true;
            has_group |= is_meant;
            continue;
        }
        let allows = key.eq_ignore_ascii_case(b"allow");
        if !allows && !key.eq_ignore_ascii_case(b"disallow") {
            continue;
        }
        in_agents = false;
        if is_meant && !value.is_empty() && value.len() >= best.0 {
            let pattern = unescaped(value);
            if fits(&pattern, &path) && (value.len() > best.0 || allows) {
                best = (value.len(), allows);
            }
        }
    }
    if has_group {
        Group::Named(best.1)
    } else {
        Group::Absent
    }
}

/// Whether a line names the product. Versions and comments after the name do not count.
fn names(value: &[u8], product: &str) -> bool {
    if product == "*" {
        return value.starts_with(b"*");
    }
    let end = value
        .iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')))
        .unwrap_or(value.len());
    value[..end].eq_ignore_ascii_case(product.as_bytes())
}

/// Percent-encoded ASCII as itself, so that a path is the same however it is spelt.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| char::from(byte).to_digit(16));
    let mut plain = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let escaped = (text[at] == b'%')
            .then(|| Some(digit(text.get(at + 1))? * 16 + digit(text.get(at + 2))?))
            .flatten()
            .and_then(|code| u8::try_from(code).ok())
            // These mean something as they are.
            .filter(|byte| !matches!(byte, b'*' | b'$' | b'/' | b'?' | b'%'));
        if let Some(byte) = escaped {
            plain.push(byte);
            at += 3;
        } else {
            plain.push(text[at]);
            at += 1;
        }
    }
    plain
}

/// Whether a pattern with `*` and a last `$` fits the beginning of a path: greedy from the left, which finds a fit if there is one.
fn fits(pattern: &[u8], path: &[u8]) -> bool {
    let (pattern, is_anchored) = match pattern.strip_suffix(b"$") {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut pieces = pattern.split(|&byte| byte == b'*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first) else {
        return false;
    };
    let mut last: Option<&[u8]> = None;
    for piece in pieces {
        if let Some(piece) = last.replace(piece) {
            let Some(at) = find(rest, piece) else {
                return false;
            };
            rest = &rest[at + piece.len()..];
        }
    }
    match (last, is_anchored) {
        (None, false) => true,
        (None, true) => rest.is_empty(),
        (Some(piece), false) => find(rest, piece).is_some(),
        (Some(piece), true) => rest.ends_with(piece),
    }
}

fn find(text: &[u8], piece: &[u8]) -> Option<usize> {
    if piece.is_empty() {
        return Some(0);
    }
    text.windows(piece.len()).position(|window| window == piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_the_standard_mean_what_it_says() {
        let file = b"User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n\
            user-agent: foobot/2.0\nUser-agent: AgentsVille\r\nDisallow:/\nAllow:/example/page.html # but not this\n\
            Allow: /example/allowed.gif\n\nUser-Agent: BazBot\nDisallow: /example/page.html\n\nUser-Agent: QuxBot\n";
        for (product, path, expected) in [
            ("other", "/a.gif", false),
            ("other", "/a.gif?x", true),
            ("other", "/example/x", false),
            ("other", "/publications/x", true),
            ("agentsville", "/", false),
            ("FooBot", "/example/page.html", true),
            ("AgentsVille", "/example/allowed.gif", true),
            ("bazbot", "/a.gif", true),
            ("BazBot", "/example/page.html", false),
            ("quxbot", "/example/", true),
        ] {
            assert_eq!(allow(file, product, path), expected, "{product} {path}");
        }
    }

    #[test]
    fn the_longest_rule_wins_and_allow_wins_a_tie() {
        let file = "User-agent: *\nAllow: /p\nDisallow: /\nAllow: /page\nDisallow: /page\nDisallow: /*.htm\nDisallow: /caf%C3%A9%20x";
        for (path, expected) in [
            ("/page", true),
            ("/x", false),
            ("/", false),
            ("/page.htm", false),
            ("/caf%c3%a9%20x", false),
        ] {
            assert_eq!(allow(file.as_bytes(), "a", path), expected, "{path}");
        }
        for (pattern, path, expected) in [
            ("/a*b*c$", "/axbxbxc", true),
            ("/a*b*c$", "/axbxcx", false),
            ("/$", "/", true),
            ("/$", "/a", false),
            ("*", "/", true),
            ("/a*a$", "/a", false),
        ] {
            assert_eq!(
                fits(pattern.as_bytes(), path.as_bytes()),
                expected,
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn whatever_the_file_it_is_read_to_its_end() {
        let stars = format!("user-agent: *\ndisallow: /{}b$\n", "*a".repeat(200)).repeat(1_000);
        assert!(allow(
            stars.as_bytes(),
            "a",
            &format!("/{}", "a".repeat(2_000))
        ));
        assert!(allow(b"\xff\xfe:\0:\n::::\n%", "a", "/"));
        assert!(allow(b"", "a", "/"));
        assert!(allow(b"disallow: /", "a", "/"));
    }
}
