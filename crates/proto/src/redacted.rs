//! `Debug` of messages with secrets in them: names and ids, and nothing that was secret when it was sent.

use std::fmt;

use crate::registry::v1::{
    AuthenticatePlayerRequest, CreateMcpServerRequest, CreatePlayerResponse, NamedSecret,
    UpdateMcpServerRequest, UpdatePlayerResponse,
};

impl fmt::Debug for NamedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedSecret")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

// A URL may hold a key in its query.
impl fmt::Debug for CreateMcpServerRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateMcpServerRequest")
            .field("name", &self.name)
            .field("transport", &self.transport)
            .field("headers", &self.headers)
            .field("environment", &self.environment)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for UpdateMcpServerRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateMcpServerRequest")
            .field("server", &self.server)
            .field("transport", &self.transport)
            .field("headers", &self.headers)
            .field("environment", &self.environment)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CreatePlayerResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatePlayerResponse")
            .field("player", &self.player)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for UpdatePlayerResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdatePlayerResponse")
            .field("player", &self.player)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AuthenticatePlayerRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticatePlayerRequest")
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        mcp::v1::{TestServerRequest, test_server_request::Server},
        registry::v1::NamedSecretList,
    };

    #[test]
    fn no_message_shows_its_secrets() {
        let planted = "planted-secret";
        let secrets = vec![NamedSecret {
            name: "Authorization".to_owned(),
            value: planted.to_owned(),
        }];
        let create = CreateMcpServerRequest {
            url: format!("https://a.example/?key={planted}"),
            headers: secrets.clone(),
            environment: secrets.clone(),
            ..CreateMcpServerRequest::default()
        };
        let update = UpdateMcpServerRequest {
            url: Some(create.url.clone()),
            headers: Some(NamedSecretList { secrets }),
            ..UpdateMcpServerRequest::default()
        };
        let unsaved = TestServerRequest {
            server: Some(Server::Unsaved(create.clone())),
        };
        let token = planted.to_owned();
        let shown = [
            format!("{create:?}"),
            format!("{update:#?}"),
            format!("{unsaved:?}"),
            format!(
                "{:?}",
                CreatePlayerResponse {
                    player: None,
                    token: token.clone()
                }
            ),
            format!(
                "{:?}",
                UpdatePlayerResponse {
                    player: None,
                    token: token.clone()
                }
            ),
            format!("{:?}", AuthenticatePlayerRequest { token }),
        ];
        for shown in shown {
            assert!(!shown.contains(planted), "{shown}");
        }
        assert!(format!("{create:?}").contains("Authorization"));
    }
}
