//! The description of the API.

use http::{HeaderValue, header::CONTENT_TYPE};
use utoipa::{
    Modify, OpenApi,
    openapi::{
        SecurityRequirement,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use crate::{chat, problem::ProblemBody, rest};

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
        rest::mcp_servers::create,
        rest::mcp_servers::list,
        rest::mcp_servers::show,
        rest::mcp_servers::update,
        rest::mcp_servers::remove,
        rest::mcp_servers::testing::saved,
        rest::mcp_servers::testing::unsaved,
        rest::mcp_servers::importing::import,
        rest::mcp_servers::pins::diff,
        rest::mcp_servers::pins::accept,
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
        rest::media::show,
        rest::secrets::status,
    ),
    components(schemas(ProblemBody)),
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    found.insert(reference.replacen('#', "", 1));
                }
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn the_document_points_at_nothing_that_it_lacks_and_names_every_call_once() {
        let document: Value = serde_json::from_str(&openapi_json()).unwrap();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.contains("/components/schemas/Problem"));
        for reference in found {
            assert!(document.pointer(&reference).is_some(), "{reference}");
        }
        let names: Vec<_> = document["paths"]
            .as_object()
            .unwrap()
            .values()
            .flat_map(|methods| methods.as_object().unwrap().values())
            .map(|call| call["operationId"].as_str().unwrap())
            .collect();
        let distinct: BTreeSet<_> = names.iter().collect();
        assert_eq!((names.len(), distinct.len()), (32, 32), "{names:?}");
    }
}
