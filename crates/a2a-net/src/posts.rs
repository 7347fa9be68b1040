//! Real connections for a client: one pool of them for each place, whatever is carried over it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use a2a_identity::WebUrl;

use crate::client::{Couriers, Route};
use crate::courier::{Pool, Post, Reach, Remote};
use crate::tls::ClientTls;
use crate::transport::{Carrier, CarryError};

/// Makes couriers over TLS. Those to one place share their connections.
pub struct Posts {
    tls: ClientTls,
    reach: Reach,
    pools: Mutex<HashMap<Remote, Pool>>,
}

/// Places whose connections are kept. More are connected to anew.
const PLACES: usize = 1000;

impl Posts {
    /// Couriers that trust whom this trusts.
    #[must_use]
    pub fn new(tls: ClientTls, reach: Reach) -> Self {
        Self {
            tls,
            reach,
            pools: Mutex::default(),
        }
    }
}

impl Couriers for Posts {
    type Courier = Post;

    fn courier(&self, route: &Route) -> Result<Post, CarryError> {
        let remote = remote(route)?;
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&remote) {
            return Ok(pool.courier(route.carrier));
        }
        let pool = Pool::new(self.tls.clone(), &remote, self.reach.clone())?;
        if pools.len() >= PLACES {
            // Whoever still sends keeps its own.
            pools.clear();
        }
        pools.insert(remote, pool.clone());
        Ok(pool.courier(route.carrier))
    }
}

/// The place that a route leads to.
fn remote(route: &Route) -> Result<Remote, CarryError> {
    let read = |url: &str| {
        WebUrl::parse(url).map_err(|error| CarryError::Connect(format!("{url}: {error}")))
    };
    let (handshake, request) = (read(&route.handshake)?, read(&route.request)?);
    let mut remote = Remote::new(handshake.name(), route.address);
    match route.carrier {
        Carrier::WebSocket => remote.websocket = handshake.path().to_owned(),
        // One service has one path, whatever the endpoint's.
        Carrier::Grpc => {}
        Carrier::Http1 | Carrier::Http2 => {
            remote.handshake = handshake.path().to_owned();
            remote.request = request.path().to_owned();
        }
    }
    Ok(remote)
}

impl fmt::Debug for Posts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Posts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_version_six_has_its_brackets_once() {
        let url = "https://[::1]:8443/a2a".to_owned();
        let route = Route {
            carrier: Carrier::Http2,
            handshake: url.clone(),
            request: url,
            address: "[::1]:8443".parse().unwrap(),
        };
        assert_eq!(remote(&route).unwrap().host, "::1");
        assert_eq!(remote(&route).unwrap().authority(), "[::1]:8443");
    }
}
