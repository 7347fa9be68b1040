//! Our own client under load; see `benches::client`.
//!
//! usage: a2e_client URL TOKEN

use a2e_runtime::{Address, AgentConfig, Calling, ClientError, Connector};
use benches::client::obey;
use benches::echo::Arguments;

// As in the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(auth_token)) = (arguments.next(), arguments.next()) else {
        return Err("usage: a2e_client URL TOKEN".into());
    };
    let address: Address = url.parse()?;
    let config = AgentConfig {
        auth_token,
        wanted: vec!["tools".into()],
        ..AgentConfig::default()
    };
    let client = Connector::new(address).agent(config).connect().await?;
    let call = || async {
        let arguments = Arguments {
            text: "grey fox".into(),
        };
        let result = client
            .tools()
            .call("echo", &arguments, Calling::default())
            .await?;
        match result.success {
            true => Ok(()),
            false => Err(ClientError::Closed),
        }
    };
    Ok(obey(call).await?)
}
