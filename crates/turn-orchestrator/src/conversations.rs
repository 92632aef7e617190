//! Who may read and delete which Conversations and Messages.

use kernel::{
    Act, Caller, Decision, MediaId, MessageId, PlayerId, TurnId, decide, limits::CLIENT_ID_CHARS,
};

use crate::{
    Error,
    parts::Media,
    service::{Service, allowed, bounded, player_of},
    store::{Conversation, Message, Page, Turn},
};

impl Service {
    /// A Conversation with the Messages of its current branch.
    pub(crate) async fn read_conversation(
        &self,
        caller: &Caller,
        text: &str,
    ) -> Result<(Conversation, Vec<Message>), Error> {
        let conversation = self.readable(caller, text).await?;
        let messages = self.store.branch(conversation.id).await?;
        Ok((conversation, messages))
    }

    /// A page of the caller's Conversations.
    pub(crate) async fn list_conversations(
        &self,
        caller: &Caller,
        rows: u32,
        from: Option<Page>,
    ) -> Result<(Vec<Conversation>, Option<Page>), Error> {
        self.store
            .conversations(player_of(caller)?, rows, from)
            .await
    }

    /// A page of a Conversation's Messages.
    pub(crate) async fn list_messages(
        &self,
        caller: &Caller,
        text: &str,
        rows: u32,
        from: Option<Page>,
    ) -> Result<(Vec<Message>, Option<Page>), Error> {
        let conversation = self.readable(caller, text).await?;
        self.store.messages(conversation.id, rows, from).await
    }

    /// One Message.
    pub(crate) async fn read_message(
        &self,
        caller: &Caller,
        id: MessageId,
    ) -> Result<Message, Error> {
        player_of(caller)?;
        let (message, owner) = self.message_and_owner(id).await?;
        self.may_read(
            caller,
            owner,
            ("Message", &id.to_string()),
            &message.conversation.to_string(),
        )
        .await?;
        Ok(message)
    }

    /// What a Tool gave that is no text, with its bytes. Whoever may read its Conversation may read it.
    pub(crate) async fn read_media(
        &self,
        caller: &Caller,
        id: MediaId,
    ) -> Result<(Media, Vec<u8>), Error> {
        player_of(caller)?;
        let (media, conversation) = self.store.media(id).await?;
        let owner = self.store.conversation(conversation).await?.player;
        self.may_read(
            caller,
            owner,
            ("media", &id.to_string()),
            &conversation.to_string(),
        )
        .await?;
        let data = self.store.media_data(id).await?;
        Ok((media, data))
    }

    /// Deletes a Conversation; a running turn is stopped first.
    pub(crate) async fn delete_conversation(
        &self,
        caller: &Caller,
        text: &str,
    ) -> Result<Conversation, Error> {
        let player = player_of(caller)?;
        bounded("conversation", text, CLIENT_ID_CHARS)?;
        let conversation = self.store.find(player, text).await?;
        allowed(
            decide(caller, Act::ChangeConversation(conversation.player)),
            "Conversation",
            text,
        )?;
        if let Some(turn) = conversation.active_turn {
            self.stop_and_wait(turn).await?;
        }
        self.store.delete_conversation(conversation.id).await?;
        Ok(conversation)
    }

    /// Deletes a Message and what followed it.
    pub(crate) async fn delete_message(
        &self,
        caller: &Caller,
        id: MessageId,
    ) -> Result<u64, Error> {
        player_of(caller)?;
        let (message, owner) = self.message_and_owner(id).await?;
        allowed(
            decide(caller, Act::ChangeConversation(owner)),
            "Message",
            &id.to_string(),
        )?;
        self.store.delete_message(&message).await
    }

    /// A turn that the caller may watch.
    pub(crate) async fn watchable(&self, caller: &Caller, id: TurnId) -> Result<Turn, Error> {
        player_of(caller)?;
        let turn = self.store.turn(id).await?;
        self.may_read(
            caller,
            turn.player,
            ("turn", &id.to_string()),
            &turn.conversation.to_string(),
        )
        .await?;
        Ok(turn)
    }

    /// The running turn of a Conversation that the caller may watch.
    pub(crate) async fn watchable_of(&self, caller: &Caller, text: &str) -> Result<Turn, Error> {
        let conversation = self.readable(caller, text).await?;
        let turn = conversation
            .active_turn
            .ok_or_else(|| Error::NothingRuns(text.to_owned()))?;
        self.store.turn(turn).await
    }

    async fn readable(&self, caller: &Caller, text: &str) -> Result<Conversation, Error> {
        let player = player_of(caller)?;
        bounded("conversation", text, CLIENT_ID_CHARS)?;
        let conversation = self.store.find(player, text).await?;
        self.may_read(
            caller,
            conversation.player,
            ("Conversation", text),
            &conversation.id.to_string(),
        )
        .await?;
        Ok(conversation)
    }

    /// Decides whether the caller may read this Player's Conversation. What is audited is written down before it is read.
    async fn may_read(
        &self,
        caller: &Caller,
        owner: PlayerId,
        (what, name): (&'static str, &str),
        conversation: &str,
    ) -> Result<(), Error> {
        let decision = decide(caller, Act::ReadConversation(owner));
        allowed(decision, what, name)?;
        if decision == Decision::AllowAudited {
            self.registry
                .audit(caller, "conversation.read", "conversation", conversation)
                .await?;
        }
        Ok(())
    }

    async fn message_and_owner(&self, id: MessageId) -> Result<(Message, PlayerId), Error> {
        let message = self.store.message(id).await?;
        let owner = self.store.conversation(message.conversation).await?.player;
        Ok((message, owner))
    }
}
