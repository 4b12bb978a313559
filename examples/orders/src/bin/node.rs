//! One of several nodes: `node --name NAME --database CONFIG [--address ADDRESS] [--cluster ADDRESS] [--directory PATH] [--provider URL]`.
//! The variable `ORDERS_SECRET` has what all nodes know.

use std::{env, path::PathBuf};

use fom_runtime::prelude::BoxError;
use lexopt::prelude::*;
use orders::{
    nodes::{Node, routes},
    provider::Provider,
    serve::stopped,
};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut node = Node {
        name: String::new(),
        database: String::new(),
        cluster: "127.0.0.1:0".into(),
        secret: env::var("ORDERS_SECRET")
            .map_err(|_| "set the variable ORDERS_SECRET, the same for all nodes")?,
    };
    let mut address = "127.0.0.1:0".to_owned();
    let mut directory = PathBuf::from("target/orders");
    let mut provider = "http://127.0.0.1:7801".to_owned();
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("name") => node.name = arguments.value()?.string()?,
            Long("database") => node.database = arguments.value()?.string()?,
            Long("cluster") => node.cluster = arguments.value()?.string()?,
            Long("address") => address = arguments.value()?.string()?,
            Long("directory") => directory = arguments.value()?.into(),
            Long("provider") => provider = arguments.value()?.string()?,
            other => return Err(other.unexpected().into()),
        }
    }
    if node.name.is_empty() || node.database.is_empty() {
        return Err("a node needs a `--name` and a `--database`".into());
    }
    // The address is taken before the orders come back, because they tell it to the provider.
    let listener = TcpListener::bind(&address).await?;
    let address = listener.local_addr()?;
    let webhook = format!("http://{address}/webhooks/payment");
    let cluster = node
        .join(&directory, Provider::new(provider)?, webhook)
        .await?;
    println!("orders on {address}");

    let stop = stopped()?;
    axum::serve(listener, routes(cluster.clone()))
        .with_graceful_shutdown(stop)
        .await?;
    // The other nodes take over at once.
    cluster.leave().await;
    Ok(())
}
