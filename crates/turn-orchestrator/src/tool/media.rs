//! What Tools give that is no text: kept within a budget, and described to the model.

use bytes::Bytes;
use kernel::{CallId, Clock, MediaId};

use super::{Given, GivenMedia, Ran};
use crate::{
    limits::thousands,
    parts::{Media, NewMedia},
};

/// Bytes of one image, sound or other thing.
const BYTES: usize = 4 * 1_024 * 1_024;
/// Bytes of all that one turn keeps.
const TURN_BYTES: usize = 16 * 1_024 * 1_024;
/// How many of one call are kept and spoken of; each has a row, and a line for the model.
const PER_CALL: usize = 8;

/// Where the media of one turn are put, until it is full.
#[derive(Debug)]
pub(crate) struct Shelf {
    left: usize,
}

impl Default for Shelf {
    fn default() -> Self {
        Self { left: TURN_BYTES }
    }
}

impl Shelf {
    /// Keeps what a call gave, as far as there is room, and says so in the result's notes.
    pub(crate) fn keep(&mut self, call: CallId, ran: &mut Ran, clock: &dyn Clock) -> Vec<NewMedia> {
        let (Ran::Gave(given) | Ran::Erred(given)) = ran else {
            return Vec::new();
        };
        let mut kept = Vec::new();
        let count = given.media.len();
        for (position, piece) in (0..).zip(given.media.clone().into_iter().take(PER_CALL)) {
            let room = self.room_for(&piece);
            let size = thousands(piece.bytes);
            let (kind, media_type) = (piece.kind.as_str(), &piece.media_type);
            match room {
                Ok(data) => {
                    self.left -= data.len();
                    let id = MediaId::mint(clock);
                    say(
                        given,
                        &format!("[{kind} {media_type}, {size} bytes, kept as media {id}]"),
                    );
                    kept.push(NewMedia {
                        media: Media {
                            id,
                            kind: piece.kind,
                            media_type: piece.media_type,
                            bytes: piece.bytes,
                        },
                        call,
                        position,
                        data,
                    });
                }
                Err(why) => say(
                    given,
                    &format!("[{kind} {media_type}, {size} bytes, not kept: {why}]"),
                ),
            }
        }
        if count > PER_CALL {
            say(given, &format!("[{} more, not kept]", count - PER_CALL));
        }
        kept
    }

    /// The bytes, if they can be kept; else why not.
    fn room_for(&self, piece: &GivenMedia) -> Result<Bytes, &'static str> {
        match &piece.data {
            None => Err("it is too large"),
            Some(data) if data.is_empty() => Err("it is empty"),
            Some(data) if data.len() > BYTES => Err("it is too large"),
            Some(data) if data.len() > self.left => {
                Err("this turn has kept as much as one turn may")
            }
            Some(data) => Ok(data.clone()),
        }
    }
}

fn say(given: &mut Given, line: &str) {
    if !given.notes.is_empty() {
        given.notes.push('\n');
    }
    given.notes.push_str(line);
}

#[cfg(test)]
mod tests {
    use kernel::SystemClock;

    use super::*;
    use crate::parts::MediaKind;

    fn piece(bytes: usize) -> GivenMedia {
        GivenMedia {
            kind: MediaKind::Image,
            media_type: "image/png".to_owned(),
            bytes: bytes as u64,
            data: Some(vec![7; bytes].into()),
        }
    }

    fn keep(shelf: &mut Shelf, media: Vec<GivenMedia>) -> (Vec<NewMedia>, String) {
        let mut ran = Ran::Gave(Given {
            media,
            ..Given::default()
        });
        let kept = shelf.keep(CallId::mint(&SystemClock), &mut ran, &SystemClock);
        let Ran::Gave(given) = ran else { panic!() };
        (kept, given.notes)
    }

    #[test]
    fn what_is_kept_is_named_to_the_model_by_its_id() {
        let (kept, notes) = keep(&mut Shelf::default(), vec![piece(12_345)]);
        let id = kept[0].media.id;
        assert_eq!(
            notes,
            format!("[image image/png, 12,345 bytes, kept as media {id}]")
        );
        assert_eq!((kept[0].position, kept[0].data.len()), (0, 12_345));
    }

    #[test]
    fn a_turn_keeps_no_more_than_its_share_and_a_call_no_more_than_some() {
        let mut shelf = Shelf::default();
        for _ in 0..4 {
            assert_eq!(keep(&mut shelf, vec![piece(BYTES)]).0.len(), 1);
        }
        let (kept, notes) = keep(&mut shelf, vec![piece(1)]);
        assert!(
            kept.is_empty() && notes.contains("as much as one turn may"),
            "{notes}"
        );
        let (kept, notes) = keep(&mut Shelf::default(), vec![piece(1); 100]);
        assert_eq!(kept.len(), PER_CALL);
        assert!(notes.ends_with("[92 more, not kept]"), "{notes}");
    }

    #[test]
    fn what_is_too_large_or_did_not_come_is_described() {
        let absent = GivenMedia {
            data: None,
            ..piece(5_000_000)
        };
        let (kept, notes) = keep(
            &mut Shelf::default(),
            vec![absent, piece(BYTES + 1), piece(0)],
        );
        assert!(kept.is_empty());
        assert_eq!(notes.matches("too large").count(), 2, "{notes}");
        assert!(notes.contains("5,000,000 bytes") && notes.contains("it is empty"));
    }
}
