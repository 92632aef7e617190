//! The Providers of a Village, by name.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use crate::{
    ModelName, Provider, ProviderConfig,
    config::InvalidProviderConfig,
    endpoint::{ClientError, client},
    http_provider::HttpProvider,
};

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

/// The Providers cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ProvidersError {
    /// A section `[providers.NAME]` is wrong.
    #[error(transparent)]
    Config(#[from] InvalidProviderConfig),
    /// There is no HTTP client.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// The Providers of a Village.
#[derive(Debug, Clone)]
pub struct Providers {
    by_name: BTreeMap<String, Arc<dyn Provider>>,
}

impl Providers {
    /// Makes the Providers that the settings name, and `openai` and `anthropic`, which are there without settings too (and
    /// then say that their key is missing). All with the same connect timeout share a connection pool.
    pub fn from_config(configs: HashMap<String, ProviderConfig>) -> Result<Self, ProvidersError> {
        let mut configs: BTreeMap<String, ProviderConfig> = configs.into_iter().collect();
        for name in ["openai", "anthropic"] {
            configs.entry(name.to_owned()).or_default();
        }
        let mut clients: HashMap<Duration, reqwest::Client> = HashMap::new();
        let mut by_name: BTreeMap<String, Arc<dyn Provider>> = BTreeMap::new();
        for (name, config) in configs {
            let judged = config.judge(&name)?;
            let connect = judged.timeouts.connect;
            let shared = if let Some(made) = clients.get(&connect) {
                made.clone()
            } else {
                let made = client(connect)?;
                clients.insert(connect, made.clone());
                made
            };
            let provider = HttpProvider::new(&name, &config, &judged, shared)?;
            by_name.insert(name, Arc::new(provider));
        }
        Ok(Self { by_name })
    }

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
