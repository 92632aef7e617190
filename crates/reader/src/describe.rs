//! Sentences about bodies that are not text.

use crate::{Source, visible};

/// Characters of a file's name.
const NAME_CHARACTERS: usize = 100;

/// What a body that is not text is, how large and what it is called. None of it is shown.
pub(crate) fn describe(source: &Source, media_type: &str) -> String {
    let mut parts = vec![if media_type.is_empty() {
        "a file of an unknown type".to_owned()
    } else {
        media_type.to_owned()
    }];
    if let Some((width, height)) = dimensions(&source.bytes) {
        parts.push(format!("{width} × {height} pixels"));
    }
    parts.push(size(source));
    if let Some(name) = name(source) {
        parts.push(format!("named “{name}”"));
    }
    format!(
        "[This is not text: {}. It is described here, not shown.]",
        parts.join(", ")
    )
}

/// A document that could not be read.
pub(crate) fn unread(source: &Source, what: &str, reason: &str) -> String {
    let mut parts = vec![what.to_owned(), size(source)];
    if let Some(name) = name(source) {
        parts.push(format!("named “{name}”"));
    }
    format!("[{}: {reason}.]", parts.join(", "))
}

fn size(source: &Source) -> String {
    let known = if source.complete {
        u64::try_from(source.bytes.len()).ok()
    } else {
        source.announced_bytes
    };
    match known {
        Some(1) => "1 byte".to_owned(),
        Some(bytes) => format!("{bytes} bytes"),
        None => "of unknown size".to_owned(),
    }
}

/// The file's name in one clean line: the server's, or the last of the address.
fn name(source: &Source) -> Option<String> {
    let given = source.file_name.as_deref().or_else(|| {
        let last = source.url.path_segments()?.next_back()?;
        last.contains('.').then_some(last)
    })?;
    let name: String = visible::clean(given)
        .chars()
        .filter(|c| !c.is_control() && !"“”\"[]".contains(*c))
        .take(NAME_CHARACTERS)
        .collect();
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Width and height of a PNG, GIF or JPEG.
fn dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Some((big(bytes.get(16..20)?), big(bytes.get(20..24)?)));
    }
    if bytes.starts_with(b"GIF8") {
        let size = bytes.get(6..10)?;
        return Some((
            u32::from(u16::from_le_bytes([size[0], size[1]])),
            u32::from(u16::from_le_bytes([size[2], size[3]])),
        ));
    }
    if bytes.starts_with(b"\xff\xd8") {
        return jpeg_dimensions(bytes);
    }
    None
}

/// The frame header of a JPEG (ITU-T T.81 section B.2.2) is behind segments of other kinds.
fn jpeg_dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let segment = bytes.get(at..at + 4)?;
        if segment[0] != 0xFF {
            return None;
        }
        let is_frame =
            matches!(segment[1], 0xC0..=0xCF) && !matches!(segment[1], 0xC4 | 0xC8 | 0xCC);
        if is_frame {
            let frame = bytes.get(at + 5..at + 9)?;
            return Some((big(&frame[2..4]), big(&frame[..2])));
        }
        at += 2 + usize::from(u16::from_be_bytes([segment[2], segment[3]])).max(2);
    }
}

fn big(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |number, &byte| number << 8 | u32::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_pictures_are_read_from_their_heads_and_from_nothing_less() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x03\x20\0\0\x02\x58";
        let gif = b"GIF89a\x10\0\x20\0";
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc2\0\x11\x08\x01\0\x02\0";
        assert_eq!(dimensions(png), Some((800, 600)));
        assert_eq!(dimensions(gif), Some((16, 32)));
        assert_eq!(dimensions(jpeg), Some((512, 256)));
        for picture in [png.as_slice(), gif, jpeg] {
            for end in 0..picture.len() {
                assert_eq!(dimensions(&picture[..end]), None);
            }
        }
        assert_eq!(dimensions(b"\xff\xd8\xff\xe0\0\0\xff\xe0\0\0"), None);
    }
}
