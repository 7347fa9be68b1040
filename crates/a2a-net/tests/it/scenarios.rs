//! What must work over whatever carries messages. Each scenario is generic over the link; to run
//! them over another one, implement `Link` and add a line at the end.

mod calls;
mod rules;

use calls::*;
use rules::*;

/// A test for each.
macro_rules! scenarios {
    ($link:ty, $($scenario:ident)*) => {
        $(#[tokio::test]
        async fn $scenario() {
            super::$scenario::<$link>().await;
        })*
    };
}

/// Runs every scenario over a link.
macro_rules! over {
    ($link:ty as $module:ident) => {
        mod $module {
            use crate::link::*;

            scenarios!($link,
            // Proves A-1-5, A-1-6, A-2-12, A-3-3 to A-3-8.
            a_call_by_did_is_answered
            ping_echoes_up_to_a_kibibyte
            answers_come_in_parts
            parts_have_a_limit
            // Proves A-2-15, A-5-4.
            encryption_can_be_required
            // Proves A-2-8.
            work_with_a_name_is_done_once
            work_that_is_being_done_is_joined
            a_dropped_call_is_cancelled_at_the_server
            a_dropped_stream_is_cancelled_at_the_server
            calls_that_are_given_up_leave_room_for_others
            // Proves A-2-10, A-8-10.
            threat_107_the_deadline_of_a_handler
            // Proves A-8-12.
            threat_112_a_handler_that_breaks
            // Proves A-8-5.
            threat_111_nobody_serves_that
            threat_117_blocked_during_a_session
            a_tighter_policy_holds_at_once
            a_request_may_be_as_large_as_the_policy_says
            sessions_are_closed_on_both_sides
            // Proves A-3-10.
            many_requests_at_once_share_a_session
            a_handshake_can_be_shown
            an_agent_can_be_met_before_it_is_called
            // Proves A-1-4, A-6-9, A-9-18 to A-9-21, A-10-6.
            threat_145_every_outcome_is_on_record
            a_server_that_stops_lets_work_finish
            );
        }
    };
}

over!(InMemory as in_memory);
over!(OnePlace as one_place);
over!(Tls<Http1> as http1);
over!(Tls<Http2> as http2);
over!(Tls<Grpc> as grpc);
over!(Tls<WebSocket> as websocket);
