//! Many servers' Tools in one message: what does not fit is left out in whole Tools and said, and no server takes another's room.

use kernel::limits::RPC_MESSAGE_BYTES;
use prost::Message as _;
use proto::mcp::v1::{ServerTools, WithheldTool};

use crate::names::shown;

/// Bytes of a message that are not servers: its frame, and in a test the result.
const AROUND: usize = 64 * 1_024;
/// Bytes that name and length of a field take in its message, at most.
const FIELD: usize = 8;
/// Bytes that are kept free for the sentence about what is left out.
const SAYING_SO: usize = 2 * 1_024;

/// Cuts the answers of servers until they fit into one message together.
pub(super) fn into_one_answer(servers: Vec<ServerTools>) -> Vec<ServerTools> {
    within(servers, RPC_MESSAGE_BYTES - AROUND)
}

fn within(mut servers: Vec<ServerTools>, budget: usize) -> Vec<ServerTools> {
    let sizes: Vec<usize> = servers.iter().map(size).collect();
    let share = fair_share(&sizes, budget);
    for (server, size) in servers.iter_mut().zip(sizes) {
        if size > share {
            cut(server, share);
        }
    }
    servers
}

fn size(server: &ServerTools) -> usize {
    server.encoded_len() + FIELD
}

/// The most that each may take so that all fit: those that need less leave the rest to the others.
fn fair_share(sizes: &[usize], budget: usize) -> usize {
    let mut ascending = sizes.to_vec();
    ascending.sort_unstable();
    let mut left = budget;
    for (taken, &size) in ascending.iter().enumerate() {
        let share = left / (ascending.len() - taken);
        if size > share {
            return share;
        }
        left -= size;
    }
    budget
}

fn cut(server: &mut ServerTools, share: usize) {
    let tools = std::mem::take(&mut server.tools);
    let mut room = share.saturating_sub(SAYING_SO);
    if size(server) > room {
        server.instructions.clear();
    }
    while size(server) > room && server.withheld.pop().is_some() {}
    room = room.saturating_sub(size(server));
    let mut left_out = Vec::new();
    for tool in tools {
        let size = tool.encoded_len() + FIELD;
        if size <= room {
            room -= size;
            server.tools.push(tool);
        } else {
            left_out.push(tool.name);
        }
    }
    if let [first, others @ ..] = left_out.as_slice() {
        let also = match others.len() {
            0 => "It does".to_owned(),
            others => format!("It and {others} more Tools of this server do"),
        };
        server.withheld.push(WithheldTool {
            name: shown(first),
            sentence: format!(
                "{also} not fit into one answer with everything else; grant fewer Tools by name."
            ),
        });
    }
}

#[cfg(test)]
mod tests {
    use proto::mcp::v1::{ListToolsResponse, McpTool};

    use super::*;

    fn server(id: &str, tools: usize, bytes: usize) -> ServerTools {
        let tool = |number| McpTool {
            name: format!("tool-{number}"),
            full_name: format!("{id}__tool-{number}"),
            description: "d".repeat(bytes),
            ..McpTool::default()
        };
        ServerTools {
            server_id: id.to_owned(),
            tools: (0..tools).map(tool).collect(),
            ..ServerTools::default()
        }
    }

    fn message(servers: &[ServerTools]) -> usize {
        ListToolsResponse {
            servers: servers.to_vec(),
        }
        .encoded_len()
    }

    #[test]
    fn what_fits_is_left_alone() {
        let servers = vec![server("a", 64, 1_000), server("b", 1, 10)];
        assert_eq!(into_one_answer(servers.clone()), servers);
        assert_eq!(into_one_answer(Vec::new()), Vec::new());
    }

    #[test]
    fn a_server_with_huge_definitions_takes_no_room_from_the_others() {
        let small: Vec<ServerTools> = (0..20).map(|n| server(&n.to_string(), 5, 500)).collect();
        let mut servers = small.clone();
        servers.push(server("huge", 1_000, 60_000));
        let fitted = into_one_answer(servers);
        assert!(message(&fitted) <= RPC_MESSAGE_BYTES);
        assert_eq!(fitted[..20], small);
        let huge = &fitted[20];
        assert!(huge.tools.len() > 100, "{}", huge.tools.len());
        let left_out = 1_000 - huge.tools.len() - 1;
        assert_eq!(huge.withheld.len(), 1);
        assert!(
            huge.withheld[0]
                .sentence
                .contains(&format!("{left_out} more Tools")),
            "{:?}",
            huge.withheld
        );
    }

    #[test]
    fn the_answer_fits_whatever_all_servers_say_of_themselves() {
        let servers: Vec<ServerTools> = (0..256)
            .map(|n| ServerTools {
                instructions: "i".repeat(64 * 1_024),
                withheld: vec![
                    WithheldTool {
                        name: "\\u{430}".repeat(80),
                        sentence: "s".repeat(2_000),
                    };
                    64
                ],
                ..server(&n.to_string(), 64, 10_000)
            })
            .collect();
        let fitted = into_one_answer(servers);
        assert!(message(&fitted) <= RPC_MESSAGE_BYTES);
        for server in &fitted {
            assert!(!server.tools.is_empty() || !server.withheld.is_empty());
        }
    }
}
