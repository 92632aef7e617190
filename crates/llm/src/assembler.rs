//! Puts Tool calls together from fragments.
//!
//! Endpoints disagree on what tells fragments apart: indices are missing (ollama#7881), all zero (litellm#33678) or have gaps;
//! ids are missing, empty, or the same for two calls. So evidence is weighed: an id says more than an index, an index more than
//! a name, and without any a fragment goes to the one call that can take it. Nothing defaults to index 0, and an index is only
//! ever compared: a gap costs no memory.
//!
//! **Invariant:** a fragment that could belong to two calls is dropped loudly, and makes both malformed: no call is ever run
//! with arguments that were guessed.

mod scan;
#[cfg(test)]
mod tests;

use kernel::{JsonText, floor_char_boundary, limits::TOOL_ARGUMENT_BYTES};

use self::scan::Scan;
use crate::{
    CallArguments, ErrorKind,
    outbox::{Fault, Outbox},
};

/// Calls of one step. What may be run is a smaller number and decided elsewhere; those beyond it get a result each.
pub(crate) const CALLS: usize = 256;

/// One piece of a call, as a delta brought it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fragment<'f> {
    /// The Provider's index, if it gave one.
    pub(crate) index: Option<u64>,
    /// The Provider's id; not empty.
    pub(crate) id: Option<&'f str>,
    /// The Tool's name; not empty.
    pub(crate) name: Option<&'f str>,
    /// More arguments.
    pub(crate) arguments: &'f str,
}

/// What a second object behind complete arguments is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecondObject {
    /// Another call of the same Tool: chat completions endpoints that number all parallel calls 0.
    AnotherCall,
    /// A mistake: the wire keeps calls apart.
    Mistake,
}

/// Whether a step's calls are whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The Provider said that the answer is complete.
    Whole,
    /// The output limit or a filter cut it.
    Cut,
}

#[derive(Debug)]
struct Call {
    wire_index: Option<u64>,
    wire_id: Option<String>,
    name: String,
    arguments: String,
    scan: Scan,
    /// Our index, once the call was announced.
    index: Option<usize>,
    meta: Option<JsonText>,
    /// A fragment was dropped that may have belonged here.
    doubtful: bool,
}

impl Call {
    fn begun(&self) -> bool {
        !self.scan.is_blank()
    }

    fn unfinished(&self) -> bool {
        !self.scan.is_complete()
    }

    /// Whether arguments have begun and not ended: only more of the same can follow.
    fn amid(&self) -> bool {
        self.begun() && self.unfinished()
    }
}

/// The calls of one step.
#[derive(Debug)]
pub(crate) struct Assembler {
    calls: Vec<Call>,
    announced: usize,
    second_object: SecondObject,
}

impl Assembler {
    pub(crate) fn new(second_object: SecondObject) -> Self {
        Self {
            calls: Vec::new(),
            announced: 0,
            second_object,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes a fragment, and says which call it went to (for [`Self::set_meta`]).
    pub(crate) fn take(
        &mut self,
        fragment: Fragment<'_>,
        out: &mut Outbox,
    ) -> Result<Option<usize>, Fault> {
        out.keep(fragment.arguments.len())?;
        let place = match self.place(&fragment) {
            Place::Nowhere => return Ok(None),
            Place::Doubtful => {
                tracing::warn!(
                    bytes = fragment.arguments.len(),
                    "a fragment of a Tool call could belong to several calls, and was dropped"
                );
                for call in self.calls.iter_mut().filter(|call| call.unfinished()) {
                    call.doubtful = true;
                }
                return Ok(None);
            }
            Place::New => self.open(fragment.index, String::new())?,
            Place::Existing(place) => place,
        };
        let call = &mut self.calls[place];
        if call.wire_index.is_none() {
            call.wire_index = fragment.index;
        }
        if call.wire_id.is_none() {
            call.wire_id = fragment.id.map(str::to_owned);
        }
        if call.name.is_empty()
            && let Some(name) = fragment.name
        {
            name.clone_into(&mut call.name);
        }
        let repeats_itself = fragment.id.is_some()
            && call.scan.is_complete()
            && call.arguments == fragment.arguments;
        if repeats_itself {
            return Ok(Some(place));
        }
        self.append(place, fragment.arguments, out)
    }

    /// Keeps what the Provider wants back with a call. The first word counts.
    pub(crate) fn set_meta(&mut self, place: usize, meta: JsonText) {
        if let Some(call) = self.calls.get_mut(place) {
            call.meta.get_or_insert(meta);
        }
    }

    /// Appends to a call, and splits off what begins another object.
    fn append(
        &mut self,
        mut place: usize,
        mut arguments: &str,
        out: &mut Outbox,
    ) -> Result<Option<usize>, Fault> {
        loop {
            let call = &mut self.calls[place];
            let until = match self.second_object {
                SecondObject::AnotherCall => call.scan.feed_until_second(arguments),
                SecondObject::Mistake => {
                    call.scan.feed(arguments);
                    arguments.len()
                }
            };
            let (mine, rest) = arguments.split_at(until);
            call.arguments.push_str(mine);
            self.announce(place, mine, out);
            if rest.is_empty() {
                return Ok(Some(place));
            }
            let (wire_index, name) = {
                let call = &self.calls[place];
                (call.wire_index, call.name.clone())
            };
            place = self.open(wire_index, name)?;
            arguments = rest;
        }
    }

    /// Tells of a call as soon as it has a name, and of what it gained.
    fn announce(&mut self, place: usize, gained: &str, out: &mut Outbox) {
        let call = &mut self.calls[place];
        if let Some(index) = call.index {
            out.call_arguments(index, gained);
        } else if !call.name.is_empty() {
            let index = self.announced;
            self.announced += 1;
            call.index = Some(index);
            out.call_started(index, &call.name);
            out.call_arguments(index, &call.arguments);
        }
    }

    fn open(&mut self, wire_index: Option<u64>, name: String) -> Result<usize, Fault> {
        if self.calls.len() == CALLS {
            return Err(Fault::new(
                ErrorKind::ContentTooLarge,
                format!("asked for more than {CALLS} Tool calls in one step, which is the bound"),
            ));
        }
        self.calls.push(Call {
            wire_index,
            wire_id: None,
            name,
            arguments: String::new(),
            scan: Scan::default(),
            index: None,
            meta: None,
            doubtful: false,
        });
        Ok(self.calls.len() - 1)
    }

    fn newest_at(&self, wire_index: Option<u64>) -> Option<usize> {
        self.calls
            .iter()
            .rposition(|call| call.wire_index == wire_index)
    }

    fn place(&self, fragment: &Fragment<'_>) -> Place {
        match (fragment.index, fragment.id) {
            (Some(index), id) => self.place_by_index(index, id, fragment),
            (None, Some(id)) => self.place_by_id(id, fragment),
            (None, None) => match fragment.name {
                Some(name) => self.place_by_name(name, fragment),
                None => self.place_by_need(fragment),
            },
        }
    }

    fn place_by_index(&self, index: u64, id: Option<&str>, fragment: &Fragment<'_>) -> Place {
        let known = id.and_then(|id| {
            self.calls.iter().rposition(|call| {
                call.wire_index == Some(index) && call.wire_id.as_deref() == Some(id)
            })
        });
        if let Some(place) = known {
            return Place::Existing(place);
        }
        let Some(place) = self.newest_at(Some(index)) else {
            // The first fragment of this call may have come without its index.
            return match self.sole(|call| call.wire_index.is_none() && call.unfinished()) {
                Some(place) if fragment.name.is_none() && id.is_none() => Place::Existing(place),
                Some(_) | None => Place::New,
            };
        };
        let call = &self.calls[place];
        let other_id = id.is_some() && call.wire_id.is_some();
        let other_name = fragment.name.is_some_and(|name| {
            !call.name.is_empty() && (call.name != name || call.scan.is_complete())
        });
        // An endpoint that mints an id for every chunk sends no name with the later ones.
        let same_under_another_id = other_id && fragment.name.is_none() && call.amid();
        if (other_id && !same_under_another_id) || other_name {
            Place::New
        } else {
            Place::Existing(place)
        }
    }

    fn place_by_id(&self, id: &str, fragment: &Fragment<'_>) -> Place {
        let known = self
            .calls
            .iter()
            .rposition(|call| call.wire_id.as_deref() == Some(id));
        match (known, fragment.name) {
            // The same id for the next call: it is complete, or of another name.
            (Some(place), Some(name)) => {
                let call = &self.calls[place];
                let repeat = call.name == name && call.arguments == fragment.arguments;
                let other = !call.name.is_empty() && call.name != name;
                if other || (call.scan.is_complete() && !repeat) {
                    Place::New
                } else {
                    Place::Existing(place)
                }
            }
            (Some(place), None) => Place::Existing(place),
            (None, Some(_)) => Place::New,
            (None, None) => self
                .sole(|call| call.amid() || (call.unfinished() && call.wire_id.is_none()))
                .map_or(Place::New, Place::Existing),
        }
    }

    fn place_by_name(&self, name: &str, fragment: &Fragment<'_>) -> Place {
        // A name that is said again amid the arguments begins nothing.
        match self.calls.last() {
            Some(call)
                if call.name == name
                    && call.amid()
                    && !fragment.arguments.trim_start().starts_with('{') =>
            {
                Place::Existing(self.calls.len() - 1)
            }
            Some(_) | None => Place::New,
        }
    }

    fn place_by_need(&self, fragment: &Fragment<'_>) -> Place {
        if fragment.arguments.is_empty() {
            return Place::Nowhere;
        }
        let Some(last) = self.calls.len().checked_sub(1) else {
            return Place::Doubtful;
        };
        let begun: Vec<usize> = (0..=last)
            .filter(|&place| self.calls[place].amid())
            .collect();
        match (&begun[..], self.calls[last].begun()) {
            // Nothing is amid its arguments: the newest begins its own, or is followed by another object.
            ([], _) => Place::Existing(last),
            (&[only], _) if only == last => Place::Existing(last),
            (&[only], false) if !fragment.arguments.trim_start().starts_with('{') => {
                Place::Existing(only)
            }
            (&[only], true) => Place::Existing(only),
            (&[_, ..], _) => Place::Doubtful,
        }
    }

    /// The one call for which `judge` holds, if it is one.
    fn sole(&self, judge: impl Fn(&Call) -> bool) -> Option<usize> {
        let mut places = (0..self.calls.len()).filter(|&place| judge(&self.calls[place]));
        match (places.next(), places.next()) {
            (Some(place), None) => Some(place),
            (None | Some(_), _) => None,
        }
    }

    /// Tells of every call that it is finished.
    pub(crate) fn finish(&mut self, ending: Ending, out: &mut Outbox) {
        for place in 0..self.calls.len() {
            if self.calls[place].index.is_none() {
                let call = &mut self.calls[place];
                call.index = Some(self.announced);
                out.call_started(self.announced, "");
                out.call_arguments(self.announced, &call.arguments);
                self.announced += 1;
            }
        }
        self.calls.sort_by_key(|call| call.index);
        for call in self.calls.drain(..) {
            let arguments = judge(&call, ending);
            out.call_finished(
                call.index.unwrap_or_default(),
                arguments,
                call.wire_id,
                call.meta,
            );
        }
    }
}

enum Place {
    Existing(usize),
    New,
    /// It says nothing.
    Nowhere,
    /// It could belong to several calls, or to none.
    Doubtful,
}

/// What a call's arguments are, now that no more will come.
fn judge(call: &Call, ending: Ending) -> CallArguments {
    let text = call.arguments.trim();
    let raw = || excerpt(&call.arguments);
    let malformed = |problem: String| CallArguments::Malformed {
        raw: raw(),
        problem,
    };
    if ending == Ending::Cut {
        return CallArguments::Cut { raw: raw() };
    }
    if call.name.is_empty() {
        return malformed("the call names no Tool".to_owned());
    }
    if call.doubtful {
        return malformed(
            "a piece of the arguments was lost between several calls; make one call at a time"
                .to_owned(),
        );
    }
    if text.len() > TOOL_ARGUMENT_BYTES {
        return malformed(format!(
            "the arguments have {} bytes; at most {TOOL_ARGUMENT_BYTES} are taken",
            text.len()
        ));
    }
    if text.is_empty() || text == "null" {
        return match JsonText::parse("{}") {
            Ok(empty) => CallArguments::Complete(empty),
            Err(error) => malformed(error.to_string()),
        };
    }
    match JsonText::parse(text) {
        Ok(arguments) if arguments.is_object() => CallArguments::Complete(arguments),
        Ok(_) => malformed("the arguments are not a JSON object".to_owned()),
        Err(_) if call.scan.is_unterminated() => CallArguments::Cut { raw: raw() },
        Err(error) => malformed(format!("the arguments are not JSON: {error}")),
    }
}

fn excerpt(text: &str) -> String {
    text[..floor_char_boundary(text, CallArguments::RAW_BYTES)].to_owned()
}
