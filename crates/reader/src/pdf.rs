//! The text of a PDF's pages, in a reader's child.
//!
//! The library panics on what it does not expect and inflates whatever it is given: each page is read behind a net, each page that
//! was read is told at once, and memory and time have their bounds from the process.

use std::{
    fs::File,
    io::{self, Read},
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use flate2::read::ZlibDecoder;
use pdf_extract::{Dictionary, Document, Object, ObjectId, PlainTextOutput, output_doc_page};

use crate::{
    effort::Effort,
    frame::{Head, Order, Request, Unread, write_answer},
    reading::{TITLE_CHARACTERS, Truncated},
    visible,
};

/// Pages of a document that are read.
const PAGES: usize = 200;
/// Bytes of a page's drawing instructions, inflated. The library takes up to eighty times as much for them; a page of text has some
/// ten thousand.
const CONTENT_BYTES: u64 = 400 * 1_024;

/// Reads a document and tells it page by page.
pub(crate) fn read(request: &Request, mut input: impl Read, answers: &File) -> io::Result<()> {
    let effort = Effort::begin();
    // The last quarter is for the page that is under way when the time is up.
    let budget = Duration::from_secs(request.cpu_seconds) * 3 / 4;
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    let loaded = behind_a_net(|| Document::load_mem(&bytes).ok()).flatten();
    drop(bytes);
    let Some(mut document) = loaded else {
        let reason = if request.is_complete {
            Unread::Damaged
        } else {
            Unread::Incomplete
        };
        return tell_failure(answers, reason);
    };
    if document.is_encrypted() && !behind_a_net(|| document.decrypt("").is_ok()).unwrap_or(false) {
        return tell_failure(answers, Unread::Encrypted);
    }
    let title = behind_a_net(|| title(&document)).flatten();
    let pages = behind_a_net(|| document.get_pages()).unwrap_or_default();
    let count = pages.len();
    let mut told = 0;
    let mut without_text = 0_usize;
    let mut text_bytes = 0;
    for (number, (&name, &id)) in (1..).zip(pages.iter().take(PAGES)) {
        let page = page_text(&document, name, id);
        without_text += usize::from(!matches!(&page, PageText::Text(_)));
        let text = match page {
            PageText::Text(page) => format!("[Page {number} of {count}]\n\n{page}"),
            PageText::None => format!("[Page {number} of {count}: no text]"),
            PageText::TooLarge => {
                format!("[Page {number} of {count}: left out, since there is too much on it]")
            }
        };
        let mut text = if told == 0 {
            text
        } else {
            format!("\n\n{text}")
        };
        // A font may spell out each character as a text.
        text.truncate(kernel::floor_char_boundary(&text, request.text_bytes));
        text_bytes += text.len();
        told = number;
        let is_last = text_bytes >= request.text_bytes || effort.spent() > budget;
        let truncated = (told < count).then(|| Truncated::Pages {
            read: wide(told),
            of: wide(count),
        });
        let head = Head {
            order: if told == 1 {
                Order::Instead
            } else {
                Order::After
            },
            title: title.clone(),
            truncated,
            failure: None,
            cost: None,
        };
        write_answer(answers, &head, &text)?;
        if is_last {
            break;
        }
    }
    if without_text == told {
        let reason = if count == 0 {
            Unread::NoPages
        } else {
            Unread::Pictures
        };
        return tell_failure(answers, reason);
    }
    Ok(())
}

fn tell_failure(answers: &File, reason: Unread) -> io::Result<()> {
    let head = Head {
        order: Order::Instead,
        title: None,
        truncated: None,
        failure: Some(reason),
        cost: None,
    };
    write_answer(answers, &head, "")
}

/// What the library makes of it, unless it gives up in its own way.
fn behind_a_net<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// What a page says.
enum PageText {
    Text(String),
    None,
    TooLarge,
}

/// Whether a page draws more than the library can take. What does not say its size is measured by inflating it into nothing.
fn is_too_large(document: &Document, page: ObjectId) -> bool {
    let mut bytes = 0;
    for id in document.get_page_contents(page) {
        let Ok(stream) = document.get_object(id).and_then(Object::as_stream) else {
            continue;
        };
        let raw = stream.content.as_slice();
        bytes += match stream.filters().as_deref() {
            Ok([filter]) if *filter == b"FlateDecode" => {
                let mut inflated = ZlibDecoder::new(raw).take(CONTENT_BYTES + 1);
                // A stream that breaks off is as large as what came before.
                io::copy(&mut inflated, &mut io::sink()).unwrap_or(0)
            }
            Ok([]) | Err(_) => wide(raw.len()),
            // Other ways to pack, and packing twice, are rare: an eighth must do.
            Ok(_) => 8 * wide(raw.len()),
        };
        if bytes > CONTENT_BYTES {
            return true;
        }
    }
    false
}

fn page_text(document: &Document, number: u32, id: ObjectId) -> PageText {
    if behind_a_net(|| is_too_large(document, id)).unwrap_or(true) {
        return PageText::TooLarge;
    }
    let mut raw = String::new();
    // What was written before it gave up is kept.
    behind_a_net(|| {
        let mut output = PlainTextOutput::new(&mut raw);
        output_doc_page(document, &mut output, number).is_ok()
    });
    let text = tidy(&raw);
    if text.is_empty() {
        PageText::None
    } else {
        PageText::Text(text)
    }
}

/// Lines without white space at their ends, and at most one blank line in a row.
fn tidy(raw: &str) -> String {
    let cleaned = visible::clean(raw);
    let mut text = String::with_capacity(cleaned.len());
    let mut blank = 0;
    for line in cleaned.lines() {
        let line = line.trim_end();
        if line.is_empty() {
            blank += 1;
            continue;
        }
        if !text.is_empty() {
            text.push_str(if blank > 0 { "\n\n" } else { "\n" });
        }
        blank = 0;
        text.push_str(line);
    }
    text
}

/// The title that the document gives itself (ISO 32000-1 section 14.3.3).
fn title(document: &Document) -> Option<String> {
    let info = document.trailer.get(b"Info").ok()?;
    let info: &Dictionary = if let Object::Reference(id) = info {
        document.get_object(*id).ok()?.as_dict().ok()?
    } else {
        info.as_dict().ok()?
    };
    let Object::String(bytes, _) = info.get(b"Title").ok()? else {
        return None;
    };
    let text = match bytes.strip_prefix(b"\xfe\xff") {
        Some(wide) => encoding_rs::UTF_16BE.decode_without_bom_handling(wide).0,
        None => String::from_utf8_lossy(bytes),
    };
    let title = visible::line(&text, TITLE_CHARACTERS);
    (!title.is_empty()).then_some(title)
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
