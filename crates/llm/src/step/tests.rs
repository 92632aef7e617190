use std::{fs, path::Path};

use kernel::Secret;
use proptest::prelude::*;

use super::*;
use crate::{anthropic, chat_completions};

/// Every recorded stream of the integration tests.
fn recorded() -> Vec<Vec<u8>> {
    let streams = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/streams");
    let mut paths: Vec<_> = fs::read_dir(streams)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// What a decoder makes of bytes: its events up to the first fault.
fn decode(bytes: &[u8], mut decoder: Box<dyn Decode>) -> Vec<StepEvent> {
    let mut framer = Framer::default();
    let mut out = Outbox::default();
    framer.push(bytes);
    let mut go = || -> Result<(), Fault> {
        while let Some(data) = framer.next().map_err(|FrameTooLong| too_long())? {
            if decoder.data(&data, &mut out)? == Flow::End {
                return Ok(());
            }
        }
        if let Some(data) = framer.end().map_err(|FrameTooLong| too_long())? {
            decoder.data(&data, &mut out)?;
        }
        Ok(())
    };
    if go().is_ok() && decoder.knows_its_end() {
        decoder.finish(&mut out);
    }
    std::iter::from_fn(|| out.take()).collect()
}

/// What holds for every stream, however broken.
fn check(events: &[StepEvent]) {
    let (mut started, mut finished) = (0, 0);
    for (at, event) in events.iter().enumerate() {
        match event {
            StepEvent::TextDelta(delta) | StepEvent::ReasoningDelta(delta) => {
                assert!(!delta.is_empty());
            }
            StepEvent::ReasoningDone { .. } => {}
            StepEvent::CallStarted { index, .. } => {
                assert_eq!(*index, started);
                started += 1;
            }
            StepEvent::CallArgumentsDelta { index, delta } => {
                assert!(*index < started && !delta.is_empty());
            }
            StepEvent::CallFinished { index, .. } => {
                assert_eq!(*index, finished);
                finished += 1;
            }
            StepEvent::Done { .. } => {
                assert_eq!(at + 1, events.len());
                assert_eq!(started, finished);
            }
        }
    }
}

proptest! {
    #[test]
    fn no_damage_to_a_stream_breaks_what_every_stream_keeps(
        stream in any::<prop::sample::Index>(),
        damage in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(b"{}[]\":,\\\n\r0 nt\xFF".to_vec())),
            0..6,
        ),
        cut in prop::option::of(any::<prop::sample::Index>()),
        repeated in any::<prop::sample::Index>(),
    ) {
        let recorded = recorded();
        let mut bytes = stream.get(&recorded).clone();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        // Parts of it come twice, as behind a gateway that retries.
        let from = repeated.index(bytes.len() + 1);
        bytes.extend_from_within(from..);
        let name: Arc<str> = Arc::from("p");
        let chat = chat_completions::Decoder::new(Arc::clone(&name), Secret::default());
        check(&decode(&bytes, Box::new(chat)));
        let messages = anthropic::Decoder::new(name, Secret::default());
        check(&decode(&bytes, Box::new(messages)));
    }
}
