//! Which messages there are, and reading one.

use canonical::{Digest, Object, Value};

use crate::limits;
use crate::{
    AcceptPolicy, Cancel, Challenge, Close, ErrorMessage, FieldError, Hello, Place, PolicyOffer,
    Proof, Request, Response, ResponseChunk, Session, WireError, Word,
};

macro_rules! messages {
    ($($(#[$meta:meta])* $name:ident($body:ident) $wire:literal $phase:ident signed $place:expr, clear [$($clear:literal),*];)*) => {
        /// The types of messages.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind { $($(#[$meta])* $name,)* }

        /// A message.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Message { $($(#[$meta])* $name($body),)* }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The `type` on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $wire,)* }
            }

            /// Whether it belongs to a handshake (an error belongs to both).
            #[must_use]
            pub const fn is_handshake(self) -> bool {
                match self { $(Self::$name => messages!(@handshake $phase),)* }
            }

            /// The JWS that signs it, if any does.
            #[must_use]
            pub const fn place(self) -> Option<Place> {
                match self { $(Self::$name => $place,)* }
            }

            /// The members that stay readable when the rest is encrypted; empty if it never is.
            #[must_use]
            pub const fn clear_members(self) -> &'static [&'static str] {
                match self { $(Self::$name => &[$($clear),*],)* }
            }

            fn read(self, tree: &Object<'_>) -> Result<Message, FieldError> {
                match self { $(Self::$name => $body::from_object(tree).map(Message::$name),)* }
            }
        }

        impl Message {
            /// Its type.
            #[must_use]
            pub const fn kind(&self) -> Kind {
                match self { $(Self::$name(_) => Kind::$name,)* }
            }

            /// The object to send, with its `type`.
            #[must_use]
            pub fn to_object(&self) -> Object<'static> {
                let mut object = match self { $(Self::$name(body) => body.to_object(),)* };
                object.insert("type", Value::String(self.kind().as_str().into()));
                object
            }

            /// The same object, made of this message rather than of copies.
            #[must_use]
            pub fn into_object(self) -> Object<'static> {
                let kind = self.kind();
                let mut object = match self { $(Self::$name(body) => body.into_object(),)* };
                object.insert("type", Value::String(kind.as_str().into()));
                object
            }
        }

        $(impl From<$body> for Message {
            fn from(body: $body) -> Self {
                Self::$name(body)
            }
        })*
    };
    (@handshake handshake) => { true };
    (@handshake session) => { false };
}

#[rustfmt::skip]
messages! {
    /// Client: who I am.
    Hello(Hello) "hello" handshake signed None, clear [];
    /// Server: who I am, proven.
    Challenge(Challenge) "challenge" handshake signed Some(Place::Challenge), clear [];
    /// Client: proven too.
    Proof(Proof) "proof" handshake signed Some(Place::Proof), clear [];
    /// Server: what I demand.
    Policy(PolicyOffer) "policy" handshake signed Some(Place::Policy), clear [];
    /// Client: agreed.
    AcceptPolicy(AcceptPolicy) "accept_policy" handshake signed Some(Place::Accept), clear [];
    /// Server: the session.
    Session(Session) "session" handshake signed Some(Place::Session), clear [];
    /// Do something.
    Request(Request) "request" session signed Some(Place::Request), clear ["type", "session_id", "request_id"];
    /// It is done.
    Response(Response) "response" session signed Some(Place::Response), clear ["type", "session_id", "request_id", "status"];
    /// It went wrong.
    Error(ErrorMessage) "error" session signed Some(Place::Error), clear ["type", "session_id", "request_id", "error_code"];
    /// Give it up.
    Cancel(Cancel) "cancel" session signed Some(Place::Control), clear ["type", "session_id", "request_id"];
    /// End the session.
    Close(Close) "close" session signed Some(Place::Control), clear ["type", "session_id", "request_id"];
    /// A part of an answer.
    ResponseChunk(ResponseChunk) "response_chunk" session signed None, clear ["type", "session_id", "request_id", "index"];
}

impl Kind {
    /// The type of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }
}

/// A message together with the tree it was read from, which alone is hashed.
#[derive(Clone, PartialEq)]
pub struct Received<'a> {
    tree: Object<'a>,
    message: Message,
}

impl<'a> Received<'a> {
    /// Reads a message of at most `limit` bytes (a handshake message also of at most
    /// [`limits::HANDSHAKE`]).
    ///
    /// # Errors
    /// What is wrong with it; nothing is repaired.
    pub fn parse(bytes: &'a [u8], limit: usize) -> Result<Self, WireError> {
        within(bytes.len(), limit)?;
        let received = Self::from_tree(Value::parse(bytes)?)?;
        if received.message.kind().is_handshake() {
            within(bytes.len(), limits::HANDSHAKE)?;
        }
        Ok(received)
    }

    /// Reads a message from its tree.
    ///
    /// # Errors
    /// As [`Received::parse`].
    pub fn from_tree(tree: Value<'a>) -> Result<Self, WireError> {
        let Value::Object(tree) = tree else {
            return Err(FieldError::mistyped("an object", &tree).into());
        };
        if tree.get("jsonrpc").is_some() {
            let rule = "absent: JSON-RPC is another protocol";
            return Err(FieldError::form(rule).within("jsonrpc").into());
        }
        let name = <Word as crate::read::Member>::take(&tree, "type")?;
        let kind = Kind::named(name.as_str());
        let kind =
            kind.ok_or_else(|| WireError::UnknownType(name.as_str().chars().take(64).collect()))?;
        let message = kind.read(&tree)?;
        Ok(Self { tree, message })
    }

    /// The message.
    #[must_use]
    pub const fn message(&self) -> &Message {
        &self.message
    }

    /// The message alone.
    #[must_use]
    pub fn into_message(self) -> Message {
        self.message
    }

    /// All members as they came.
    #[must_use]
    pub const fn tree(&self) -> &Object<'a> {
        &self.tree
    }

    /// The JWS member as it came, if there is one.
    #[must_use]
    pub fn jws(&self) -> Option<&str> {
        let member = self.message.kind().place()?.member();
        self.tree.get(member)?.as_str()
    }

    /// `message_hash` of profile §1: the hash of the message without its own JWS.
    #[must_use]
    pub fn hash(&self) -> Digest {
        message_hash(self.message.kind(), &self.tree)
    }
}

impl std::fmt::Debug for Received<'_> {
    /// Leaves the tree out: it is what a peer sent, secrets it should not have sent included.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Received").field(&self.message).finish()
    }
}

/// `message_hash` of profile §1, for a message about to be signed.
#[must_use]
pub fn message_hash(kind: Kind, tree: &Object<'_>) -> Digest {
    match kind.place() {
        Some(place) => tree.digest_without(&[place.member()]),
        None => tree.digest_without(&[]),
    }
}

/// Reads the JSON of something other than a message: a manifest, a DID document.
///
/// # Errors
/// If it is longer than `limit` or not JSON within the profile.
pub fn parse_document(bytes: &[u8], limit: usize) -> Result<Value<'_>, WireError> {
    within(bytes.len(), limit)?;
    Ok(Value::parse(bytes)?)
}

const fn within(size: usize, limit: usize) -> Result<(), WireError> {
    if size > limit {
        return Err(WireError::TooLarge { size, limit });
    }
    Ok(())
}
