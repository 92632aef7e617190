//! Sees where an object ends, fragment by fragment.

/// How far an object has come. It counts braces outside of strings; whether the text is JSON is judged when it is whole.
#[derive(Debug, Default)]
pub(super) struct Scan {
    depth: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Nothing but space so far.
    #[default]
    Blank,
    /// Inside the object, outside of its strings.
    Inside,
    Text,
    Escape,
    /// The outermost brace was closed.
    Complete,
    /// It does not begin with a brace, or goes on behind the last.
    Odd,
}

impl Scan {
    pub(super) fn is_blank(&self) -> bool {
        self.state == State::Blank
    }

    pub(super) fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    pub(super) fn is_unterminated(&self) -> bool {
        matches!(self.state, State::Inside | State::Text | State::Escape)
    }

    /// Reads a fragment.
    pub(super) fn feed(&mut self, fragment: &str) {
        for byte in fragment.bytes() {
            self.byte(byte);
        }
    }

    /// Reads a fragment up to where a second object begins, and says where that is (its length if there is none).
    pub(super) fn feed_until_second(&mut self, fragment: &str) -> usize {
        for (at, byte) in fragment.bytes().enumerate() {
            if self.is_complete() && byte == b'{' {
                return at;
            }
            self.byte(byte);
        }
        fragment.len()
    }

    fn byte(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (State::Blank | State::Complete, b' ' | b'\t' | b'\n' | b'\r') => return,
            (State::Blank | State::Inside, b'{') => {
                self.depth += 1;
                State::Inside
            }
            (State::Blank | State::Complete | State::Odd, _) => State::Odd,
            (State::Inside, b'}') => {
                self.depth -= 1;
                if self.depth == 0 {
                    State::Complete
                } else {
                    State::Inside
                }
            }
            (State::Inside, b'"') | (State::Escape, _) => State::Text,
            (State::Inside, _) => return,
            (State::Text, b'\\') => State::Escape,
            (State::Text, b'"') => State::Inside,
            (State::Text, _) => return,
        };
    }
}
