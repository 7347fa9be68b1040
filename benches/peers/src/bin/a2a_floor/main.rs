//! The floor of A2A: messages of the same sizes over the same TLS, with the same number of Ed25519
//! signatures and strict verifications, or without any; no JSON, no checks, no state, no record.
//!
//! usage: a2a_floor serve FOLDER SIZES
//!        a2a_floor call bare|signed TRANSPORT handshake|request ADDRESS FOLDER SIZES
//!
//! The server makes a certificate in the folder and prints where it listens; the client obeys, see
//! `benches::client`. SIZES are those of hello, challenge, proof, policy, acceptance, session, request
//! and response, with commas between them.

mod carry;
mod grpc;
mod message;
mod serve;
mod socket;

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use benches::client::obey;

use carry::Carrier;
use message::{Sizes, Talker, Trust};

// As in the product: the floor is to be hard to reach.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: a2a_floor serve FOLDER SIZES | a2a_floor call bare|signed TRANSPORT handshake|request ADDRESS FOLDER SIZES";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", folder, sizes] => serve::serve(Path::new(folder), Sizes::read(sizes)?).await?,
        ["call", trust, transport, task, address, folder, sizes] => {
            let talker = Talker::client(Trust::named(trust).ok_or(USAGE)?, Sizes::read(sizes)?);
            let exchanges: &[usize] = match *task {
                "handshake" => &[0, 1, 2],
                "request" => &[3],
                _ => return Err(USAGE.into()),
            };
            let folder = Path::new(folder);
            let carrier = Carrier::open(transport, folder, address.parse()?, trust).await?;
            let number = AtomicU64::new(0);
            let call = || async {
                for exchange in exchanges {
                    let number = number.fetch_add(1, Ordering::Relaxed);
                    let answer = carrier.send(talker.ask(*exchange, number)).await?;
                    talker.check(*exchange, &answer)?;
                }
                Ok::<_, Box<dyn Error>>(())
            };
            obey(call).await?;
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}
