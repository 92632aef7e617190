//! What judging by a schema costs at most, told before anything is judged.
//!
//! A schema of a few hundred bytes can ask for more judgements than anybody lives to see: references double on each level
//! ("billion laughs"), or lead back to where they come from. And judging goes as deep as references do, on a stack that ends. So the
//! most judgements of one place of a value are counted, by how deep the place lies; what costs too much is not judged here.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    keywords::{self, Place},
    relax::Document,
};

/// Judgements, of about a tenth of a microsecond each, that one call's arguments may need.
const JUDGEMENTS: u64 = 1_000_000;
/// How deep judging may go: each level takes some hundred bytes of the stack.
const DEEP: u64 = 1_000;
/// How deep the compiler may go, which takes more of the stack: all definitions below each other, at worst.
const NESTED: usize = 600;
/// Bytes of a value that count as one more place: patterns read them.
const BYTES_A_PLACE: usize = 64;

/// What judging costs by one schema.
#[derive(Debug)]
pub(super) struct Cost {
    /// In an order in which whatever a schema applies to the same value comes before it. The last is the root.
    steps: Vec<Step>,
}

/// One schema of the document.
#[derive(Debug, Default, Clone)]
struct Step {
    /// What it costs itself.
    weight: u64,
    /// What it applies to the same value.
    same: Vec<usize>,
    /// How often it may do so.
    times: u64,
    /// What it applies to each member.
    any: Vec<usize>,
    /// Of what it applies to members, one for each.
    one: Vec<usize>,
}

/// Judgements, and how deep they go, by one step at one depth.
#[derive(Debug, Default, Clone, Copy)]
struct Bound {
    judgements: u64,
    deep: u64,
}

impl Cost {
    /// Counts.
    ///
    /// # Errors
    /// The schema refers to itself without end, or nests too deep: a sentence.
    pub(super) fn of(document: &Document) -> Result<Self, String> {
        let mut graph = Graph {
            steps: Vec::new(),
            names: BTreeMap::new(),
        };
        let mut nested = height(&document.root);
        for (name, definition) in &document.definitions {
            nested += height(definition);
            let at = graph.steps.len();
            graph.steps.push(Step::default());
            graph.names.insert(name, at);
        }
        if nested > NESTED {
            return Err(format!(
                "its schema nests too deep: {nested} levels with its definitions, of at most {NESTED}"
            ));
        }
        for (name, definition) in &document.definitions {
            if let Some(&at) = graph.names.get(name.as_str()) {
                graph.add_at(at, definition);
            }
        }
        let root = graph.add(&document.root);
        let order = graph.ordered()?;
        Ok(Self {
            steps: renumbered(&graph.steps, &order, root),
        })
    }

    /// Whether a value may be judged.
    pub(super) fn allows(&self, value: &Value, bytes: usize) -> bool {
        let mut size = Size::default();
        size.count(value, 0);
        let places = size.places + bytes / BYTES_A_PLACE;
        let most = JUDGEMENTS / (places as u64).max(1);
        let mut below = vec![Bound::default(); self.steps.len()];
        for _depth in 0..=size.deep {
            let mut here: Vec<Bound> = Vec::with_capacity(self.steps.len());
            for step in &self.steps {
                here.push(step.bound(&here, &below));
            }
            let Some(root) = here.last() else { return true };
            if root.judgements > most || root.deep > DEEP {
                return false;
            }
            below = here;
        }
        true
    }
}

impl Step {
    fn bound(&self, here: &[Bound], below: &[Bound]) -> Bound {
        let mut judgements = self.weight;
        let mut deep = 0;
        for &at in &self.same {
            judgements = judgements.saturating_add(here[at].judgements.saturating_mul(self.times));
            deep = here[at].deep.max(deep);
        }
        for &at in &self.any {
            judgements = judgements.saturating_add(below[at].judgements);
            deep = below[at].deep.max(deep);
        }
        let one = self.one.iter().map(|&at| below[at].judgements).max();
        deep = self
            .one
            .iter()
            .map(|&at| below[at].deep)
            .max()
            .unwrap_or(0)
            .max(deep);
        Bound {
            judgements: judgements.saturating_add(one.unwrap_or(0)),
            deep: deep + 1,
        }
    }
}

struct Graph<'d> {
    steps: Vec<Step>,
    names: BTreeMap<&'d str, usize>,
}

impl Graph<'_> {
    fn add(&mut self, schema: &Value) -> usize {
        let at = self.steps.len();
        self.steps.push(Step::default());
        self.add_at(at, schema);
        at
    }

    fn add_at(&mut self, at: usize, schema: &Value) {
        let mut step = Step {
            weight: 1,
            times: 1,
            ..Step::default()
        };
        if let Value::Object(members) = schema {
            step.weight = weight(members);
            step.times = times(members);
            for (place, inner) in keywords::inner(members) {
                let inner = self.add(inner);
                match place {
                    Place::Same => step.same.push(inner),
                    Place::Any => step.any.push(inner),
                    Place::One => step.one.push(inner),
                }
            }
            let referred = keywords::referred(members);
            step.same
                .extend(referred.and_then(|name| self.names.get(name)));
        }
        self.steps[at] = step;
    }

    /// The steps in an order in which what is applied to the same value comes first.
    fn ordered(&self) -> Result<Vec<usize>, String> {
        let mut waits: Vec<usize> = self.steps.iter().map(|step| step.same.len()).collect();
        let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); self.steps.len()];
        for (at, step) in self.steps.iter().enumerate() {
            for &inner in &step.same {
                waiting[inner].push(at);
            }
        }
        let mut order: Vec<usize> = (0..self.steps.len()).filter(|&at| waits[at] == 0).collect();
        let mut next = 0;
        while let Some(&at) = order.get(next) {
            next += 1;
            for &outer in &waiting[at] {
                waits[outer] -= 1;
                if waits[outer] == 0 {
                    order.push(outer);
                }
            }
        }
        if order.len() == self.steps.len() {
            Ok(order)
        } else {
            Err("its schema refers to itself without end".to_owned())
        }
    }
}

/// The steps in this order, and the root once more at the end.
fn renumbered(steps: &[Step], order: &[usize], root: usize) -> Vec<Step> {
    let mut places = vec![0; steps.len()];
    for (place, &at) in order.iter().enumerate() {
        places[at] = place;
    }
    let moved = |all: &[usize]| all.iter().map(|&at| places[at]).collect();
    order
        .iter()
        .chain([&root])
        .map(|&at| Step {
            weight: steps[at].weight,
            times: steps[at].times,
            same: moved(&steps[at].same),
            any: moved(&steps[at].any),
            one: moved(&steps[at].one),
        })
        .collect()
}

/// What a schema compares with costs as much as there is of it.
fn weight(members: &Map<String, Value>) -> u64 {
    let sized = ["enum", "const", "required", "patternProperties"];
    let compared = sized.iter().filter_map(|keyword| members.get(*keyword));
    compared.fold(1, |sum, value| sum + (parts(value) as u64) / 4)
}

/// How often a schema may apply what is in it to the same value: to judge, to tell which of many was met, and to see what was judged.
fn times(members: &Map<String, Value>) -> u64 {
    let looks_again = ["unevaluatedProperties", "unevaluatedItems"];
    if looks_again
        .iter()
        .any(|keyword| members.contains_key(*keyword))
    {
        4
    } else if members.contains_key("oneOf") || members.contains_key("if") {
        2
    } else {
        1
    }
}

fn parts(value: &Value) -> usize {
    match value {
        Value::Array(all) => 1 + all.iter().map(parts).sum::<usize>(),
        Value::Object(all) => 1 + all.values().map(parts).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

fn height(value: &Value) -> usize {
    match value {
        Value::Array(all) => 1 + all.iter().map(height).max().unwrap_or(0),
        Value::Object(all) => 1 + all.values().map(height).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// How large a value is.
#[derive(Debug, Default)]
struct Size {
    places: usize,
    deep: usize,
}

impl Size {
    fn count(&mut self, value: &Value, depth: usize) {
        self.places += 1;
        self.deep = self.deep.max(depth);
        match value {
            Value::Array(all) => all.iter().for_each(|value| self.count(value, depth + 1)),
            Value::Object(all) => all.values().for_each(|value| self.count(value, depth + 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}
