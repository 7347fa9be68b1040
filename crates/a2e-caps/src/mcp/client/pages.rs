//! Pages of lists: a server may not send one that is as long as other messages, since rmcp makes a tree of
//! each before anything of it can be left out.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The longest page of a list, in bytes: twice what is listed of a server.
pub const MAX_PAGE: usize = 2 * 1024 * 1024;

/// Requests that are remembered until they are answered.
const MAX_ASKED: usize = 64;

/// The requests for pages that were sent to a server.
#[derive(Debug, Default)]
pub(super) struct Pages(Mutex<VecDeque<RequestId>>);

/// What to do with a message of a server.
#[derive(Debug)]
pub(super) enum Arrived {
    /// It may be read.
    Readable,
    /// It is a page that is too long: its request has this answer instead.
    TooLong(Box<RxJsonRpcMessage<RoleClient>>),
    /// It is long, and nothing says which request it answers.
    Unclear,
}

#[derive(Deserialize)]
struct Answered {
    id: Option<RequestId>,
}

/// Finds the id of a message of which the end is missing, if it stands before what is long.
struct FirstId<'i>(&'i mut Option<RequestId>);

impl<'de> Visitor<'de> for FirstId<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            if name == "id" {
                *self.0 = members.next_value()?;
                return Ok(());
            }
            members.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Whether a request asks for a page of a list.
pub(super) const fn asks_for_page(request: &ClientRequest) -> bool {
    matches!(
        request,
        ClientRequest::ListToolsRequest(_)
            | ClientRequest::ListResourcesRequest(_)
            | ClientRequest::ListPromptsRequest(_)
    )
}

impl Pages {
    /// Remembers what is sent, if it asks for a page.
    pub(super) fn sent(&self, message: &TxJsonRpcMessage<RoleClient>) {
        let JsonRpcMessage::Request(request) = message else {
            return;
        };
        if asks_for_page(&request.request) {
            let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            asked.push_back(request.id.clone());
            if asked.len() > MAX_ASKED {
                asked.pop_front();
            }
        }
    }

    /// Looks at what has come.
    pub(super) fn look(&self, message: &[u8]) -> Arrived {
        if message.len() <= MAX_PAGE {
            return Arrived::Readable;
        }
        let Ok(Answered { id }) = serde_json::from_slice(message) else {
            return Arrived::Unclear;
        };
        match self.refusal(id) {
            Some(answer) => Arrived::TooLong(answer),
            None => Arrived::Readable,
        }
    }

    /// Looks at the beginning of a message that is longer than a page may be. If it shows that this is one,
    /// its request has this answer, and the rest need not be kept.
    pub(super) fn look_at_beginning(
        &self,
        beginning: &[u8],
    ) -> Option<Box<RxJsonRpcMessage<RoleClient>>> {
        let mut id = None;
        let mut message = serde_json::Deserializer::from_slice(beginning);
        // It fails in any case: the end is missing.
        let _ = message.deserialize_map(FirstId(&mut id));
        self.refusal(id)
    }

    /// The answer to a request that asks for a page, in place of one that is too long.
    fn refusal(&self, id: Option<RequestId>) -> Option<Box<RxJsonRpcMessage<RoleClient>>> {
        let asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = id.filter(|id| asked.contains(id))?;
        let text = format!("a page of a list has over {MAX_PAGE} bytes");
        tracing::warn!("{text}: nothing of it is listed");
        let error = ErrorData::internal_error(text, None);
        let refusal = RxJsonRpcMessage::<RoleClient>::error(error, Some(id));
        Some(Box::new(refusal))
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ListToolsRequest;
    use serde_json::json;

    use super::*;

    fn asked(id: i64) -> TxJsonRpcMessage<RoleClient> {
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::default());
        TxJsonRpcMessage::<RoleClient>::request(request, RequestId::Number(id))
    }

    /// An answer of so many bytes.
    fn answer(id: &str, bytes: usize) -> String {
        let frame = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[],"x":""}}}}"#);
        let text = "x".repeat(bytes - frame.len());
        frame.replace(r#""x":"""#, &format!(r#""x":"{text}""#))
    }

    #[test]
    fn a_page_has_a_limit_and_other_messages_have_none_here() {
        let pages = Pages::default();
        pages.sent(&asked(7));
        let look = |id: &str, bytes| pages.look(answer(id, bytes).as_bytes());
        assert!(matches!(look("7", MAX_PAGE), Arrived::Readable));
        let Arrived::TooLong(answer) = look("7", MAX_PAGE + 1) else {
            panic!("a page that is too long is read");
        };
        let answer = json!(answer);
        assert_eq!(answer["id"], 7);
        assert!(
            answer["error"]["message"]
                .as_str()
                .unwrap()
                .contains("page")
        );
        assert!(matches!(look("8", MAX_PAGE + 1), Arrived::Readable));
        assert!(matches!(
            look(r#"8,"id":7"#, MAX_PAGE + 1),
            Arrived::Unclear
        ));
    }

    #[test]
    fn beginning_of_a_page_shows_that_it_is_too_long() {
        let pages = Pages::default();
        pages.sent(&asked(7));
        let look = |beginning: &str| pages.look_at_beginning(beginning.as_bytes());
        let answer = look(r#"{"jsonrpc":"2.0","x":[{"id":8}],"id":7,"result":{"tools":["xxx"#);
        assert_eq!(json!(answer.unwrap())["id"], 7);
        for beginning in [
            r#"{"jsonrpc":"2.0","id":8,"result":{"tools":["xxx"#,
            r#"{"jsonrpc":"2.0","id":"frith-7","result":{"tools":["xxx"#,
            r#"{"jsonrpc":"2.0","result":{"id":7,"tools":["xxx"#,
            r#"[{"id":7}"#,
            "",
        ] {
            assert!(look(beginning).is_none(), "{beginning}");
        }
    }

    #[test]
    fn requests_that_are_never_answered_are_forgotten() {
        let pages = Pages::default();
        for id in 0..1000 {
            pages.sent(&asked(id));
        }
        assert_eq!(pages.0.lock().unwrap().len(), MAX_ASKED);
    }
}
