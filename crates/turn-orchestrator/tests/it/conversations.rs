//! Conversations and Messages: who reads, lists and deletes them.

use kernel::Caller;
use proto::turn::v1::{
    DeleteConversationRequest, DeleteMessageRequest, GetConversationRequest, GetMessageRequest,
    ListConversationsRequest, ListMessagesRequest, Role,
};
use store::Store;
use testkit::{
    on_every_database,
    provider::{Gate, Step},
};
use tonic::Code;

use crate::village::{Village, say};

on_every_database! {
    async fn conversations_are_listed_by_pages_newest_first(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.answer_with(|_| Step::new().text("Hi."));
        for name in ["a", "b", "c", "d", "e"] {
            village.say(name, "Keeper", "hello").await;
            village.clock.advance(std::time::Duration::from_millis(1));
        }
        let mut listed = Vec::new();
        let mut token = String::new();
        loop {
            let page = village.conversations(&village.player()).list_conversations(ListConversationsRequest {
                page_size: 2, page_token: token,
            }).await.unwrap().into_inner();
            assert!(page.conversations.len() <= 2);
            listed.extend(page.conversations.into_iter().map(|conversation| conversation.client_id));
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(listed, ["e", "d", "c", "b", "a"]);
        let other = Caller::Player(village.new_player("Bob").await);
        let none = village.conversations(&other).list_conversations(ListConversationsRequest::default())
            .await.unwrap().into_inner();
        assert!(none.conversations.is_empty());
        for (size, token) in [(201, ""), (1, "nonsense"), (1, "1.2")] {
            let refused = village.conversations(&village.player()).list_conversations(ListConversationsRequest {
                page_size: size, page_token: token.to_owned(),
            }).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
        }
    }

    async fn messages_are_listed_by_pages_oldest_first(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.answer_with(|_| Step::new().text("Hi."));
        for text in ["one", "two", "three"] {
            village.say("c", "Keeper", text).await;
        }
        let mut listed = Vec::new();
        let mut token = String::new();
        loop {
            let page = village.conversations(&village.player()).list_messages(ListMessagesRequest {
                conversation: "c".to_owned(), page_size: 4, page_token: token,
            }).await.unwrap().into_inner();
            listed.extend(page.messages.into_iter().map(|message| (message.role(), message.client_id)));
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        let user = |id: &str| (Role::User, id.to_owned());
        let npc = || (Role::Assistant, String::new());
        assert_eq!(listed, [user("m-one"), npc(), user("m-two"), npc(), user("m-three"), npc()]);
    }

    async fn a_conversation_of_another_is_not_found_and_the_operator_leaves_an_audit_row(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        village.provider.script([Step::new().text("Hi.")]);
        let done = village.say("c", "Keeper", "hello").await;
        let id = done.started.conversation_id.clone();
        let stranger = Caller::Player(village.new_player("Bob").await);
        let operator = village.operator();
        let (get, message) = (
            || GetConversationRequest { conversation: id.clone() },
            || GetMessageRequest { message_id: done.started.message_id.clone() },
        );
        let mut client = village.conversations(&stranger);
        assert_eq!(client.get_conversation(get()).await.unwrap_err().code(), Code::NotFound);
        assert_eq!(client.get_message(message()).await.unwrap_err().code(), Code::NotFound);
        let delete = DeleteConversationRequest { conversation: id.clone() };
        assert_eq!(client.delete_conversation(delete.clone()).await.unwrap_err().code(), Code::NotFound);
        let gone = DeleteMessageRequest { message_id: done.started.message_id.clone() };
        assert_eq!(client.delete_message(gone).await.unwrap_err().code(), Code::NotFound);

        let mut client = village.conversations(&operator);
        assert_eq!(client.get_conversation(get()).await.unwrap().into_inner().messages.len(), 2);
        client.get_message(message()).await.unwrap();
        client.list_messages(ListMessagesRequest { conversation: id.clone(), ..ListMessagesRequest::default() }).await.unwrap();
        assert_eq!(client.delete_conversation(delete).await.unwrap_err().code(), Code::PermissionDenied);
        let audited = village.audited().await;
        assert_eq!(audited.len(), 3);
        assert!(audited.iter().all(|row| row.action == "conversation.read" && row.subject_id == id));
    }

    async fn a_deleted_conversation_is_gone_with_all_that_belongs_to_it(store: Store) {
        let village = Village::new(store).await;
        village.npc("Keeper", &[]).await;
        let gate = Gate::new();
        village.provider.script([Step::new().text("One"), Step::new().text("Two").gate(&gate)]);
        let done = village.say("c", "Keeper", "one").await;
        let running = village.start(say("c", "Keeper", "two")).await.unwrap();
        gate.reached().await;
        let mut client = village.conversations(&village.player());
        let refused = client.delete_message(DeleteMessageRequest { message_id: done.started.message_id.clone() }).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "a turn runs");
        client.delete_conversation(DeleteConversationRequest { conversation: "c".to_owned() }).await.unwrap();
        for message in [done.started.message_id, running.message_id] {
            let refused = client.get_message(GetMessageRequest { message_id: message }).await.unwrap_err();
            assert_eq!(refused.code(), Code::NotFound);
        }
        let refused = client.get_conversation(GetConversationRequest { conversation: "c".to_owned() }).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
    }
}
