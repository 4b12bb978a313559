//! A service is called with the argument, and gives the result, of its key.
use fom_patterns::{
    prelude::*,
    service::{Provider, Service},
};

static ECHO: Service<String, usize> = Service::new("echo");

async fn wrong_argument(runtime: Runtime) {
    let _ = runtime.services().call(&ECHO, 7).await;
}

async fn wrong_result(runtime: Runtime) -> Result<String, BoxError> {
    let said: String = runtime.services().call(&ECHO, "four".into()).await?;
    Ok(said)
}

fn wrong_function(runtime: &Runtime) {
    let echo = Provider::function(|_, text: String| text);
    let _ = runtime.services().register(&ECHO, echo);
}

fn main() {}
