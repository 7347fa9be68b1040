//! Links over real connections on this machine, one for each way of carrying messages.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

use a2a_net::courier;
use a2a_net::listen::{Limits, Listeners};
use a2a_net::tls::{ClientTls, DevelopmentCa, Roots};
use a2a_net::transport::Carrier;
use a2a_net::*;
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Link;
use crate::support::{SERVER, UNIX, key, manifest_with};

/// A way of carrying messages.
pub(crate) trait Way: 'static {
    const CARRIER: Carrier;
}

macro_rules! ways {
    ($($way:ident)*) => {
        $(pub(crate) struct $way;

        impl Way for $way {
            const CARRIER: Carrier = Carrier::$way;
        })*
    };
}

ways!(Http1 Http2 Grpc WebSocket);

/// A server behind a port with a development certificate, and couriers that trust that.
pub(crate) struct Tls<W> {
    client: ClientTls,
    _serving: DropGuard,
    _folder: tempfile::TempDir,
    way: PhantomData<W>,
}

impl<W: Way> Link for Tls<W> {
    type Couriers = Posts;

    async fn open(server: &Server) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ca = DevelopmentCa::open(folder.path().join("frith/ca")).unwrap();
        let listeners = Listeners::bind(&["127.0.0.1:0".parse().unwrap()]).await;
        let listeners = listeners.unwrap();
        // Where it is, it knows only now.
        server.set_identity(identity_at(listeners.addresses()[0]));
        let tls = listeners.tls(&Arc::new(ca.issue().unwrap())).unwrap();
        let stop = CancellationToken::new();
        let service = Arc::new(server.clone());
        tokio::spawn(listeners.serve(tls, service, Limits::default(), stop.clone()));
        let roots = Roots::none().with_development(&ca).unwrap();
        Self {
            client: ClientTls::new(roots).unwrap(),
            _serving: stop.drop_guard(),
            _folder: folder,
            way: PhantomData,
        }
    }

    fn couriers(&self) -> Posts {
        Posts::new(self.client.clone(), courier::Reach::default())
    }

    fn carriers(&self) -> Vec<Carrier> {
        vec![W::CARRIER]
    }

    fn guard(&self) -> Guard {
        let reach = Reach {
            loopback: Loopback::Allowed,
            ..Reach::default()
        };
        Guard::new(reach, SystemNames)
    }
}

/// The server, with endpoints at this address.
fn identity_at(address: SocketAddr) -> Identity {
    let manifest = manifest_with(SERVER, UNIX - 100, |draft| {
        draft["endpoints"] = json!([
            {"type": "handshake", "url": format!("https://{address}/a2a/handshake"), "transport": "http"},
            {"type": "handshake", "url": format!("https://{address}/a2a.v1.A2A"), "transport": "grpc"},
            {"type": "handshake", "url": format!("wss://{address}/a2a/ws"), "transport": "websocket"},
        ]);
    });
    Identity::new(manifest, "k".parse().unwrap(), key(SERVER)).unwrap()
}
