//! Every change leaves a row, in its own transaction.

use kernel::{ErrorCode, ServiceName};
use proto::registry::v1::*;
use store::Store;
use testkit::on_every_database;

use crate::support::{Setup, refused, service};

on_every_database! {
    async fn every_change_says_who_did_what(store: Store) {
        let setup = Setup::new(store).await;
        let npc = setup.npc(&setup.owner, "Keeper").await;
        setup.npc(&setup.owner, "Smith").await;
        setup.add(&setup.owner, "Keeper", "tool:current_time").await.expect("a Grant");
        setup.add(&setup.owner, "Smith", "npc:Keeper").await.expect("a Grant");
        let remove = RemoveGrantRequest { npc: "Keeper".to_owned(), what: "tool:current_time".to_owned() };
        setup.grants(&setup.operator).remove_grant(remove).await.expect("it is removed");
        let edit = UpdateNpcRequest { npc: npc.id.clone(), persona: Some("new".to_owned()), ..UpdateNpcRequest::default() };
        setup.npcs(&setup.owner).update_npc(edit).await.expect("it is changed");
        setup.npcs(&setup.owner).delete_npc(DeleteNpcRequest { npc: npc.id.clone() }).await.expect("it is deleted");
        let renew = UpdatePlayerRequest { player: "Ben".to_owned(), name: None, new_token: true };
        setup.players(&setup.operator).update_player(renew).await.expect("it is changed");
        setup.players(&setup.operator).revoke_player(RevokePlayerRequest { player: "Ben".to_owned() }).await.expect("it is revoked");

        let (owner, operator) = (setup.owner.label(), setup.operator.label());
        let itself = "service:tool-registry".to_owned();
        let expected = [
            ("player.revoke", &operator),
            ("player.new_token", &operator),
            ("npc.delete", &owner),
            ("grant.remove", &owner),
            ("npc.update", &owner),
            ("grant.remove", &operator),
            ("grant.add", &owner),
            ("grant.add", &owner),
            ("npc.create", &owner),
            ("npc.create", &owner),
            ("player.create", &operator),
            ("player.create", &operator),
            ("player.create", &itself),
        ];
        let mut rows = setup.audited().await;
        // Rows of one transaction are of one microsecond here, since the clock stands.
        rows[2..4].sort_by(|a, b| b.cmp(a));
        assert_eq!(rows, expected.map(|(action, actor)| (action.to_owned(), actor.clone())));
    }

    async fn a_row_has_the_thing_before_and_after(store: Store) {
        let setup = Setup::new(store).await;
        let npc = setup.npc(&setup.owner, "Keeper").await;
        let edit = UpdateNpcRequest { npc: npc.id.clone(), name: Some("Old Keeper".to_owned()), ..UpdateNpcRequest::default() };
        setup.npcs(&setup.owner).update_npc(edit).await.expect("it is changed");
        let request = ListAuditRowsRequest { page_size: 1, page_token: String::new() };
        let row = setup.audit(&setup.operator).list_audit_rows(request).await.expect("a row").into_inner().rows.remove(0);
        assert_eq!((row.subject_kind.as_str(), row.subject_id.as_str()), ("npc", npc.id.as_str()));
        let name = |json: &str| serde_json::from_str::<serde_json::Value>(json).expect("JSON")["name"].clone();
        assert_eq!((name(&row.before_json), name(&row.after_json)), ("Keeper".into(), "Old Keeper".into()));
    }

    async fn before_and_after_speak_as_the_http_surface_does(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.add(&setup.owner, "Keeper", "tool:current_time").await.expect("a Grant");
        let request = ListAuditRowsRequest { page_size: 10, page_token: String::new() };
        let rows = setup.audit(&setup.operator).list_audit_rows(request).await.expect("rows").into_inner().rows;
        for row in rows {
            let after: serde_json::Value = serde_json::from_str(&row.after_json).expect("JSON");
            let fields = after.as_object().expect("a thing");
            assert!(fields.keys().all(|name| !name.contains('_')), "{after}");
            let at = fields["createdAt"].as_str().expect("a time in words");
            assert!(at.ends_with('Z') && at.contains('T'), "{at}");
        }
    }

    async fn what_is_refused_leaves_no_row(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        let before = setup.audited().await;
        setup.add(&setup.other, "Keeper", "tool:fetch_url").await.expect_err("not theirs");
        setup.add(&setup.owner, "Keeper", "npc:Nobody").await.expect_err("nobody");
        let delete = setup.npcs(&setup.other).delete_npc(DeleteNpcRequest { npc: "Keeper".to_owned() }).await;
        assert_eq!(refused(delete).code, ErrorCode::PermissionDenied);
        assert_eq!(setup.audited().await, before);
    }

    async fn a_service_writes_rows_for_itself_and_whom_it_acts_for_and_nobody_else(store: Store) {
        let setup = Setup::new(store).await;
        let operator = setup.operator.player().expect("a Player");
        let orchestrator = service(ServiceName::TurnOrchestrator, Some(operator));
        let entry = |actor: &str| RecordAuditRowRequest {
            actor: actor.to_owned(),
            action: "conversation.read".to_owned(),
            subject_kind: "conversation".to_owned(),
            subject_id: "0193fb11-0000-7000-8000-000000000000".to_owned(),
        };
        let mut audit = setup.audit(&orchestrator);
        for actor in [setup.operator.label(), orchestrator.label()] {
            audit.record_audit_row(entry(&actor)).await.expect("it is written");
        }
        for actor in [setup.owner.label(), setup.model().label(), "service:edge".to_owned(), String::new(), "x".repeat(9_999)] {
            assert_eq!(refused(audit.record_audit_row(entry(&actor)).await).field.as_deref(), Some("actor"));
        }
        for (field, request) in [
            ("action", RecordAuditRowRequest { action: "a b".to_owned(), ..entry(&setup.operator.label()) }),
            ("subject_kind", RecordAuditRowRequest { subject_kind: String::new(), ..entry(&setup.operator.label()) }),
            ("subject_id", RecordAuditRowRequest { subject_id: "x".repeat(65), ..entry(&setup.operator.label()) }),
        ] {
            assert_eq!(refused(audit.record_audit_row(request).await).field.as_deref(), Some(field));
        }
        for caller in [&setup.operator, &setup.owner] {
            let denied = setup.audit(caller).record_audit_row(entry(&caller.label())).await;
            assert_eq!(refused(denied).code, ErrorCode::PermissionDenied);
        }
        let written = setup.audited().await.into_iter().filter(|(action, _)| action == "conversation.read").count();
        assert_eq!(written, 2);
    }
}
