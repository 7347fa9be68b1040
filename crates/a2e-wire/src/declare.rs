//! `messages!`: makes [`Namespace`](crate::Namespace), [`Tag`](crate::Tag) and
//! [`Body`](crate::Body) of the table in `table.rs`.

/// Declares all messages, namespace by namespace; `for` names the capability a namespace needs.
macro_rules! messages {
    ($(
        $(#[$namespace_meta:meta])*
        $namespace:ident = $prefix:literal $(for $capability:ident)? {
            $(
                $body:ident $(<$lt:lifetime>)? = $tag:literal $direction:ident $kind:ident
                $(-> $response:ident)? $(also $($alias:literal)*)?;
            )*
        }
    )*) => {
        /// A family of messages.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Namespace {
            $($(#[$namespace_meta])* $namespace,)*
        }

        impl Namespace {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$namespace),*];

            /// Its name in the catalogue.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$namespace => $prefix,)*
                }
            }

            /// The capability that must have been accepted for it.
            #[must_use]
            pub const fn capability(self) -> Option<Capability<'static>> {
                match self {
                    $(Self::$namespace => messages!(@capability $($capability)?),)*
                }
            }
        }

        /// The type of a message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Tag {
            $($(
                #[doc = concat!("`", $tag, "`")]
                $body,
            )*)*
        }

        impl Tag {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$($(Self::$body),*),*];

            /// The `type` on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($(Self::$body => $tag,)*)*
                }
            }

            /// Other spellings that are taken for it.
            #[must_use]
            pub const fn aliases(self) -> &'static [&'static str] {
                match self {
                    $($(Self::$body => &[$($($alias),*)?],)*)*
                }
            }

            /// Who may send it.
            #[must_use]
            pub const fn direction(self) -> Direction {
                match self {
                    $($(Self::$body => Direction::$direction,)*)*
                }
            }

            /// What it is for.
            #[must_use]
            pub const fn kind(self) -> MessageKind {
                match self {
                    $($(Self::$body => MessageKind::$kind,)*)*
                }
            }

            /// The family it belongs to.
            #[must_use]
            pub const fn namespace(self) -> Namespace {
                match self {
                    $($(Self::$body => Namespace::$namespace,)*)*
                }
            }

            /// What answers it, if anything does.
            #[must_use]
            pub const fn response(self) -> Option<Self> {
                match self {
                    $($(Self::$body => messages!(@response $($response)?),)*)*
                }
            }

            /// Its own fields, without the envelope's.
            #[must_use]
            pub fn shape(self) -> Shape {
                match self {
                    $($(Self::$body => $body::shape(),)*)*
                }
            }

            /// The message of this exact spelling.
            pub(crate) fn canonical(text: &str) -> Option<Self> {
                match text {
                    $($($tag => Some(Self::$body),)*)*
                    _ => None,
                }
            }

            /// The message that is also taken under this spelling.
            pub(crate) fn aliased(text: &str) -> Option<Self> {
                match text {
                    $($($($($alias)|* => Some(Self::$body),)?)*)*
                    _ => None,
                }
            }
        }

        /// What a message says, by type.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "each variant is documented at the type of that name")]
        pub enum Body<'a> {
            $($($body($body $(<$lt>)?),)*)*
            /// A message of a type that the catalogue does not have.
            Unknown(Unknown<'a>),
        }

        impl<'a> Body<'a> {
            /// Its type; `None` if unknown.
            #[must_use]
            pub const fn tag(&self) -> Option<Tag> {
                match self {
                    $($(Self::$body(_) => Some(Tag::$body),)*)*
                    Self::Unknown(_) => None,
                }
            }

            pub(crate) fn read<M: MemberSource<'a>>(
                tag: Tag,
                members: &mut M,
            ) -> Result<Self, Invalid> {
                match tag {
                    $($(Tag::$body => $body::from_members(members).map(Self::$body),)*)*
                }
            }
        }

        impl ToStatic for Body<'_> {
            type Static = Body<'static>;

            fn to_static(self) -> Self::Static {
                match self {
                    $($(Self::$body(body) => Body::$body(body.to_static()),)*)*
                    Self::Unknown(unknown) => Body::Unknown(Unknown {
                        type_name: unknown.type_name.to_static(),
                        raw: unknown.raw.into_owned(),
                    }),
                }
            }
        }

        impl Encode for Message<'_> {
            fn encode(&self, out: &mut Writer<'_>) {
                match &self.body {
                    $($(Body::$body(body) => encode(&self.envelope, body, out),)*)*
                    Body::Unknown(unknown) => unknown.write(&self.envelope, out),
                }
            }
        }

        $($(
            impl $(<$lt>)? Payload for $body $(<$lt>)? {
                const TAG: Tag = Tag::$body;
            }

            impl<'a> From<$body $(<$lt>)?> for Body<'a> {
                fn from(body: $body $(<$lt>)?) -> Self {
                    Self::$body(body)
                }
            }

            impl<'a> TryFrom<Body<'a>> for $body $(<$lt>)? {
                type Error = Box<Body<'a>>;

                fn try_from(body: Body<'a>) -> Result<Self, Self::Error> {
                    match body {
                        Body::$body(body) => Ok(body),
                        other => Err(Box::new(other)),
                    }
                }
            }

            impl Spoken for Of<{ Tag::$body as usize }> {
                type Body<'a> = $body $(<$lt>)?;
            }

            messages!(@request [$body $(<$lt>)?] $($response)?);
        )*)*
    };

    (@request [$($request:tt)*]) => {};
    (@request [$($request:tt)*] $response:ident) => {
        impl<'a> Request for $($request)* {
            type Response = <Of<{ Tag::$response as usize }> as Spoken>::Body<'static>;
        }
    };

    (@capability) => { None };
    (@capability $capability:ident) => { Some(Capability::$capability) };
    (@response) => { None };
    (@response $response:ident) => { Some(Self::$response) };
}
pub(crate) use messages;
