//! How the registry starts.

use std::sync::Arc;

use kernel::ErrorCode;
use runtime::Lifecycle;
use store::Store;
use testkit::{clock::ManualClock, dns::ScriptedDns, on_every_database};
use tool_registry::{Config, Deps, Error, build};

use crate::support::{OPERATOR_TOKEN, ROOT_SECRET, Setup, config, connector, coordination, vault};

async fn start(store: &Store, config: Config) -> Result<Lifecycle, Error> {
    let lifecycle = Lifecycle::new();
    let deps = Deps {
        store: store.clone(),
        clock: Arc::new(ManualClock::default()),
        vault: vault(ROOT_SECRET),
        connector: connector(&ScriptedDns::start().await, &[]),
        signals: coordination().signals,
    };
    build(config, deps, &lifecycle).await?;
    Ok(lifecycle)
}

on_every_database! {
    async fn the_operators_token_follows_the_settings(store: Store) {
        let setup = Setup::new(store.clone()).await;
        let changed = "another operator token, 32 bytes";
        start(&store, config(changed)).await.expect("it starts");
        assert_eq!(setup.holder(changed).await.ok(), setup.operator.player());
        assert!(setup.holder(OPERATOR_TOKEN).await.is_err());
    }

    async fn several_that_start_at_once_make_one_operator(store: Store) {
        let starts = (0..6).map(|_| start(&store, config(OPERATOR_TOKEN)));
        for started in futures::future::join_all(starts).await {
            assert!(started.expect("it starts").readiness().state().is_ready());
        }
        let setup = Setup::new(store).await;
        let operators = setup.audited().await.into_iter().filter(|(_, actor)| actor == "service:tool-registry").count();
        assert_eq!(operators, 1);
    }

    async fn a_short_operator_token_is_refused(store: Store) {
        let error = start(&store, config("hunter2")).await.expect_err("too short");
        assert_eq!(error.code(), ErrorCode::FailedPrecondition);
        assert!(!error.to_string().contains("hunter2"));
    }
}

mod without_a_schema {
    use testkit::on_every_empty_database;

    use super::*;

    on_every_empty_database! {
        async fn the_registry_says_what_to_run(store: Store) {
            let error = start(&store, config(OPERATOR_TOKEN)).await.expect_err("no schema");
            assert_eq!(error.code(), ErrorCode::FailedPrecondition);
            assert!(error.to_string().contains("agentsville migrate"), "{error}");
        }
    }
}
