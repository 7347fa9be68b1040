//! Messages of types beside the catalogue.

use a2e_wire::{Body, Message, Object, Unknown};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CallOptions, Client, ClientError, Handler, HandlerId};

/// A message of a type beside the catalogue. Its fields are the message's own members; the envelope
/// is the client's.
pub trait CustomMessage: Serialize + DeserializeOwned {
    /// The `type` on the wire.
    const TYPE: &'static str;
}

/// A message of a type beside the catalogue that is answered.
pub trait CustomRequest: CustomMessage {
    /// What answers it.
    type Response: CustomMessage;
}

impl Client {
    /// Makes a request of a type beside the catalogue.
    ///
    /// # Errors
    /// As [`Client::rpc`], and if the request or the response does not fit its type.
    pub async fn rpc_custom<R: CustomRequest>(
        &self,
        request: &R,
        options: CallOptions,
    ) -> Result<R::Response, ClientError> {
        let response = self.rpc(custom_body(request)?, options).await?;
        read_custom(&response)
    }

    /// Calls a function with each push of a type beside the catalogue. One that does not fit the
    /// type is passed over.
    pub fn on_custom<M: CustomMessage>(
        &self,
        mut function: impl FnMut(M) + Send + 'static,
    ) -> HandlerId {
        let handler = Handler::new(move |message| match read_custom(&message) {
            Ok(message) => function(message),
            Err(error) => tracing::warn!(r#type = M::TYPE, %error, "a push does not fit its type"),
        });
        self.register_push_handler(M::TYPE, handler)
    }
}

/// The body of a message of a type beside the catalogue, for [`Client::rpc`], [`Client::notify`] and
/// [`Reply::send`](super::Reply::send).
///
/// # Errors
/// If it does not serialise to a JSON object.
pub fn custom_body<M: CustomMessage>(message: &M) -> Result<Body<'static>, ClientError> {
    let members = Object::from_serialize(message)
        .map_err(|error| ClientError::Custom(format!("{}: {error}", M::TYPE)))?;
    Ok(Body::Unknown(Unknown {
        type_name: M::TYPE.into(),
        raw: members.into_raw(),
    }))
}

/// Reads a message as one of a type beside the catalogue.
///
/// # Errors
/// If it is of another type, or its members do not fit.
pub fn read_custom<M: CustomMessage>(message: &Message<'_>) -> Result<M, ClientError> {
    let Body::Unknown(unknown) = &message.body else {
        return Err(ClientError::Unexpected(message.type_name().into()));
    };
    if unknown.type_name != M::TYPE {
        return Err(ClientError::Unexpected(message.type_name().into()));
    }
    unknown
        .raw
        .deserialize()
        .map_err(|error| ClientError::Custom(format!("{}: {error}", M::TYPE)))
}
