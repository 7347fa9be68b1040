//! Requests and what answers them, and messages of types beside the catalogue.

use a2e_wire::messages::base::{Ping, Pong};
use a2e_wire::messages::tool::{ToolListRequest, ToolListResponse};
use a2e_wire::{
    Body, Charset, Decoder, Envelope, Message, Object, Payload, Request, Sender, Tag, Timestamp,
    Unknown,
};

fn answered_by<R: Request>() -> (Option<Tag>, Tag) {
    (R::TAG.response(), R::Response::TAG)
}

#[test]
fn a_request_knows_the_type_of_its_response() {
    for (by_tag, by_type) in [answered_by::<Ping>(), answered_by::<ToolListRequest<'_>>()] {
        assert_eq!(by_tag, Some(by_type));
    }
    let body: Body<'static> = ToolListResponse::new().into();
    assert!(ToolListResponse::try_from(body.clone()).is_ok());
    assert_eq!(*Pong::try_from(body.clone()).unwrap_err(), body);
}

#[test]
fn a_type_of_ones_own() {
    let envelope = Envelope::new("7", Timestamp::default()).in_reply_to("6");
    let members =
        Object::parse(r#"{"n": [1, 2], "id": "forged", "type": "x", "é": null}"#).unwrap();
    let body = Body::Unknown(Unknown {
        type_name: "my/own/resp".into(),
        raw: members.into_raw(),
    });
    let mut line = Vec::new();
    Message::<'_, Body<'_>>::new(envelope, body).encode_to(&mut line, Charset::Utf8);
    assert_eq!(
        String::from_utf8_lossy(&line),
        "{\"a2e\":\"1.0\",\"version\":\"1.0\",\"type\":\"my/own/resp\",\"id\":\"7\",\"ts\":0.0,\"req_id\":\"6\",\"n\":[1,2],\"é\":null}"
    );
    let read = Decoder::default()
        .decode(&line, Sender::Host, Timestamp::default())
        .unwrap();
    assert_eq!(
        (read.envelope.req_id.as_str(), read.type_name()),
        ("6", "my/own/resp")
    );
}
