//! Policy: what an agent may do. Ours alone.

use std::borrow::Cow;

use crate::record::record;

record! {
    /// Asks which of these types of requests the agent may send. Ours alone.
    PolicyPermittedRequest<'a> {
        types: Vec<Cow<'a, str>>,
    }
}

record! {
    /// Answers [`PolicyPermittedRequest`]: those that are allowed, or wait for an approval.
    PolicyPermittedResponse<'a> {
        types: Vec<Cow<'a, str>> = [],
    }
}
