//! The Providers of a Village, by name.

use std::{collections::BTreeMap, sync::Arc};

use crate::{ModelName, Provider};

/// A model names a Provider that is not in the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no Provider {name:?}; {}", hint(nearest.as_deref(), known))]
pub struct UnknownProvider {
    /// The name.
    pub name: String,
    /// The known name most like it.
    pub nearest: Option<String>,
    /// All known names.
    pub known: Vec<String>,
}

fn hint(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => format!(
            "known are {}, and more can be set as [providers.NAME]",
            known.join(", ")
        ),
    }
}

/// The Providers of a Village.
#[derive(Debug, Clone)]
pub struct Providers {
    by_name: BTreeMap<String, Arc<dyn Provider>>,
}

impl Providers {
    /// Takes Providers as they are; of two with the same name the later stays.
    pub fn of(providers: impl IntoIterator<Item = Arc<dyn Provider>>) -> Self {
        Self {
            by_name: providers
                .into_iter()
                .map(|provider| (provider.name().to_owned(), provider))
                .collect(),
        }
    }

    /// The Provider that serves a model.
    pub fn resolve(&self, model: &ModelName) -> Result<Arc<dyn Provider>, UnknownProvider> {
        self.by_name
            .get(model.provider())
            .cloned()
            .ok_or_else(|| UnknownProvider {
                name: model.provider().to_owned(),
                nearest: kernel::nearest(model.provider(), self.names()).map(str::to_owned),
                known: self.names().map(str::to_owned).collect(),
            })
    }

    /// Their names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }
}
