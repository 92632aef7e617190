//! Reads a server's schema into a document of one shape: known keywords in legal forms, and references to `$defs` alone.
//!
//! What is odd is left out. Leaving something out must never make the schema refuse what it accepted, so that where a schema is
//! applied the other way round (`not`, `oneOf`, `if`), what it is applied by goes with it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kernel::strip_control;
use serde_json::{Map, Value};

use super::{
    kept::{Kept, Relaxed, TYPES, each, exact, is_type, names, when},
    keywords::DEFINITIONS,
    reference::Place,
};

/// Definitions of one schema. Each costs a name and a place among what Providers are sent.
const DEFINITIONS_COUNT: usize = 512;
/// Patterns of one schema: each is compiled.
const PATTERNS: usize = 64;
/// Bytes of one pattern.
const PATTERN_BYTES: usize = 1_024;

/// Which rules a schema is read by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    /// Draft 7 and older: what stands beside `$ref` means nothing.
    Old,
    /// 2019-09, 2020-12, and what says nothing, which the protocol reads as 2020-12 (SEP-1613).
    New,
}

/// Whether patterns are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patterns {
    /// They are.
    Kept,
    /// One of them cannot be judged by, and all are left out.
    Dropped,
}

/// A schema that was read.
#[derive(Debug)]
pub(super) struct Document {
    /// Which rules it is read by.
    pub(super) age: Age,
    /// The schema.
    pub(super) root: Value,
    /// What it refers to, by name.
    pub(super) definitions: BTreeMap<String, Value>,
}

impl Document {
    /// Reads a schema.
    ///
    /// # Errors
    /// It is no schema of an object, or refers to too much: a sentence.
    pub(super) fn read(schema: &Value, patterns: Patterns) -> Result<Self, String> {
        let Value::Object(root) = schema else {
            return Err("its schema is no JSON object".to_owned());
        };
        if !takes_objects(root) {
            return Err("its schema takes no object, and arguments are one".to_owned());
        }
        let age = age_of(root);
        let (document, relaxed) = Reader::new(schema, age, patterns, Tainted::No).document()?;
        if relaxed == Relaxed::No {
            return Ok(document);
        }
        // A reference may lead to what was relaxed, from where that must not be.
        let (document, _relaxed) = Reader::new(schema, age, patterns, Tainted::Yes).document()?;
        Ok(document)
    }

    /// The whole as one schema.
    pub(super) fn joined(&self) -> Value {
        let mut root = self.root.as_object().cloned().unwrap_or_default();
        if !self.definitions.is_empty() {
            let definitions = self.definitions.clone().into_iter().collect();
            root.insert("$defs".to_owned(), Value::Object(definitions));
        }
        Value::Object(root)
    }
}

/// Whether a schema's `type`, if it has one, takes objects.
pub(super) fn takes_objects(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "object" || !TYPES.contains(&kind.as_str()),
        Some(Value::Array(kinds)) => kinds.is_empty() || kinds.iter().any(|kind| kind == "object"),
        Some(_) | None => true,
    }
}

fn age_of(root: &Map<String, Value>) -> Age {
    let declared = root.get("$schema").and_then(Value::as_str);
    match declared {
        Some(uri) if uri.contains("/draft-0") => Age::Old,
        Some(_) | None => Age::New,
    }
}

/// Whether anything was relaxed in the document, so that what a reference leads to may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tainted {
    Yes,
    No,
}

struct Reader<'s> {
    whole: &'s Value,
    age: Age,
    patterns: Patterns,
    tainted: Tainted,
    pattern_count: usize,
    place: Place<'s>,
    names: BTreeMap<String, String>,
    taken: BTreeSet<String>,
    wanted: VecDeque<String>,
}

impl<'s> Reader<'s> {
    fn new(whole: &'s Value, age: Age, patterns: Patterns, tainted: Tainted) -> Self {
        Self {
            whole,
            age,
            patterns,
            tainted,
            pattern_count: 0,
            place: Place::of(whole),
            names: BTreeMap::new(),
            taken: BTreeSet::new(),
            wanted: VecDeque::new(),
        }
    }

    fn document(mut self) -> Result<(Document, Relaxed), String> {
        let (root, mut relaxed) = self.schema(self.whole);
        let mut definitions = BTreeMap::new();
        while let Some(pointer) = self.wanted.pop_front() {
            if definitions.len() == DEFINITIONS_COUNT {
                return Err(format!(
                    "its schema refers to more than {DEFINITIONS_COUNT} definitions"
                ));
            }
            let Some(target) = self.whole.pointer(&pointer) else {
                continue;
            };
            let (read, more) = self.schema(target);
            relaxed.or(more);
            if let Some(name) = self.names.get(&pointer) {
                definitions.insert(name.clone(), read);
            }
        }
        let document = Document {
            age: self.age,
            root,
            definitions,
        };
        Ok((document, relaxed))
    }

    /// Reads one schema. How deep they nest is bounded by how deep JSON does.
    fn schema(&mut self, schema: &Value) -> (Value, Relaxed) {
        let members = match schema {
            Value::Bool(_) => return (schema.clone(), Relaxed::No),
            Value::Object(members) => members,
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return (Value::Bool(true), Relaxed::Yes);
            }
        };
        let mut relaxed = Relaxed::No;
        let mut read = Map::new();
        let is_alone = self.age == Age::Old && members.contains_key("$ref");
        for (keyword, value) in members {
            if is_alone && !matches!(keyword.as_str(), "$ref" | "title" | "description") {
                continue;
            }
            match self.keyword(keyword, value) {
                Kept::As(value, more) => {
                    relaxed.or(more);
                    read.insert(keyword.clone(), value);
                }
                Kept::Nothing => {}
                Kept::LeftOut => {
                    relaxed = Relaxed::Yes;
                    read.insert(format!("!{keyword}"), Value::Null);
                }
            }
        }
        drop_companions(&mut read);
        if self.age == Age::New {
            tuples(&mut read, members);
        }
        (Value::Object(read), relaxed)
    }

    fn keyword(&mut self, keyword: &str, value: &Value) -> Kept {
        match keyword {
            "$ref" => self.reference(value),
            "$dynamicRef" | "$recursiveRef" => Kept::LeftOut,
            "type" => when(is_type(value), value),
            "enum" => when(value.as_array().is_some_and(|all| !all.is_empty()), value),
            "const" | "default" | "examples" => Kept::As(value.clone(), Relaxed::No),
            "multipleOf" => when(value.as_f64().is_some_and(|number| number > 0.0), value),
            "maximum" | "minimum" | "exclusiveMaximum" | "exclusiveMinimum" => {
                when(value.is_number(), value)
            }
            "maxLength" | "minLength" | "maxItems" | "minItems" | "maxProperties"
            | "minProperties" => when(value.is_u64(), value),
            "maxContains" | "minContains" if self.age == Age::New => when(value.is_u64(), value),
            "uniqueItems" => when(value.is_boolean(), value),
            "pattern" => match value.as_str() {
                Some(pattern) if self.may_judge(pattern) => Kept::As(value.clone(), Relaxed::No),
                Some(_) | None => Kept::LeftOut,
            },
            "required" => names(value),
            "dependentRequired" if self.age == Age::New => each(value, names),
            "properties" => self.schemas(value),
            "patternProperties" => match value.as_object() {
                Some(all) if all.keys().all(|pattern| self.may_judge(pattern)) => {
                    self.schemas(value)
                }
                Some(_) | None => Kept::LeftOut,
            },
            "dependentSchemas" if self.age == Age::New => self.schemas(value),
            "dependencies" if self.age == Age::Old => self.dependencies(value),
            "allOf" | "anyOf" => self.list(value),
            "oneOf" => exact(self.list(value)),
            "prefixItems" if self.age == Age::New => self.list(value),
            "items" if value.is_array() => match self.age {
                Age::Old => self.list(value),
                // Put right by `tuples`.
                Age::New => Kept::Nothing,
            },
            "additionalItems" if self.age == Age::Old => self.one(value),
            "items" | "additionalProperties" | "propertyNames" | "then" | "else" => self.one(value),
            "not" | "if" => exact(self.one(value)),
            "contains" => exact(self.one(value)),
            // They look at what other schemas have judged, which may be less by now.
            "unevaluatedItems" | "unevaluatedProperties" if self.age == Age::New => {
                match self.tainted {
                    Tainted::Yes => Kept::LeftOut,
                    Tainted::No => self.one(value),
                }
            }
            "title" | "description" => value.as_str().map_or(Kept::Nothing, |text| {
                Kept::As(strip_control(text).into(), Relaxed::No)
            }),
            "format" if value.is_string() => Kept::As(value.clone(), Relaxed::No),
            // What is not known asks nothing.
            _ => Kept::Nothing,
        }
    }

    fn one(&mut self, value: &Value) -> Kept {
        let (read, relaxed) = self.schema(value);
        Kept::As(read, relaxed)
    }

    fn list(&mut self, value: &Value) -> Kept {
        let Some(all) = value.as_array().filter(|all| !all.is_empty()) else {
            return Kept::LeftOut;
        };
        let mut relaxed = Relaxed::No;
        let all = all
            .iter()
            .map(|schema| {
                let (read, more) = self.schema(schema);
                relaxed.or(more);
                read
            })
            .collect();
        Kept::As(Value::Array(all), relaxed)
    }

    fn schemas(&mut self, value: &Value) -> Kept {
        each(value, |schema| self.one(schema))
    }

    fn dependencies(&mut self, value: &Value) -> Kept {
        each(value, |dependency| {
            if dependency.is_array() {
                names(dependency)
            } else {
                self.one(dependency)
            }
        })
    }

    /// Whether a pattern is judged by: not when one of them cannot be, and never more than so many.
    fn may_judge(&mut self, pattern: &str) -> bool {
        self.pattern_count += 1;
        self.patterns == Patterns::Kept
            && pattern.len() <= PATTERN_BYTES
            && self.pattern_count <= PATTERNS
    }

    /// A reference that stays in the document, by the name of its definition. Any other is left out, and never looked up.
    fn reference(&mut self, value: &Value) -> Kept {
        let Some(pointer) = value.as_str().and_then(|text| self.place.pointer(text)) else {
            return Kept::LeftOut;
        };
        let name = if let Some(name) = self.names.get(&pointer) {
            name.clone()
        } else {
            let name = self.new_name(&pointer);
            self.names.insert(pointer.clone(), name.clone());
            self.wanted.push_back(pointer);
            name
        };
        let relaxed = match self.tainted {
            Tainted::Yes => Relaxed::Yes,
            Tainted::No => Relaxed::No,
        };
        Kept::As(format!("{DEFINITIONS}{name}").into(), relaxed)
    }

    fn new_name(&mut self, pointer: &str) -> String {
        let named = pointer
            .strip_prefix("/$defs/")
            .or_else(|| pointer.strip_prefix("/definitions/"));
        let is_plain = |name: &str| {
            !name.is_empty()
                && name.len() <= 64
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        };
        let mut name = match named {
            Some(name) if is_plain(name) => name.to_owned(),
            Some(_) | None => format!("ref_{}", self.taken.len()),
        };
        while !self.taken.insert(name.clone()) {
            name.push('_');
        }
        name
    }
}

/// Takes out what would say more without what was left out beside it. What was left out is marked by `!`.
fn drop_companions(read: &mut Map<String, Value>) {
    let companions: [(&str, &[&str]); 6] = [
        ("!properties", &["additionalProperties"]),
        ("!patternProperties", &["additionalProperties"]),
        ("!prefixItems", &["items"]),
        ("!items", &["additionalItems"]),
        ("!contains", &["minContains", "maxContains"]),
        ("!if", &["then", "else"]),
    ];
    for (left_out, others) in companions {
        if read.contains_key(left_out) {
            for other in others {
                read.remove(*other);
            }
        }
    }
    read.retain(|keyword, _| !keyword.starts_with('!'));
}

/// `items` with a list was how tuples were written until 2020-12, and many still write it so: each item may be anything.
fn tuples(read: &mut Map<String, Value>, written: &Map<String, Value>) {
    if written.get("items").is_some_and(Value::is_array) {
        read.remove("items");
    }
}
