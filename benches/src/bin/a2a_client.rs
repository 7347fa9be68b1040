//! Our A2A client under load: the one of a node, with its audit log, over real connections.
//!
//! usage: a2a_client handshake|request|named TRANSPORT ORIGIN CA
//!        a2a_client sizes ORIGIN CA
//!        a2a_client hold SESSIONS ORIGIN CA
//!
//! ORIGIN is where the server's manifest is, CA whom its certificate is by. The first three obey,
//! see `benches::client`; `named` makes requests whose work has a name, encrypted as between nodes. `sizes` prints the bytes of
//! the six messages of a handshake and of a request and its response. `hold` opens sessions, makes a
//! call in each, says so, and keeps them until its input ends.
#![expect(clippy::print_stdout, reason = "this is how it answers")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use a2a_net::transport::Carrier;
use a2a_net::{CallOptions, Encrypt, NameWork};
use a2a_session::Sealing;
use benches::client::obey;
use benches::couriers::Shared;
use benches::party::{Caller, Party};
use canonical::Value;
use serde_json::json;

// As in the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TEXT: &str = "grey fox";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    const USAGE: &str = "usage: a2a_client handshake|request|named TRANSPORT ORIGIN CA | sizes ORIGIN CA | hold SESSIONS ORIGIN CA";
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["handshake", carrier, origin, ca] => {
            let party = Party::open(origin, Path::new(ca)).await?;
            let carrier = named(carrier)?;
            // Each has sessions of its own, so that each shakes hands.
            let call = || async {
                let client = party.client(carrier);
                client
                    .meet(&party.server, Encrypt::AsAgreed)
                    .await
                    .map(drop)
            };
            obey(call).await?;
        }
        ["request", carrier, origin, ca] => {
            let party = Party::open(origin, Path::new(ca)).await?;
            let client = party.client(named(carrier)?);
            // A request that is done once, not work that is kept to be asked for again.
            obey(|| ping(&party, &client, NameWork::No)).await?;
        }
        ["named", carrier, origin, ca] => {
            let party = Party::open(origin, Path::new(ca)).await?;
            let shared = Shared {
                posts: Arc::clone(&party.posts),
                sizes: party.sizes.clone(),
            };
            let client = party.client_over(named(carrier)?, shared, Sealing::Offered);
            obey(|| ping(&party, &client, NameWork::Yes)).await?;
        }
        ["sizes", origin, ca] => {
            let sizes = sizes(&Party::open(origin, Path::new(ca)).await?).await?;
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            println!("{}", sizes.join(","));
        }
        ["hold", sessions, origin, ca] => {
            let party = Party::open(origin, Path::new(ca)).await?;
            let mut held = Vec::new();
            for _ in 0..sessions.parse()? {
                // Each has sessions of its own.
                let client = party.client(Carrier::Http2);
                ping(&party, &client, NameWork::No).await?;
                held.push(client);
            }
            println!("{}", held.len());
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

fn named(name: &str) -> Result<Carrier, String> {
    let mut all = Carrier::ALL.into_iter();
    let carrier = all.find(|carrier| carrier.name() == name);
    carrier.ok_or_else(|| format!("there is no {name}"))
}

/// One request, answered with what it had echoed.
async fn ping(party: &Party, client: &Caller, name_work: NameWork) -> Result<(), Box<dyn Error>> {
    let intent = json!({"goal": "frith.ping", "inputs": {"echo": TEXT}});
    let options = CallOptions {
        name_work,
        ..CallOptions::default()
    };
    let intent = Value::from_serialize(&intent)?;
    let answered = client.call(&party.server, intent, &options).await?;
    let echo = answered.result.as_object().and_then(|it| it.get("echo"));
    match echo {
        Some(Value::String(text)) if text.as_ref() == TEXT => Ok(()),
        _ => Err(format!("no echo: {answered:?}").into()),
    }
}

/// The sizes of messages, in the order in which they are sent.
async fn sizes(party: &Party) -> Result<Vec<usize>, Box<dyn Error>> {
    let client = party.client(Carrier::Http2);
    ping(party, &client, NameWork::No).await?;
    Ok(party.sizes.take())
}
