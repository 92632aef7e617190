//! What a turn is told of its NPC.

use kernel::{Caller, ErrorCode, ServiceName};
use proto::registry::v1::{resolved_grant::Target, *};
use store::Store;
use testkit::on_every_database;
use tonic::{Response, Status};

use crate::support::{Setup, refused, service};

async fn resolve(
    setup: &Setup,
    player: &Caller,
    npc: &str,
) -> Result<Response<ResolveNpcResponse>, Status> {
    let caller = service(ServiceName::TurnOrchestrator, player.player());
    let request = ResolveNpcRequest {
        npc: npc.to_owned(),
    };
    setup.resolution(&caller).resolve_npc(request).await
}

/// The targets, as short words.
fn targets(resolved: Response<ResolveNpcResponse>) -> Vec<String> {
    let grants = resolved.into_inner().grants;
    let targets = grants.into_iter().map(|grant| match grant.target {
        Some(Target::Tool(tool)) => format!("tool {}", tool.name),
        Some(Target::Family(family)) => format!("family {}", family.name),
        Some(Target::McpServer(server)) => format!("mcp {}", server.name),
        Some(Target::Colleague(colleague)) => format!("npc {} {}", colleague.name, colleague.slug),
        None => "nothing".to_owned(),
    });
    targets.collect()
}

on_every_database! {
    async fn grants_come_resolved_in_a_stable_order(store: Store) {
        let setup = Setup::new(store).await;
        let npc = setup.npc(&setup.owner, "Keeper").await;
        setup.npc(&setup.other, "Old Smith").await;
        setup.npc(&setup.other, "Baker").await;
        for what in ["npc:Old Smith", "family:sandbox", "tool:fetch_url", "npc:Baker", "family:memory", "tool:current_time"] {
            setup.add(&setup.owner, "Keeper", what).await.expect("a Grant");
        }
        let resolved = resolve(&setup, &setup.other, "keeper").await.expect("it is resolved");
        assert_eq!(resolved.get_ref().npc.as_ref(), Some(&npc));
        assert_eq!(
            targets(resolved),
            ["tool current_time", "tool fetch_url", "family memory", "family sandbox", "npc Baker baker", "npc Old Smith old-smith"]
        );
    }

    async fn a_new_npc_has_nothing(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        let resolved = resolve(&setup, &setup.owner, "Keeper").await.expect("it is resolved");
        assert_eq!(targets(resolved), [""; 0]);
    }

    async fn a_private_npc_is_resolved_for_its_owner_and_the_operator(store: Store) {
        let setup = Setup::new(store).await;
        setup.private_npc(&setup.owner, "Secret").await;
        resolve(&setup, &setup.owner, "Secret").await.expect("the owner's");
        resolve(&setup, &setup.operator, "Secret").await.expect("the Operator sees all NPCs");
        let hidden = refused(resolve(&setup, &setup.other, "Secret").await);
        let missing = refused(resolve(&setup, &setup.other, "Missing").await);
        assert_eq!((hidden.code, hidden.sentence.as_str()), (ErrorCode::NotFound, "there is no NPC \"Secret\""));
        assert_eq!((missing.code, missing.sentence.as_str()), (ErrorCode::NotFound, "there is no NPC \"Missing\""));
    }

    async fn a_name_that_is_not_found_gets_the_nearest_that_the_player_may_see(store: Store) {
        let setup = Setup::new(store).await;
        setup.private_npc(&setup.owner, "Secret Keeper").await;
        setup.npc(&setup.owner, "Gate Keeper").await;
        for (player, given, nearest) in [
            (&setup.owner, "Secret Keper", "; did you mean \"Secret Keeper\"?"),
            (&setup.operator, "Secret Keper", "; did you mean \"Secret Keeper\"?"),
            (&setup.other, "Gate Keper", "; did you mean \"Gate Keeper\"?"),
            (&setup.other, "Secret", ""),
        ] {
            let sentence = format!("there is no NPC {given:?}{nearest}");
            assert_eq!(refused(resolve(&setup, player, given).await).sentence, sentence);
            let request = GetNpcRequest { npc: given.to_owned() };
            assert_eq!(refused(setup.npcs(player).get_npc(request).await).sentence, sentence);
        }
    }

    async fn a_private_colleague_is_there_only_in_turns_of_those_who_see_it(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.private_npc(&setup.owner, "Secret").await;
        setup.add(&setup.owner, "Keeper", "npc:Secret").await.expect("a Grant");
        for (player, expected) in [(&setup.owner, 1), (&setup.operator, 1), (&setup.other, 0)] {
            let resolved = resolve(&setup, player, "Keeper").await.expect("it is resolved");
            assert_eq!(targets(resolved).len(), expected, "{player:?}");
        }
    }

    async fn a_grant_that_was_taken_away_is_gone_at_the_next_turn(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.add(&setup.owner, "Keeper", "tool:fetch_url").await.expect("a Grant");
        assert_eq!(targets(resolve(&setup, &setup.owner, "Keeper").await.expect("it is resolved")).len(), 1);
        let remove = RemoveGrantRequest { npc: "Keeper".to_owned(), what: "tool:fetch_url".to_owned() };
        setup.grants(&setup.owner).remove_grant(remove).await.expect("it is removed");
        assert_eq!(targets(resolve(&setup, &setup.owner, "Keeper").await.expect("it is resolved")).len(), 0);
    }

    async fn no_turn_starts_for_a_player_who_was_revoked(store: Store) {
        let setup = Setup::new(store).await;
        setup.npc(&setup.owner, "Keeper").await;
        setup.players(&setup.operator).revoke_player(RevokePlayerRequest { player: "Ben".to_owned() }).await.expect("it is revoked");
        assert_eq!(refused(resolve(&setup, &setup.other, "Keeper").await).code, ErrorCode::PermissionDenied);
    }
}
