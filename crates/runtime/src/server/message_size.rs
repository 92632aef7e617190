//! The bound on one gRPC message, read from the frames' prefixes while they pass.

use kernel::{ErrorCode, limits};
use tonic::Status;

use crate::status;

/// Bytes before a message: one for compression, four for its length (gRPC over HTTP/2, "Length-Prefixed-Message").
const PREFIX: usize = 5;

/// Follows a body and refuses a message beyond [`limits::RPC_MESSAGE_BYTES`] as soon as its prefix is there.
#[derive(Debug, Default)]
pub(super) struct MessageSize {
    prefix: [u8; PREFIX],
    filled: usize,
    /// Bytes of the current message that are still to come.
    rest: usize,
}

impl MessageSize {
    /// Looks at the next bytes.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) -> Result<(), Status> {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let skipped = self.rest.min(bytes.len());
                self.rest -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            let taken = (PREFIX - self.filled).min(bytes.len());
            self.prefix[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == PREFIX {
                self.filled = 0;
                let [_, length @ ..] = self.prefix;
                self.rest = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                if self.rest > limits::RPC_MESSAGE_BYTES {
                    return Err(status::new(
                        ErrorCode::ResourceExhausted,
                        &format!(
                            "a message of {} bytes is too long; at most {} are allowed",
                            self.rest,
                            limits::RPC_MESSAGE_BYTES
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
        bytes.resize(PREFIX + length, 7);
        bytes
    }

    #[test]
    fn messages_up_to_the_bound_pass_however_they_are_cut() {
        let stream = [message(0), message(3), message(limits::RPC_MESSAGE_BYTES)].concat();
        for piece in [1_000_000, 4_097] {
            let mut size = MessageSize::default();
            for bytes in stream.chunks(piece) {
                size.pass(bytes).unwrap();
            }
        }
        let mut size = MessageSize::default();
        for byte in [message(0), message(3)].concat() {
            size.pass(&[byte]).unwrap();
        }
    }

    #[test]
    fn a_message_beyond_the_bound_is_refused_by_its_prefix_alone() {
        let mut size = MessageSize::default();
        size.pass(&message(3)).unwrap();
        size.pass(&[0, 0xFF, 0xFF]).unwrap();
        let status = size.pass(&[0xFF, 0xFF]).unwrap_err();
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    }
}
