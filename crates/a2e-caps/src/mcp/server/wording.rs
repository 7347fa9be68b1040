//! What a host says to agents, in the words of MCP.

use super::own;

/// What agents of A2E are told to ask, and what an MCP client asks instead. What MCP has nothing for is
/// left out.
const INSTEAD: [(&str, &str); 5] = [
    ("`tool/list/req`", "`tools/list`"),
    ("tool/list/req", "`tools/list`"),
    ("; `env/list/req` lists what there is", ""),
    ("`skill/discover/req`", "`prompts/list`"),
    ("skill/discover/req", "`prompts/list`"),
];

/// Replaces names of A2E messages by what an MCP client has for them.
pub(super) fn for_mcp(text: &str) -> String {
    let tools = own::requests();
    let all = INSTEAD.into_iter().chain(tools);
    all.fold(text.to_owned(), |text, (request, instead)| {
        text.replace(request, instead)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_methods_and_tools() {
        for (said, told) in [
            (
                "there is no tool `x`; tool/list/req lists what there is",
                "there is no tool `x`; `tools/list` lists what there is",
            ),
            (
                "there is no environment `x`; `env/list/req` lists what there is",
                "there is no environment `x`",
            ),
            (
                "the episode is over; env/reset/req begins another",
                "the episode is over; env_reset begins another",
            ),
            (
                "memory/store/req: field `entries[0].ttl` must be an integer",
                "memory_store: field `entries[0].ttl` must be an integer",
            ),
            ("`skill/discover/req` lists", "`prompts/list` lists"),
        ] {
            assert_eq!(for_mcp(said), told);
        }
    }
}
