//! The description of the API.

use http::{HeaderValue, header::CONTENT_TYPE};
use utoipa::{
    Modify, OpenApi,
    openapi::{
        SecurityRequirement,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use crate::{chat, rest};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "AgentsVille",
        description = "Agents, what they may use, and Conversations with them. Failures are problem details (RFC 9457).",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    paths(
        rest::npcs::create,
        rest::npcs::list,
        rest::npcs::show,
        rest::npcs::update,
        rest::npcs::remove,
        rest::npcs::tools,
        rest::grants::add,
        rest::grants::list,
        rest::grants::remove,
        rest::players::create,
        rest::players::list,
        rest::players::revoke,
        rest::players::me,
        rest::audit::list,
        rest::conversations::list,
        rest::conversations::show,
        rest::conversations::remove,
        chat::start,
        chat::resume,
        rest::turns::abort,
    ),
    modifiers(&Bearer)
)]
struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("The Operator's token, or a Player's"))
            .build();
        document
            .components
            .get_or_insert_default()
            .add_security_scheme("bearer", SecurityScheme::Http(bearer));
        document.security = Some(vec![SecurityRequirement::new(
            "bearer",
            Vec::<String>::new(),
        )]);
    }
}

/// The `OpenAPI` 3.1 document, as `GET /v1/openapi.json` serves it. It needs no Village.
pub fn openapi_json() -> String {
    // The document is built from literals; what utoipa makes of them always serializes.
    Document::openapi().to_pretty_json().unwrap_or_default()
}

pub(crate) async fn serve() -> ([(http::HeaderName, HeaderValue); 1], String) {
    let json = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, json)], openapi_json())
}
