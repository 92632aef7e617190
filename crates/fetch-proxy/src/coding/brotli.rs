//! Brotli (RFC 7932), with windows of at most 16 MiB: the extension for large windows, up to 1 GiB, is refused.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

use super::{Stand, Step};

pub(super) struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    total: usize,
    has_ended: bool,
}

impl Default for Brotli {
    fn default() -> Self {
        Self {
            state: BrotliState::new_strict(
                StandardAlloc::default(),
                StandardAlloc::default(),
                StandardAlloc::default(),
            ),
            total: 0,
            has_ended: false,
        }
    }
}

impl Brotli {
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let (mut available_in, mut read) = (input.len(), 0);
        let (mut available_out, mut wrote) = (output.len(), 0);
        let result = BrotliDecompressStream(
            &mut available_in,
            &mut read,
            input,
            &mut available_out,
            &mut wrote,
            output,
            &mut self.total,
            &mut self.state,
        );
        let stand = match result {
            BrotliResult::ResultSuccess => {
                self.has_ended = true;
                Some(Stand::Ended)
            }
            BrotliResult::NeedsMoreInput => Some(Stand::Hungry),
            BrotliResult::NeedsMoreOutput => None,
            BrotliResult::ResultFailure => Some(Stand::Corrupt),
        };
        Step { read, wrote, stand }
    }
}
