//! What Tools give that is no text: rows that go with the result, for whoever may read the Conversation.

use kernel::{Caller, MediaId, SystemClock};
use proto::{
    mcp::v1::{Media, content::Kind},
    turn::v1::{
        DeleteConversationRequest, GetMediaRequest, GetMediaResponse, MediaReference, TurnStatus,
        part::Content,
    },
};
use sea_orm::{ConnectionTrait as _, Statement};
use store::Store;
use testkit::{on_every_database, provider::Step};
use tonic::{Code, Status};

use crate::{
    gateway::{Call, gives},
    mcp::{call, result, with_docs},
    village::{Done, Setup, Village, say},
};

fn image(bytes: usize) -> Kind {
    Kind::Media(Media {
        kind: "image".to_owned(),
        media_type: "image/png".to_owned(),
        data: (0..=250).cycle().take(bytes).collect::<Vec<u8>>().into(),
        bytes: bytes as u64,
        uri: String::new(),
    })
}

fn media_of(done: &Done) -> Vec<MediaReference> {
    done.message
        .parts
        .iter()
        .filter_map(|part| match &part.content {
            Some(Content::ToolCall(call)) => Some(call.media.clone()),
            _ => None,
        })
        .flatten()
        .collect()
}

async fn get(village: &Village, caller: &Caller, id: &str) -> Result<GetMediaResponse, Status> {
    let request = GetMediaRequest {
        media_id: id.to_owned(),
    };
    village
        .conversations(caller)
        .get_media(request)
        .await
        .map(tonic::Response::into_inner)
}

async fn rows(village: &Village) -> i64 {
    let db = village.store.reader();
    let count =
        Statement::from_string(db.get_database_backend(), "SELECT COUNT(*) AS n FROM media");
    db.query_one_raw(count)
        .await
        .unwrap()
        .unwrap()
        .try_get("", "n")
        .unwrap()
}

/// A turn in which a Tool gives an image.
async fn with_image(village: &Village, bytes: usize) -> Done {
    village
        .gateway
        .script([gives([Kind::Text("Here.".to_owned()), image(bytes)])]);
    village.provider.script([call(), Step::new().text("Nice.")]);
    village.say("c", "Keeper", "show me").await
}

on_every_database! {
    async fn an_image_is_kept_described_to_the_model_and_read_back_byte_for_byte(store: Store) {
        let (village, _docs) = with_docs(store).await;
        let done = with_image(&village, 12_345).await;
        let media = media_of(&done);
        assert_eq!((media.len(), media[0].kind.as_str(), media[0].media_type.as_str(), media[0].bytes), (1, "image", "image/png", 12_345));
        let read = result(&village, 1);
        let line = format!("Done.\n[image image/png, 12,345 bytes, kept as media {}]\n<<<data ", media[0].id);
        assert!(read.starts_with(&line), "{read}");
        let got = get(&village, &village.player(), &media[0].id).await.unwrap();
        assert_eq!(got.media.as_ref(), Some(&media[0]));
        let Kind::Media(sent) = image(12_345) else { panic!() };
        assert_eq!(got.data, sent.data);
        // Every read names it.
        let conversation = village.conversation("c").await;
        let Some(Content::ToolCall(call)) = &conversation.messages[1].parts[0].content else { panic!("no call") };
        assert_eq!(call.media, media);
    }

    async fn media_are_read_by_whoever_may_read_the_conversation_and_the_operators_reading_is_audited(store: Store) {
        let (village, _docs) = with_docs(store).await;
        let media = media_of(&with_image(&village, 10).await).remove(0);
        let stranger = Caller::Player(village.new_player("Bob").await);
        let refused = get(&village, &stranger, &media.id).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
        let nothing = MediaId::mint(&SystemClock).to_string();
        let missing = get(&village, &stranger, &nothing).await.unwrap_err();
        assert_eq!(missing.message().replace(&nothing, &media.id), refused.message(), "one sentence for both");
        assert_eq!(get(&village, &village.player(), "no id").await.unwrap_err().code(), Code::InvalidArgument);
        assert!(village.audited().await.is_empty());
        get(&village, &village.operator(), &media.id).await.unwrap();
        assert_eq!(village.audited().await.len(), 1);
    }

    async fn media_go_with_their_conversation(store: Store) {
        let (village, _docs) = with_docs(store).await;
        let media = media_of(&with_image(&village, 10).await).remove(0);
        assert_eq!(rows(&village).await, 1);
        let conversation = DeleteConversationRequest { conversation: "c".to_owned() };
        village.conversations(&village.player()).delete_conversation(conversation).await.unwrap();
        assert_eq!(rows(&village).await, 0);
        assert_eq!(get(&village, &village.player(), &media.id).await.unwrap_err().code(), Code::NotFound);
    }

    async fn a_turn_keeps_sixteen_mebibytes_and_describes_the_rest(store: Store) {
        let (village, _docs) = with_docs(store).await;
        let size = 4 * 1_024 * 1_024;
        village.gateway.script((0..5).map(|_| gives([image(size)])));
        let steps = (0..5).map(|_| call()).chain([Step::new().text("Enough.")]);
        village.provider.script(steps);
        let done = village.say("c", "Keeper", "show me").await;
        assert_eq!(done.ended().status(), TurnStatus::Finished);
        assert_eq!(media_of(&done).len(), 4);
        assert_eq!(rows(&village).await, 4);
        assert!(result(&village, 5).contains("not kept: this turn has kept as much as one turn may"), "{}", result(&village, 5));
        let got = get(&village, &village.player(), &media_of(&done)[0].id).await.unwrap();
        assert_eq!(got.data.len(), size);
    }

    async fn an_aborted_call_leaves_no_media_behind(store: Store) {
        let (village, _docs) = with_docs(store).await;
        village.gateway.script([gives([image(100)]), Call::Hangs]);
        village.provider.script([call(), call()]);
        let started = village.start(say("c", "Keeper", "show me")).await.unwrap();
        village.gateway.begun.notified().await;
        village.gateway.begun.notified().await;
        village.abort(&started.turn_id).await;
        let done = village.done(started).await;
        assert_eq!(done.lines(), ["docs__search ended ok", "docs__search ended interrupted", "notice stopped"]);
        assert_eq!((media_of(&done).len(), rows(&village).await), (1, 1));
    }

    async fn an_owner_that_dies_leaves_no_media_without_a_result(store: Store) {
        let (mut village, _docs) = with_docs(store).await;
        village.gateway.script([gives([image(100)]), Call::Hangs]);
        village.provider.script([call(), call()]);
        let started = village.start(say("c", "Keeper", "show me")).await.unwrap();
        village.gateway.begun.notified().await;
        village.gateway.begun.notified().await;
        village.lifecycle.drain(std::time::Duration::ZERO, futures::future::ready(())).await;
        let (replica, _lifecycle) = village.replica(&Setup::default());
        village.move_to(replica);
        let done = village.done(started).await;
        assert_eq!(i64::try_from(media_of(&done).len()), Ok(rows(&village).await));
    }

    async fn a_failed_call_may_give_media_too(store: Store) {
        let (village, _docs) = with_docs(store).await;
        let Call::Gives(mut failed) = gives([Kind::Text("Broken.".to_owned()), image(7)]) else { panic!() };
        failed.end = proto::mcp::v1::CallEnd::ToolError.into();
        village.gateway.script([Call::Gives(failed)]);
        village.provider.script([call(), Step::new().text("Oh.")]);
        let done = village.say("c", "Keeper", "show me").await;
        assert_eq!(done.lines(), ["docs__search ended error", "text: Oh."]);
        assert_eq!(media_of(&done).len(), 1);
        let Some(Content::ToolCall(call)) = &done.message.parts[0].content else { panic!("no call") };
        assert!(call.sentence.starts_with("the Tool says that it failed:\n[image image/png, 7 bytes, kept as media "), "{}", call.sentence);
    }
}
