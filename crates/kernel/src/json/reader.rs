//! Reads RFC 8259 into a small tree that borrows what it can, and writes it back compact.

use std::{borrow::Cow, collections::HashMap};

use super::InvalidJson;
use crate::limits::JSON_DEPTH;

enum Node<'t> {
    /// A number, `true`, `false` or `null`, as it was written.
    Plain(&'t str),
    Text(Cow<'t, str>),
    Array(Vec<Node<'t>>),
    Object(Vec<(Cow<'t, str>, Node<'t>)>),
}

/// The text in normal form.
pub(super) fn normalise(text: &str) -> Result<String, InvalidJson> {
    let root = read(text)?;
    let mut out = String::with_capacity(text.len());
    write(&root, &mut out);
    Ok(out)
}

/// The text in normal form, with the members of every object in the order of their names.
pub(super) fn canonical(text: &str) -> Result<String, InvalidJson> {
    let mut root = read(text)?;
    sort(&mut root);
    let mut out = String::with_capacity(text.len());
    write(&root, &mut out);
    Ok(out)
}

fn read(text: &str) -> Result<Node<'_>, InvalidJson> {
    let mut reader = Reader { text, at: 0 };
    reader.space();
    let root = reader.value(0)?;
    reader.space();
    if reader.at < text.len() {
        return Err(reader.wrong("something after the value"));
    }
    Ok(root)
}

fn sort(node: &mut Node<'_>) {
    match node {
        Node::Plain(_) | Node::Text(_) => {}
        Node::Array(items) => items.iter_mut().for_each(sort),
        Node::Object(members) => {
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            for (_, value) in members {
                sort(value);
            }
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn wrong(&self, problem: &'static str) -> InvalidJson {
        InvalidJson {
            problem,
            at: self.at,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node<'t>, InvalidJson> {
        match self.peek() {
            // `depth` containers are around this one.
            Some(b'{' | b'[') if depth >= JSON_DEPTH => Err(self.wrong("nested too deep")),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Node::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => ["true", "false", "null"]
                .into_iter()
                .find(|word| self.text[self.at..].starts_with(word))
                .map(|word| {
                    self.at += word.len();
                    Node::Plain(word)
                })
                .ok_or_else(|| self.wrong("no value")),
            None => Err(self.wrong("the text ends too early")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Node<'t>, InvalidJson> {
        self.at += 1;
        let mut members: Vec<(Cow<'t, str>, Node<'t>)> = Vec::new();
        let mut places: HashMap<Cow<'t, str>, usize> = HashMap::new();
        self.space();
        if self.eat(b'}') {
            return Ok(Node::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.wrong("a key was expected"));
            }
            let key = self.string()?;
            self.space();
            if !self.eat(b':') {
                return Err(self.wrong("a colon was expected"));
            }
            self.space();
            let value = self.value(depth + 1)?;
            if let Some(&place) = places.get(&key) {
                members[place].1 = value;
            } else {
                places.insert(key.clone(), members.len());
                members.push((key, value));
            }
            self.space();
            if self.eat(b'}') {
                return Ok(Node::Object(members));
            }
            if !self.eat(b',') {
                return Err(self.wrong("a comma or } was expected"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Node<'t>, InvalidJson> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.eat(b']') {
            return Ok(Node::Array(items));
        }
        loop {
            self.space();
            items.push(self.value(depth + 1)?);
            self.space();
            if self.eat(b']') {
                return Ok(Node::Array(items));
            }
            if !self.eat(b',') {
                return Err(self.wrong("a comma or ] was expected"));
            }
        }
    }

    fn number(&mut self) -> Result<Node<'t>, InvalidJson> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Node::Plain(&self.text[start..self.at]))
    }

    fn digits(&mut self) -> Result<(), InvalidJson> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            Err(self.wrong("a digit was expected"))
        } else {
            Ok(())
        }
    }

    fn string(&mut self) -> Result<Cow<'t, str>, InvalidJson> {
        self.at += 1;
        let start = self.at;
        let mut owned: Option<String> = None;
        let mut kept = start;
        loop {
            match self.peek() {
                None => return Err(self.wrong("the text ends inside a string")),
                Some(b'"') => {
                    let rest = &self.text[kept..self.at];
                    self.at += 1;
                    return Ok(match owned {
                        None => Cow::Borrowed(rest),
                        Some(text) => Cow::Owned(text + rest),
                    });
                }
                Some(b'\\') => {
                    let text = owned.get_or_insert_default();
                    text.push_str(&self.text[kept..self.at]);
                    self.at += 1;
                    let character = self.escape()?;
                    text.push(character);
                    kept = self.at;
                }
                Some(0..0x20) => {
                    return Err(self.wrong("a control character stands unescaped in a string"));
                }
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<char, InvalidJson> {
        let Some(byte) = self.peek() else {
            return Err(self.wrong("the text ends inside a string"));
        };
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => self.unicode()?,
            _ => return Err(self.wrong("an unknown escape")),
        })
    }

    fn unicode(&mut self) -> Result<char, InvalidJson> {
        let first = self.hex4()?;
        let replaced = |unit: u32| {
            if unit == 0 {
                '\u{FFFD}'
            } else {
                char::from_u32(unit).unwrap_or('\u{FFFD}')
            }
        };
        if !(0xD800..0xDC00).contains(&first) {
            return Ok(replaced(first));
        }
        let behind = self.at;
        if self.text[self.at..].starts_with("\\u") {
            self.at += 2;
            let second = self.hex4()?;
            if (0xDC00..0xE000).contains(&second) {
                return Ok(replaced(
                    0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00),
                ));
            }
            // What follows the lone surrogate stands for itself.
            self.at = behind;
        }
        Ok('\u{FFFD}')
    }

    fn hex4(&mut self) -> Result<u32, InvalidJson> {
        let digits = self
            .text
            .as_bytes()
            .get(self.at..self.at + 4)
            .filter(|four| four.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else {
            return Err(self.wrong("four hexadecimal digits were expected"));
        };
        let unit = digits.iter().fold(0, |unit, &digit| {
            unit * 16 + char::from(digit).to_digit(16).unwrap_or(0)
        });
        self.at += 4;
        Ok(unit)
    }
}

fn write(node: &Node<'_>, out: &mut String) {
    match node {
        Node::Plain(text) => out.push_str(text),
        Node::Text(text) => write_string(text, out),
        Node::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Node::Object(members) => {
            out.push('{');
            for (place, (key, value)) in members.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0' => out.push('\u{FFFD}'),
            control if u32::from(control) < 0x20 => {
                out.push_str("\\u00");
                out.push(if u32::from(control) < 0x10 { '0' } else { '1' });
                out.push(char::from_digit(u32::from(control) & 0xF, 16).unwrap_or('0'));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
