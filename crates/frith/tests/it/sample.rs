//! `docs/frith.sample.yaml` promises what tests check: each of its sentences has a row that names them.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::node::Node;
use crate::{frith, frith_in};

/// How a sentence begins, and the tests of what it says.
#[rustfmt::skip]
const SENTENCES: &[(&str, &[&str])] = &[
    ("Every key of the configuration,", &["every_key_of_the_schema_is_in_the_sample", "the_sample_is_good_and_shows_the_defaults"]),
    ("All of them may be left out.", &["nothing_said_is_the_default"]),
    ("Put it beside your work as", &["reads_its_configuration_again", "a_relative_configuration_file_names_folders_beside_it"]),
    ("TOML has the same keys.", &["yaml_and_toml_say_the_same"]),
    ("A mistyped key is an error.", &["every_mistake_is_named_with_its_place"]),
    ("Relative paths begin at the", &["a_relative_configuration_file_names_folders_beside_it"]),
    ("`frith config check` finds", &["mistakes_have_a_place_and_a_way_out", "the_schema_is_json"]),
    ("Single keys can be said in", &["flags_are_stronger_than_the_environment_than_the_file_than_defaults"]),
    ("What the node calls itself.", &["yaml_and_toml_say_the_same"]),
    ("HTTP with server-sent events,", &["curl_over_http", "python_over_a_websocket"]),
    ("Port 0 takes a free one.", &["says_where_it_is_and_keeps_others_out"]),
    ("NDJSON over TCP; off unless", &["python_over_sockets", "nothing_said_is_the_default"]),
    ("NDJSON over a Unix socket:", &["python_over_sockets", "yaml_and_toml_say_the_same"]),
    ("Names by which the node may", &["only_names_of_ours"]),
    ("Web pages that may speak", &["own_origin_is_accepted_and_foreign_ones_are_not", "reads_its_configuration_again"]),
    ("A certificate, for TLS on", &["speaks_tls"]),
    ("One to try it with, trusted", &["certificate_of_the_sample_is_trusted"]),
    ("Let agents in that have no", &["the_conformance_suite_for_servers"]),
    ("Only if every address above", &["some_keys_must_go_together"]),
    ("The credential of the agent", &["a_configured_token_stands_instead_of_the_file", "secrets_are_never_shown"]),
    ("Without it the node makes", &["the_first_start_makes_a_token_and_the_next_uses_it"]),
    ("Known from other A2E hosts,", &["yaml_and_toml_say_the_same"]),
    ("The folder that agents work", &["tools_and_commands_share_the_workspace"]),
    ("Neither this file nor the", &["the_workspace_must_not_hold_the_node"]),
    ("What programs may do that", &["nothing_is_read_that_the_profile_does_not_name", "commands_do_not_reach_the_node"]),
    ("`sandbox: none` leaves all", &["without_a_sandbox_nothing_is_active", "a_level_that_the_machine_does_not_have_is_an_error_that_names_the_setting"]),
    ("`frith doctor` shows the", &["the_doctor_tries_every_guard"]),
    ("More files and folders that", &["a_named_folder_is_read_and_not_written", "a_writable_folder_is_written"]),
    ("none, loopback (a device", &["without_a_network_there_are_no_sockets", "a_loopback_of_its_own_is_not_the_host_s", "with_all_of_the_network_there_are_still_no_unix_sockets"]),
    ("Bytes of memory: of each", &["memory_of_a_process", "memory_of_a_tree"]),
    ("The lowest level (ABI) of", &["a_level_that_the_machine_does_not_have_is_an_error_that_names_the_setting"]),
    ("Language models that skills", &["a_model_follows_with_the_tools_of_the_skill_and_no_others", "a_model_does_a_task_with_the_tools_it_was_given"]),
    ("`default` is meant where", &["another_model_only_where_the_operator_lets_that_be"]),
    ("or file:PATH", &["secrets_are_never_shown"]),
    ("Hosts that it may be at although their addresses are not public.", &["a_model_is_where_the_operator_says"]),
    ("One answer: how long it may", &["turns_tokens_and_time_have_limits"]),
    ("All of one skill or task:", &["turns_tokens_and_time_have_limits", "runaways_are_stopped"]),
    ("Whether agents may use it", &["another_model_only_where_the_operator_lets_that_be"]),
    ("What serves requests; without", &["tools_and_commands_work_without_a_node", "with_servers_of_mcp_a_node_has_all_that_it_has_without"]),
    ("Of several plugins for one", &["lists_are_merged_by_priority", "exclusive_plugin_is_alone_at_any_priority"]),
    ("Five small tools to try things", &["a_host_can_be_asked_from_the_command_line"]),
    ("The built-in tools: files,", &["tools_and_commands_share_the_workspace", "only_public_addresses_are_reached"]),
    ("Tools of your own without", &["a_command_is_a_tool", "own_tools"]),
    ("No shell sees them.", &["a_command_is_a_tool"]),
    ("What runs has a user of its", &["the_user_is_one_of_the_range_or_the_host_s", "a_repository_of_another_user_answers"]),
    ("JSON Schemas of the arguments,", &["a_command_is_a_tool", "own_tools_that_are_wrong"]),
    ("The argument that the program reads from its standard input,", &["own_tools"]),
    ("Whether it changes nothing.", &["own_tools"]),
    ("Tools of your own as WebAssembly", &["a_component_is_a_tool_until_it_changes"]),
    ("The component says what it", &["a_component_is_listed_checked_and_called", "a_component_is_a_tool_until_it_changes"]),
    ("What it may do with the workspace", &["a_tool_in_python_reaches_what_it_is_given_and_no_more", "what_may_only_be_read_is_not_changed"]),
    ("An HTTP request, and where", &["arguments_go_where_the_operator_says", "an_argument_is_no_other_path"]),
    ("Redirects are not followed.", &["endpoint_follows_no_redirect"]),
    ("An answer is given as JSON", &["answers_are_what_they_say_or_what_the_operator_says"]),
    ("HEAD, POST, PUT, PATCH, DELETE", &["methods_say_what_they_do"]),
    ("What is left out if its argument", &["arguments_go_where_the_operator_says"]),
    ("Also headers.", &["a_header_is_no_other_header", "arguments_go_where_the_operator_says"]),
    ("Who asks.", &["an_endpoint_is_a_tool"]),
    ("Secrets are ${VARIABLE} or file:PATH, also", &["secrets_stay_where_they_are", "private_hosts_are_reached_only_when_they_are_named"]),
    ("What a server repeats of", &["secrets_stay_where_they_are"]),
    ("user:password", &["endpoints_that_are_none", "own_tools"]),
    ("What is sent, one of: all", &["bodies_of_all_kinds"]),
    ("or {city: \"{city}\", days:", &["bodies_of_all_kinds"]),
    ("What a status means; also", &["a_status_is_an_error_with_a_meaning"]),
    ("Whether it changes nothing;", &["methods_say_what_they_do"]),
    ("How long it may take (30", &["sizes_and_times_are_limited"]),
    ("An OpenAPI document (3.0", &["fifty_operations_arrive_as_the_document_says", "version_3_1_in_json"]),
    ("Where its paths begin, if", &["credentials_go_where_the_operator_says", "credentials_that_cannot_be_used"]),
    ("Secrets by the names of its", &["credentials_go_where_the_operator_says"]),
    ("By operationId (with *),", &["operations_are_chosen"]),
    ("Whether its tools are found", &["definitions_say_what_the_document_says", "operations_are_chosen"]),
    ("A folder whose executable", &["a_script_is_a_tool_as_long_as_nobody_changes_it"]),
    ("They are pinned by hash.", &["a_script_is_a_tool_as_long_as_nobody_changes_it"]),
    ("It must not lie where agents", &["what_describes_tools_is_not_the_agents_to_write"]),
    ("Hosts, with a port if it", &["private_hosts_are_reached_only_when_they_are_named", "private_hosts_are_out_of_reach_of_everything_that_agents_name"]),
    ("Bundles of tools that an", &["toolkits_have_the_tools_they_list", "a_toolkit_is_configured_once"]),
    ("Prepared instructions (docs/skills.md):", &["skills_are_listed_shown_and_run_from_the_command_line"]),
    ("They are pinned by hash,", &["folders_are_read_again_and_what_has_changed_waits_for_the_operator", "agents_must_not_write_where_skills_are"]),
    ("Without `folders`: skills", &["skills_of_the_data_directory_are_found"]),
    ("The model they are run with,", &["without_a_model_a_call_gives_the_prompt_and_events_in_order", "a_model_follows_with_the_tools_of_the_skill_and_no_others"]),
    ("Agents that agents have (docs/multi-agent.md):", &["a_program_has_a_session_of_its_own_with_no_more_than_it_was_given", "another_agent_does_a_task_if_it_can_be_told_for_what"]),
    ("Of one agent in all its sessions,", &["an_agent_has_so_many_in_all_its_sessions_and_so_deep"]),
    ("Plans, whose tasks stand", &["a_board_has_every_column_and_one_for_a_foreign_status"]),
    ("With `shared: true` all agents", &["shared_plans_are_those_of_all_agents"]),
    ("What agents learn from feedback", &["feedback_counts_for_what_was_rated", "an_experience_counts_for_all_it_names"]),
    ("With `rank_tools: true` a", &["a_search_for_tools_ranks_by_weights_when_told_to", "skills_are_ranked_by_weights_when_told_to"]),
    ("Processes in the sandbox.", &["a_process_is_followed_to_its_end"]),
    ("The words that may stand", &["allowed_commands_are_names_or_absolute_paths", "allowed_commands_run_what_the_operator_means"]),
    ("Names are looked for in /usr/local/bin:/usr/bin:/bin,", &["allowed_commands_run_what_the_operator_means"]),
    ("The variables that agents", &["allowed_variables_are_names", "allowed_commands_run_what_the_operator_means"]),
    ("Without it none where there", &["allowed_commands_run_what_the_operator_means"]),
    ("How many may run in one session", &["what_cannot_be_started_says_why"]),
    ("What agents remember.", &["what_is_put_is_found_after_a_crash"]),
    ("Entries of one memory (a", &["tiers_live_with_session_agent_and_node", "a_full_tier_evicts_or_refuses"]),
    ("When there is no room:", &["a_full_tier_evicts_or_refuses"]),
    ("`evict` forgets what was", &["a_full_tier_evicts_or_refuses"]),
    ("The agents that may read,", &["the_operator_says_who_shares"]),
    ("A model that reads what is", &["a_served_model_reads_what_is_remembered"]),
    ("Instead of the rest, a model", &["a_model_in_a_folder_reads_what_is_remembered"]),
    ("Servers of the Model Context", &["tools_of_a_server_are_listed_called_and_gone"]),
    ("Servers as other programs", &["servers_of_other_programs_are_read", "configured_server_overrides_imported_ones_and_the_first_file_counts"]),
    ("Agents must not be able to", &["import_that_agents_could_write_is_refused"]),
    ("Servers may be here although", &["a_token_is_for_one_address", "servers_of_agents_do_not_reach_private_hosts"]),
    ("A program.", &["the_git_server"]),
    ("It runs in the sandbox and", &["the_git_server", "a_path_that_comes_to_lead_into_the_data_directory_is_hidden_from_servers"]),
    ("secrets are ${VARIABLE} or", &["secrets_are_never_shown"]),
    ("loopback, all", &["a_loopback_of_its_own_is_not_the_host_s", "with_all_of_the_network_there_are_still_no_unix_sockets"]),
    ("The folders that it is told", &["roots_of_a_server_are_its_own_folders"]),
    ("A server that runs somewhere:", &["the_conformance_suite_for_clients"]),
    ("Who the node is where the", &["an_operator_logs_in_and_agents_use_the_server"]),
    ("Without any of it the node", &["an_operator_logs_in_and_agents_use_the_server"]),
    ("client_credentials: the node", &["the_conformance_suite_for_clients"]),
    ("Who gives tokens for the", &["a_client_secret_goes_to_the_configured_issuer_alone"]),
    ("what the server names, unless", &["an_operator_logs_in_and_agents_use_the_server"]),
    ("What is let through; everything", &["only_tools_of_the_allow_list_are_there"]),
    ("Resources by name or address.", &["only_tools_of_the_allow_list_are_there"]),
    ("How long a request may take", &["patience_begins_anew_with_each_word", "waits_grow_to_a_minute"]),
    ("Requests that follow from", &["a_chain_runs_tools_and_programs_of_a_node"]),
    ("They go on after the node", &["a_chain_goes_on_after_its_node_was_killed"]),
    ("Nodes of one chain that run", &["no_more_run_at_a_time_than_may", "chains_have_so_many_nodes_and_items"]),
    ("Items of a map.", &["chains_have_so_many_nodes_and_items"]),
    ("Worlds to act in: counter,", &["environments_are_listed"]),
    ("How many episodes a session", &["a_session_has_so_many_episodes"]),
    ("After so long without a step", &["what_nobody_uses_is_closed"]),
    ("When an episode is cut off,", &["steps_and_time_cut_an_episode_off"]),
    ("Whether pushes are also sent", &["pushes_are_spelled_in_both_ways_if_that_is_switched_on"]),
    ("Whether each step is an experience", &["each_step_is_an_experience_of_who_took_it", "nothing_is_learned_unless_that_is_switched_on"]),
    ("Any other A2E host, started", &["a_foreign_host_is_a_plugin", "a_node_is_a_plugin_of_another"]),
    ("Types beside the protocol's that", &["types_of_a_remote_plugins_own_belong_to_a_capability"]),
    ("Each session that uses a", &["no_more_children_than_allowed"]),
    ("The same servers of the Model", &["servers_beside_all_that_is_built_in"]),
    ("Its keys are those of the", &["servers_are_said_in_one_place"]),
    ("Where sessions are kept:", &["sessions_survive_a_crash", "memory_keeps_records"]),
    ("What is kept: what the host", &["what_a_plugin_keeps"]),
    ("In bytes: the longest message,", &["a_line_that_is_much_too_long", "a_slow_reader", "what_is_no_longer_kept_is_named"]),
    ("Beside them a sixteenth is for", &["connections_without_agents_have_bytes_of_their_own"]),
    ("Requests of one session that run at once, and that", &["requests_start_in_order_and_no_more_at_once_than_agreed", "the_queue_at_its_limit_and_past_it"]),
    ("Connections of one address", &["connections_that_say_nothing", "a_long_line_behind_the_handshake"]),
    ("Requests that tools make", &["one_host_is_asked_so_often_at_once"]),
    ("What one agent may have under", &["one_agent_asks_so_often_at_once", "one_agent_has_so_many_commands", "one_agent_has_so_many_calls_of_components", "an_agent_has_so_many_queries"]),
    ("More are refused and can", &["one_agent_has_so_many_commands", "an_agent_has_so_many_queries"]),
    ("Time to shake hands; to be", &["a_peer_that_does_not_shake_hands_is_let_go", "a_silent_session_ends_unless_something_runs", "a_session_without_idle_limit_survives_a_restart", "a_peer_that_does_not_come_back_is_let_go", "a_request_that_takes_too_long_is_cancelled", "stops_with_grace_and_at_once"]),
    ("How long a tool call may", &["a_tool_call_that_gets_on_has_more_time"]),
    ("How long a held call waits", &["held_call_expires"]),
    ("What agents may do.", &["the_first_rule_decides_and_is_named"]),
    ("The first rule that matches", &["the_first_rule_decides_and_is_named", "a_held_call_waits_for_yes_or_no"]),
    ("What a rule does not name", &["the_first_match_wins_and_says_so", "globs"]),
    ("What happens to calls that", &["defaults_by_capability"]),
    ("JMESPath on the arguments;", &["everything_else_denies"]),
    ("agents of other nodes, by", &["agents_by_id_did_and_trust"]),
    ("and by how much they are", &["agents_by_id_did_and_trust"]),
    ("The same call so often within", &["the_same_call_again_and_again_is_stopped"]),
    ("So many requests of one agent", &["rates_are_limited_and_say_when_to_come_again"]),
    ("Who is told that a call", &["hooks_are_told_of_a_pending_call"]),
    ("Nothing waits for it, and", &["slow_hook_holds_up_no_decision", "hooks_are_told_of_a_pending_call"]),
    ("A program gets JSON on its", &["hooks_are_told_of_a_pending_call"]),
    ("With `notify-send`, for a", &["desktop_gets_a_text_and_no_options_or_markup"]),
    ("A server gets the same JSON", &["hooks_are_told_of_a_pending_call"]),
    ("Rules of single agents, by", &["an_agent_has_rules_of_its_own"]),
    ("Whoever proves this DID is", &["an_agent_is_known_by_its_did"]),
    ("Who the node is to other", &["a_node_acts_as_the_identity_that_is_named"]),
    ("The one called `default`", &["a_node_says_how_it_is", "an_identity_is_made_shown_and_listed"]),
    ("What opens its keys, if they", &["a_node_acts_as_the_identity_that_is_named"]),
    ("Without it, $FRITH_PASSPHRASE.", &["a_passphrase_locks_the_key"]),
    ("Other agents (A2A).", &["an_agent_has_a_tool_run_on_another_node"]),
    ("`a2a: false` speaks with", &["a_node_may_keep_to_itself"]),
    ("Names by which others may", &["all_that_can_be_said_of_other_agents"]),
    ("The certificate (with those", &["changed_certificates_are_used_and_broken_ones_are_not"]),
    ("Without them a development", &["threat_122_nothing_but_a_real_certificate_outside_loopback", "the_development_ca_vouches_for_nobody_else"]),
    ("Roots that the certificates", &["threat_123_certificates_that_prove_nothing_are_refused_before_hello"]),
    ("The methods of DIDs that", &["all_that_can_be_said_of_other_agents"]),
    ("A token for GitHub's API,", &["all_that_can_be_said_of_other_agents", "threat_81_the_token_goes_to_the_api_alone"]),
    ("GitHub says whose the repository", &["the_owner_of_a_repository_is_asked_for_once"]),
    ("It goes to api.github.com", &["threat_81_the_token_goes_to_the_api_alone"]),
    ("Agents that speak the base", &["a_baseline_client_is_served_to_the_letter", "bound_demands_the_ids_inside", "threat_39_baseline_peers_that_are_not_served"]),
    ("Whether messages are encrypted", &["when_a_session_is_encrypted"]),
    ("What is asked of every agent,", &["a_client_of_the_base_specification_is_limited_in_codes_that_it_knows", "defaults_of_a_server"]),
    ("4096 to 16777216 bytes.", &["a_payload_size_that_the_node_cannot_keep_to_is_refused"]),
    ("none, session, 24h, 7d, 30d,", &["threat_142_how_long_data_is_kept"]),
    ("What is different for single", &["all_that_can_be_said_of_other_agents", "an_operator_can_demand_more_than_the_base_specification"]),
    ("Handshakes that are under", &["threat_35_a_flood_of_half_open_handshakes_evicts_its_own"]),
    ("A quarter is reserved for", &["threat_35_known_and_new_agents_shake_hands_during_a_flood"]),
    ("New handshakes of one source", &["a_source_begins_so_often_and_no_more"]),
    ("Messages of one source in", &["a_source_has_a_limit", "threat_102_a_flood_of_one_source"]),
    ("A proxy in front of the node", &["sources_are_addresses_or_networks"]),
    ("Requests in a minute, and", &["threat_101_sybils_share_a_budget"]),
    ("Sessions.", &["sessions_have_a_limit_in_all"]),
    ("A tenth is kept for agents", &["threat_101_strangers_leave_places_for_known_agents"]),
    ("If there are too many, an", &["an_idle_session_of_the_source_with_the_most_gives_way"]),
    ("Of these, of agents from", &["threat_101_sessions_of_one_source_leave_room_for_others"]),
    ("Requests of one session that run at once, and how", &["a_session_runs_so_many_at_once", "threat_107_deadlines"]),
    ("How long a session may wait", &["threat_31_a_session_that_nobody_uses_ends"]),
    ("Which agents are trusted.", &["what_the_operator_says_of_trust"]),
    ("What `frith trust` and `frith", &["what_the_operator_says_of_trust", "a_running_node_is_told"]),
    ("Those whose endorsements", &["threat_86_89_those_who_vouch"]),
    ("The key, if it is given,", &["threat_86_keys_and_manifests_of_an_issuer"]),
    ("What an agent must show,", &["threat_70_a_pinned_manifest"]),
    ("DIDs that are not spoken", &["threat_117_blocked_agents_get_no_session", "a_blocked_agent_is_not_called"]),
    ("What every agent must reach:", &["threat_89_a_trust_level_that_is_not_reached"]),
    ("Whether a did:key must show", &["threat_74_a_manifest_is_required"]),
    ("What other agents may ask", &["nothing_is_exposed_by_default"]),
    ("The node's own rules (`policy`)", &["each_of_four_points_can_refuse"]),
    ("The argument that the program reads from its standard input.", &["all_that_can_be_said_of_intents_and_peers"]),
    ("A file with what a `chain/req`", &["a_file_of_a_chain_has_a_limit", "a_chain_runs_for_a_peer"]),
    ("Other agents whose intents", &["an_agent_has_a_tool_run_on_another_node"]),
    ("`peer:NAME:INTENT`, unless", &["all_that_can_be_said_of_intents_and_peers", "an_agent_has_a_tool_run_on_another_node"]),
    ("Where it is, if its DID does", &["an_agent_has_a_tool_run_on_another_node"]),
    ("Whether messages must be", &["what_is_called_is_asked_of_the_peer"]),
    ("Sent as its domain, the rest", &["a_node_calls_what_knows_only_the_base_specification", "what_is_called_is_asked_of_the_peer", "all_that_can_be_said_of_intents_and_peers"]),
    ("What the node keeps: memories,", &["a_database_is_backed_up_while_it_is_used"]),
    ("When it goes to the disk:", &["with_sync_commit_what_precedes_an_effect_survives_a_power_failure", "commit_syncs_before_it_acknowledges"]),
    ("`commit` before each answer, so", &["with_sync_commit_what_precedes_an_effect_survives_a_power_failure", "with_an_interval_a_power_failure_leaves_a_whole_database", "what_was_acknowledged_survives_kill_9_from_1_to_50"]),
    ("The largest size of its file,", &["a_full_database_loses_nothing_that_was_acknowledged"]),
    ("What agents did, in a chain", &["every_changed_byte_is_found"]),
    ("`commit` before each answer, or", &["commit_syncs_before_it_acknowledges", "an_interval_syncs_by_itself", "every_acknowledged_record_survives_kill_nine"]),
    ("Records, with all they say,", &["records_are_kept_for_a_week_at_least", "retention_takes_what_is_due", "addresses_are_erased_alone"]),
    ("What is older is purged from", &["a_start_with_a_wrong_clock_purges_nothing_that_is_young"]),
    ("error, warn, info, debug,", &["log_has_a_level_and_a_format"]),
    ("text or json", &["log_has_a_level_and_a_format"]),
    ("A file instead of standard", &["a_log_in_a_file_is_begun_anew_when_it_was_moved"]),
    ("When it has this size it", &["a_full_file_is_set_aside_and_the_oldest_goes", "none_may_be_kept"]),
    ("Where an OpenTelemetry collector", &["one_trace_goes_through_both_nodes", "a_request_is_a_trace_and_a_session_is_none"]),
    ("Secrets are ${VARIABLE} or file:PATH, and", &["a_collector_elsewhere_is_believed_by_its_certificate", "words_that_mean_nothing"]),
    ("In bytes: what may wait in all sessions", &["the_heaviest_session_ends_past_the_limit_and_not_at_it", "the_heaviest_agent_gives_way_when_all_have_too_much"]),
    ("From three quarters of it", &["a_session_is_paused_past_three_quarters_of_its_agents_bytes"]),
    ("Sessions at once, those included", &["an_agent_has_so_many_sessions"]),
    ("An agent that begins one more", &["detached_sessions_give_way_to_new_ones_of_their_agent", "what_is_reserved_is_the_operators"]),
    ("Requests that one agent has under way", &["each_agent_has_so_many_requests_under_way"]),
    ("Connections at once, if the limit", &["connections_fit_the_limit_of_open_files", "an_agent_past_its_share_loses_its_own_oldest_connection"]),
    ("Of a store that is smaller", &["a_smaller_store_takes_less_of_each_agent"]),
];

fn sample() -> PathBuf {
    testkit::workspace().join("docs/frith.sample.yaml")
}

/// Whether a line of a comment is configuration that is not in force, or a command.
fn is_example(text: &str) -> bool {
    let text = text.strip_prefix("- ").unwrap_or(text);
    let key = text.split([':', ' ']).next().unwrap_or_default();
    let is_key = !key.is_empty()
        && key
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || "_.".contains(it));
    let after = text.strip_prefix(key).unwrap_or_default();
    let is_entry = is_key && (after == ":" || after.starts_with(": "));
    is_entry
        || ["{", "-subj", "-addext", "openssl"]
            .iter()
            .any(|it| text.starts_with(it))
}

/// What a line says in words behind what it configures.
fn trailing(line: &str) -> Option<&str> {
    let (_, said) = line.split_once(" # ")?;
    let said = said.trim_start();
    said.starts_with(|it: char| it.is_ascii_alphanumeric())
        .then_some(said)
}

/// The paragraphs of the comments.
fn paragraphs(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for line in text.lines() {
        let comment = line.trim_start().strip_prefix('#').map(str::trim_start);
        let comment = comment.map(|it| it.strip_prefix('#').map_or(it, str::trim_start));
        match comment.filter(|it| !is_example(it)) {
            Some(comment) => {
                if let Some(last) = all.last_mut() {
                    *last = format!("{last} {comment}").trim().to_owned();
                }
            }
            None => {
                all.push(String::new());
                let line = comment.unwrap_or(line);
                all.extend(trailing(line).map(ToOwned::to_owned));
                all.push(String::new());
            }
        }
    }
    all.retain(|it| !it.is_empty());
    all
}

/// The sentences of a paragraph.
fn sentences(paragraph: &str) -> Vec<String> {
    let mut all: Vec<String> = vec![String::new()];
    for word in paragraph.split(' ') {
        let begins = word.starts_with(|it: char| it.is_ascii_uppercase() || it == '`');
        let last = all.last().map_or("", String::as_str);
        if begins && last.ends_with(['.', ':', ';']) {
            all.push(String::new());
        }
        if let Some(last) = all.last_mut() {
            *last = format!("{last} {word}").trim().to_owned();
        }
    }
    all
}

/// The names of all tests of the workspace.
fn tests() -> BTreeSet<String> {
    fn read(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, found);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                for part in text
                    .split("test]\n")
                    .skip(1)
                    .chain(text.split("test(").skip(1))
                {
                    let name = part.split("fn ").nth(1).and_then(|it| it.split('(').next());
                    found.extend(name.map(ToOwned::to_owned));
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    read(&testkit::workspace().join("crates"), &mut found);
    found
}

#[test]
fn every_sentence_of_the_sample_has_a_test() {
    let sample = std::fs::read_to_string(sample()).unwrap();
    let paragraphs = paragraphs(&sample);
    let all: Vec<String> = paragraphs.iter().flat_map(|it| sentences(it)).collect();
    let tests = tests();
    let is_row_of = |row: &(&str, &[&str]), sentence: &str| sentence.starts_with(row.0);
    let untested: Vec<_> = all
        .iter()
        .filter(|sentence| !SENTENCES.iter().any(|row| is_row_of(row, sentence)))
        .collect();
    assert!(untested.is_empty(), "no test is named for: {untested:#?}");
    for row in SENTENCES {
        assert!(
            all.iter().any(|sentence| is_row_of(row, sentence)),
            "no sentence begins like this: {}",
            row.0
        );
        assert!(!row.1.is_empty(), "{}", row.0);
        for test in row.1 {
            assert!(tests.contains(*test), "there is no test `{test}`");
        }
    }
}

/// An endpoint asks the address that the operator names and no other.
#[test]
fn endpoint_follows_no_redirect() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (asked, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let size = stream.read(&mut head).unwrap_or_default();
            let _ = asked.send(String::from_utf8_lossy(&head[..size]).into_owned());
            let location = format!("http://127.0.0.1:{port}/elsewhere");
            let _ = write!(
                stream,
                "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let endpoint = json!({"name": "here", "description": "Is here", "url": format!("http://127.0.0.1:{port}/here")});
    let config = json!({"plugins": [{"name": "tools", "type": "tools",
        "private_hosts": [format!("127.0.0.1:{port}")], "endpoints": [endpoint]}]});
    let node = Node::start(folder.path(), &config.to_string());
    let data = node.data();
    frith(
        &["call", "here", "{}", "--data", data.to_str().unwrap()],
        "",
    );
    assert!(requests.recv().unwrap().starts_with("GET /here "));
    assert!(requests.try_recv().is_err(), "it was asked again");
}

/// The certificate that the sample shows how to make serves, for those who trust it.
#[test]
fn certificate_of_the_sample_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let sample = std::fs::read_to_string(sample()).unwrap();
    let from = sample.find("openssl req").unwrap();
    let to = from
        + sample[from..].find("key.pem -out cert.pem").unwrap()
        + "key.pem -out cert.pem".len();
    let command = sample[from..to].replace("  #", "");
    let made = Command::new("sh")
        .args(["-c", &command])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{command}: {made:?}");
    let config = "server: {tls: {certificate: cert.pem, key: key.pem}}";
    let node = Node::start(folder.path(), config);
    let certificate = folder.path().join("cert.pem");
    let ping = ["ping", "--host", node.at("http"), "--token", &node.token];
    let trusting = ["--ca", certificate.to_str().unwrap()];
    let (status, _, error) = frith(&[&ping[..], &trusting].concat(), "");
    assert_eq!(status, 0, "{error}");
    assert_eq!(frith(&ping, "").0, 1);
}

/// A log has the lines of its level and above, as text or as JSON.
#[test]
fn log_has_a_level_and_a_format() {
    for (level, format, lines) in [
        ("info", "json", true),
        ("info", "text", true),
        ("error", "json", false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let config = format!("telemetry: {{log: {level}, log_format: {format}, log_file: log}}\n");
        let mut node = Node::start(folder.path(), &config);
        node.signal("-TERM");
        node.wait();
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        assert_eq!(!log.is_empty(), lines, "{level}: {log}");
        let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
        assert_eq!(log.lines().all(is_json), format == "json", "{log}");
    }
}

/// Agents must not be able to add servers with the rights of the operator's.
#[test]
fn import_that_agents_could_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("mcp.json"), r#"{"mcpServers": {}}"#).unwrap();
    let config = "workspace: work\nplugins: [{name: mcp, type: mcp, import: work/mcp.json}]\n";
    std::fs::write(folder.path().join("frith.yaml"), config).unwrap();
    let up = [
        "up",
        "--data",
        "data",
        "--listen",
        "127.0.0.1:0",
        "--a2a-listen",
        "127.0.0.1:0",
    ];
    let (status, _, error) = frith_in(folder.path(), &up, "");
    assert_eq!(status, 1, "{error}");
    assert!(
        error.contains("agents could rewrite their own servers"),
        "{error}"
    );
}

/// Plans are an agent's own unless the configuration shares them.
#[test]
fn shared_plans_are_those_of_all_agents() {
    for (shared, listed) in [("false", 0), ("true", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let config = format!("plugins: [{{name: planning, type: planning, shared: {shared}}}]\n");
        let node = Node::start(folder.path(), &config);
        let data = node.data();
        let data = ["--data", data.to_str().unwrap()];
        let made = frith(
            &[&["token", "new", "ada", "--json"], &data[..]].concat(),
            "",
        )
        .1;
        let made: Value = serde_json::from_str(&made).unwrap();
        let token = ["--token", made["token"].as_str().unwrap()];
        let (status, _, error) = frith(&[&["plan", "create", "Garden"], &data[..]].concat(), "");
        assert_eq!(status, 0, "{error}");
        let list = [&["plan", "list", "--json"], &data[..], &token].concat();
        let plans: Value = serde_json::from_str(&frith(&list, "").1).unwrap();
        assert_eq!(plans.as_array().unwrap().len(), listed, "{plans}");
    }
}

/// Skills lie in the data directory where no folder is named.
#[test]
fn skills_of_the_data_directory_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("data/skills/hello");
    std::fs::create_dir_all(&skill).unwrap();
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(folder.path().join("data"), mode).unwrap();
    let text = "---\nname: hello\ndescription: Says hello\n---\nSay hello.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    let node = Node::start(folder.path(), "plugins: [{name: skills, type: skills}]\n");
    let data = node.data();
    let (status, out, error) = frith(&["skill", "list", "--data", data.to_str().unwrap()], "");
    assert_eq!(status, 0, "{error}");
    assert!(out.contains("hello"), "{out}");
}

/// A chain has as many nodes, and a map as many items, as the configuration says.
#[test]
fn chains_have_so_many_nodes_and_items() {
    let folder = tempfile::tempdir().unwrap();
    let config = "plugins: [{name: demo, type: demo}, {name: chains, type: chains, max_nodes: 3, max_items: 2}]\n";
    let node = Node::start(folder.path(), config);
    let data = node.data();
    let run = |nodes: Value| {
        let chain = json!({"entry_node": "a", "nodes": nodes}).to_string();
        let chain_run = [
            "chain",
            "run",
            "-",
            "--json",
            "--data",
            data.to_str().unwrap(),
        ];
        frith(&chain_run, &chain)
    };
    let tool = |id: &str, next: &str| json!({"node_id": id, "kind": "tool", "name": "echo", "input": {}, "next_node": next});
    let mut nodes = vec![tool("a", "b"), tool("b", "c"), tool("c", "")];
    assert_eq!(run(json!(nodes)).0, 0);
    nodes.push(tool("d", ""));
    let (status, out, error) = run(json!(nodes));
    assert_eq!(status, 1, "{out}{error}");
    let map = |count: usize| {
        let items: Vec<usize> = (0..count).collect();
        let source = json!({"node_id": "a", "kind": "tool", "name": "echo", "input": {"items": items}, "next_node": "m"});
        let map =
            json!({"node_id": "m", "kind": "map", "items_path": "$.a.items", "map_node": "e"});
        run(json!([source, map, tool("e", "")]))
    };
    let (status, out, error) = map(2);
    assert_eq!(status, 0, "{out}{error}");
    let (status, out, error) = map(3);
    assert_eq!(status, 1, "{out}{error}");
}
