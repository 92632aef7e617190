//! Schemas that were read, by the hash of the definition that they belong to, so that a turn with warm Tools reads none.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use super::Schema;

/// Schemas, and bytes of their texts, after which those that were not used for as long are forgotten.
const SCHEMAS: usize = 1_024;
const BYTES: usize = 4 * 1_024 * 1_024;
/// Bytes of schemas that are read at once by whoever asks: some milliseconds' work.
const COLD_BYTES: usize = 64 * 1_024;

/// A schema, or why there is none. Cheap to clone.
type Read = Result<Arc<Schema>, Arc<str>>;

/// Schemas that were read. The older half is forgotten when the younger is full; what is asked for is young again.
#[derive(Debug, Default)]
pub(crate) struct Schemas(Mutex<Halves>);

#[derive(Debug, Default)]
struct Halves {
    young: HashMap<String, (Read, usize)>,
    old: HashMap<String, (Read, usize)>,
    bytes: usize,
}

impl Schemas {
    /// The schema of the definition of this hash. Two that ask for the same at once may both read it.
    pub(crate) fn get(&self, hash: &str, text: &str) -> Read {
        if let Some(read) = self.halves(|halves| halves.find(hash)) {
            return read;
        }
        let read = Schema::of(text).map(Arc::new).map_err(Arc::from);
        self.halves(|halves| halves.add(hash, read.clone(), text.len()));
        read
    }

    /// Reads those of these schemas that were not read yet, each with its hash. Long ones together are read where they keep nobody
    /// waiting: a hostile list takes a while.
    pub(crate) async fn warm(self: &Arc<Self>, schemas: impl Iterator<Item = (&str, &str)>) {
        let cold: Vec<(String, String)> = self.halves(|halves| {
            schemas
                .filter(|(hash, _)| halves.find(hash).is_none())
                .map(|(hash, text)| (hash.to_owned(), text.to_owned()))
                .collect()
        });
        let bytes: usize = cold.iter().map(|(_, text)| text.len()).sum();
        if bytes < COLD_BYTES {
            return;
        }
        let schemas = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || {
            for (hash, text) in cold {
                let _read = schemas.get(&hash, &text);
            }
        });
        // What it did not come to is read when it is asked for.
        if let Err(error) = read.await {
            tracing::error!(error = %error, "reading schemas failed");
        }
    }

    fn halves<T>(&self, work: impl FnOnce(&mut Halves) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Halves {
    fn find(&mut self, hash: &str) -> Option<Read> {
        if let Some((read, _)) = self.young.get(hash) {
            return Some(read.clone());
        }
        let (read, bytes) = self.old.remove(hash)?;
        self.add(hash, read.clone(), bytes);
        Some(read)
    }

    fn add(&mut self, hash: &str, read: Read, bytes: usize) {
        if self.young.len() >= SCHEMAS || self.bytes + bytes > BYTES {
            self.old = mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.young.insert(hash.to_owned(), (read, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_read_once_and_one_without_a_schema_too() {
        let schemas = Schemas::default();
        let one = schemas.get("a", "{}").unwrap();
        assert!(Arc::ptr_eq(&one, &schemas.get("a", "{}").unwrap()));
        let none = schemas.get("b", "7").unwrap_err();
        assert!(Arc::ptr_eq(&none, &schemas.get("b", "7").unwrap_err()));
    }

    #[tokio::test]
    async fn many_that_were_never_read_are_read_beforehand() {
        let schemas = Arc::new(Schemas::default());
        let long = format!("{{\"description\":\"{}\"}}", "x".repeat(COLD_BYTES));
        schemas
            .warm([("a", long.as_str()), ("b", "7")].into_iter())
            .await;
        assert!(schemas.halves(|halves| halves.find("a")).unwrap().is_ok());
        assert!(schemas.halves(|halves| halves.find("b")).unwrap().is_err());
    }

    #[test]
    fn what_is_used_stays_and_what_many_servers_list_does_not_pile_up() {
        let schemas = Schemas::default();
        let kept = schemas.get("kept", "{}").unwrap();
        for n in 0..3 * SCHEMAS {
            schemas.get(&n.to_string(), "{}").unwrap();
            if n % 100 == 0 {
                let again = schemas.get("kept", "{}").unwrap();
                assert!(Arc::ptr_eq(&kept, &again), "{n}");
            }
        }
        let count = schemas.halves(|halves| halves.young.len() + halves.old.len());
        assert!(count <= 2 * SCHEMAS, "{count}");
        let large = format!("{{\"description\":\"{}\"}}", "x".repeat(100_000));
        for n in 0..200 {
            schemas.get(&format!("large {n}"), &large).unwrap();
        }
        let bytes: usize = schemas.halves(|halves| {
            let all = halves.young.values().chain(halves.old.values());
            all.map(|(_, bytes)| bytes).sum()
        });
        assert!(bytes <= 2 * BYTES, "{bytes}");
    }
}
