//! What Providers are sent of a schema.
//!
//! Providers take an object at the top and no choice there (OpenAI: "schema must have type 'object' and not have
//! 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"; Anthropic: "`input_schema` does not support oneOf, allOf, or anyOf at the top
//! level"), arrays with `items` that are a schema, and no keywords of their own making. So choices at the top are merged into one
//! object that takes whatever one of them takes, and what is left out is what only narrows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kernel::JsonText;
use serde_json::{Map, Value, json};

use super::{
    keywords::{DEFINITIONS, referred},
    relax::{Document, takes_objects},
};

/// Schemas that are merged at the top: what refers to more of them takes anything.
const MERGED: usize = 512;
/// Formats that Providers know.
const FORMATS: [&str; 10] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "time",
    "uri",
    "uuid",
];
/// Keywords that stay as they are.
const PLAIN: [&str; 17] = [
    "default",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "required",
    "title",
];
/// Bytes of a pattern that is sent.
const PATTERN_BYTES: usize = 512;

/// The schema as Providers are sent it.
pub(super) fn sent(document: &Document) -> JsonText {
    let mut merger = Merger {
        document,
        left: MERGED,
    };
    let top = merger.shape(&document.root);
    let mut writer = Writer {
        document,
        wanted: VecDeque::new(),
        known: BTreeSet::new(),
    };
    let mut sent = Map::new();
    sent.insert("type".to_owned(), "object".into());
    for keyword in ["title", "description"] {
        if let Some(text) = document.root.get(keyword) {
            sent.insert(keyword.to_owned(), text.clone());
        }
    }
    // What is required has a place to be described in.
    let mut properties = top.properties;
    for name in &top.required {
        properties
            .entry(name.clone())
            .or_insert_with(|| Value::Bool(true));
    }
    let properties: Map<String, Value> = properties
        .into_iter()
        .map(|(name, schema)| {
            let schema = writer.schema(&schema);
            (name, schema)
        })
        .collect();
    sent.insert("properties".to_owned(), properties.into());
    if !top.required.is_empty() {
        sent.insert(
            "required".to_owned(),
            top.required.into_iter().collect::<Vec<_>>().into(),
        );
    }
    match top.others {
        Others::Any => {}
        Others::Some(Value::Bool(taken)) => {
            sent.insert("additionalProperties".to_owned(), taken.into());
        }
        Others::Some(schema) => {
            let schema = writer.schema(&schema);
            sent.insert("additionalProperties".to_owned(), schema);
        }
    }
    let definitions = writer.definitions();
    if !definitions.is_empty() {
        sent.insert("$defs".to_owned(), definitions.into());
    }
    JsonText::of(&sent)
}

/// What a schema asks of an object's members; it may accept more than the schema does, and never less.
#[derive(Debug, Clone)]
struct Shape {
    properties: BTreeMap<String, Value>,
    required: BTreeSet<String>,
    others: Others,
}

/// What members may be that are not named.
#[derive(Debug, Clone, PartialEq)]
enum Others {
    /// Anything.
    Any,
    /// What this takes.
    Some(Value),
}

impl Shape {
    fn any() -> Self {
        Self {
            properties: BTreeMap::new(),
            required: BTreeSet::new(),
            others: Others::Any,
        }
    }

    /// Objects that both take.
    fn and(mut self, other: Self) -> Self {
        for (name, schema) in other.properties {
            match self.properties.get_mut(&name) {
                None => {
                    self.properties.insert(name, schema);
                }
                Some(own) if *own == schema => {}
                Some(own) => *own = json!({ "allOf": [own.take(), schema] }),
            }
        }
        self.required.extend(other.required);
        if self.others == Others::Any {
            self.others = other.others;
        }
        self
    }

    /// Objects that one of them takes.
    fn or(mut self, mut other: Self) -> Self {
        let names: BTreeSet<String> = self
            .properties
            .keys()
            .chain(other.properties.keys())
            .cloned()
            .collect();
        let mut properties = BTreeMap::new();
        for name in names {
            let own = self.properties.remove(&name);
            let its = other.properties.remove(&name);
            let schema = match (own, its) {
                (Some(own), Some(its)) => either(own, its),
                (Some(one), None) => beside(one, &other.others),
                (None, Some(one)) => beside(one, &self.others),
                (None, None) => continue,
            };
            properties.insert(name, schema);
        }
        let others = match (self.others, other.others) {
            (Others::Any, _) | (_, Others::Any) => Others::Any,
            (Others::Some(own), Others::Some(its)) => Others::Some(either(own, its)),
        };
        Self {
            properties,
            required: self
                .required
                .intersection(&other.required)
                .cloned()
                .collect(),
            others,
        }
    }
}

fn either(own: Value, its: Value) -> Value {
    if own == its || its == Value::Bool(false) {
        own
    } else if own == Value::Bool(false) {
        its
    } else {
        json!({ "anyOf": [own, its] })
    }
}

/// A member that only one choice names: the other takes it as what it does not name. What the one says of it still helps a model.
fn beside(schema: Value, others: &Others) -> Value {
    match others {
        Others::Any => json!({ "anyOf": [schema, true] }),
        Others::Some(other) => either(schema, other.clone()),
    }
}

struct Merger<'d> {
    document: &'d Document,
    left: usize,
}

impl Merger<'_> {
    fn shape(&mut self, schema: &Value) -> Shape {
        let Value::Object(members) = schema else {
            return Shape::any();
        };
        if self.left == 0 {
            return Shape::any();
        }
        self.left -= 1;
        let mut shape = own(members);
        let document = self.document;
        if let Some(target) = referred(members).and_then(|name| document.definitions.get(name)) {
            shape = shape.and(self.shape(target));
        }
        for inner in list(members, "allOf") {
            shape = shape.and(self.shape(inner));
        }
        for keyword in ["anyOf", "oneOf"] {
            let choices: Vec<Shape> = list(members, keyword)
                .filter(|choice| may_be_object(choice))
                .map(|choice| self.shape(choice))
                .collect();
            if let Some(any) = choices.into_iter().reduce(Shape::or) {
                shape = shape.and(any);
            }
        }
        shape
    }
}

/// What a schema says of members by itself.
fn own(members: &Map<String, Value>) -> Shape {
    let properties = match members.get("properties") {
        Some(Value::Object(all)) => all
            .iter()
            .map(|(name, schema)| (name.clone(), schema.clone()))
            .collect(),
        _ => BTreeMap::new(),
    };
    Shape {
        properties,
        required: list(members, "required")
            .filter_map(|name| Some(name.as_str()?.to_owned()))
            .collect(),
        others: match members.get("additionalProperties") {
            Some(schema) if !members.contains_key("patternProperties") => {
                Others::Some(schema.clone())
            }
            Some(_) | None => Others::Any,
        },
    }
}

fn list<'m>(
    members: &'m Map<String, Value>,
    keyword: &str,
) -> impl Iterator<Item = &'m Value> + use<'m> {
    members
        .get(keyword)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn may_be_object(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => takes_objects(members),
        Value::Bool(takes) => *takes,
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => true,
    }
}

struct Writer<'d> {
    document: &'d Document,
    wanted: VecDeque<String>,
    known: BTreeSet<String>,
}

impl Writer<'_> {
    /// The definitions that are referred to, and those that they refer to.
    fn definitions(&mut self) -> Map<String, Value> {
        let mut definitions = Map::new();
        while let Some(name) = self.wanted.pop_front() {
            let document = self.document;
            if let Some(schema) = document.definitions.get(&name) {
                let schema = self.schema(schema);
                definitions.insert(name, schema);
            }
        }
        definitions
    }

    fn schema(&mut self, schema: &Value) -> Value {
        let members = match schema {
            Value::Object(members) => members,
            Value::Bool(false) => return json!({ "not": {} }),
            Value::Null
            | Value::Bool(true)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => return json!({}),
        };
        if let Some(name) = referred(members) {
            if self.known.insert(name.to_owned()) {
                self.wanted.push_back(name.to_owned());
            }
            let mut written = Map::new();
            written.insert("$ref".to_owned(), format!("{DEFINITIONS}{name}").into());
            if let Some(text) = members.get("description") {
                written.insert("description".to_owned(), text.clone());
            }
            return written.into();
        }
        let mut written = Map::new();
        for (keyword, value) in members {
            self.keyword(&mut written, members, keyword, value);
        }
        let is_array = match members.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
            Some(kind) => kind == "array",
            None => false,
        };
        if is_array || members.contains_key("prefixItems") {
            let items = self.items(members);
            written.insert("items".to_owned(), items);
        }
        written.into()
    }

    fn keyword(
        &mut self,
        written: &mut Map<String, Value>,
        members: &Map<String, Value>,
        keyword: &str,
        value: &Value,
    ) {
        let value = match keyword {
            "type" => value.clone(),
            "const" => {
                if !members.contains_key("enum") {
                    written.insert("enum".to_owned(), json!([value]));
                }
                return;
            }
            "format" if FORMATS.iter().any(|known| value == known) => value.clone(),
            "pattern" if value.as_str().is_some_and(is_common) => value.clone(),
            "properties" => {
                let Some(all) = value.as_object() else { return };
                let written = all
                    .iter()
                    .map(|(name, schema)| (name.clone(), self.schema(schema)));
                written.collect::<Map<_, _>>().into()
            }
            "additionalProperties" if !members.contains_key("patternProperties") => {
                if value.is_boolean() {
                    value.clone()
                } else {
                    self.schema(value)
                }
            }
            "items" => self.items(members),
            "anyOf" | "allOf" => self.all(value),
            // What exactly one takes, one takes.
            "oneOf" => {
                let choices = self.all(value);
                if members.contains_key("anyOf") {
                    return;
                }
                written.insert("anyOf".to_owned(), choices);
                return;
            }
            plain if PLAIN.contains(&plain) => value.clone(),
            _ => return,
        };
        written.insert(keyword.to_owned(), value);
    }

    fn all(&mut self, value: &Value) -> Value {
        let all = value.as_array().map(Vec::as_slice).unwrap_or_default();
        all.iter().map(|schema| self.schema(schema)).collect()
    }

    /// What every item may be, whatever its place.
    fn items(&mut self, members: &Map<String, Value>) -> Value {
        let (tuple, rest) = match members.get("items") {
            Some(Value::Array(tuple)) => (Some(tuple), members.get("additionalItems")),
            rest => (members.get("prefixItems").and_then(Value::as_array), rest),
        };
        let Some(tuple) = tuple else {
            return rest.map_or_else(|| json!({}), |rest| self.schema(rest));
        };
        let mut choices: Vec<Value> = Vec::new();
        let rest = match rest {
            None => return json!({}),
            Some(Value::Bool(false)) => None,
            Some(rest) => Some(rest),
        };
        for schema in tuple.iter().chain(rest) {
            let schema = self.schema(schema);
            if !choices.contains(&schema) {
                choices.push(schema);
            }
        }
        if choices.len() == 1 {
            choices.remove(0)
        } else {
            json!({ "anyOf": choices })
        }
    }
}

/// Whether a pattern is one that every engine takes.
fn is_common(pattern: &str) -> bool {
    let odd = ["(?", "\\1", "\\k", "\\p", "\\P"];
    pattern.len() <= PATTERN_BYTES && !odd.iter().any(|odd| pattern.contains(odd))
}
