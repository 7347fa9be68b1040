//! The one thing that resolution needs of a network.

use std::future::Future;
use std::pin::Pin;

use a2a_identity::{Answer, Document};

/// A fetch under way.
pub type Fetching<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// Fetches documents by the rules of profile §4. [`Web`](crate::Web) does; a test has its own.
pub trait Fetcher: Send + Sync + 'static {
    /// GET, once: no redirects, within the limit of the document's kind and five seconds.
    fn fetch<'a>(&'a self, url: &'a str, what: Document) -> Fetching<'a>;
}
