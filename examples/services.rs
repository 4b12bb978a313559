//! The service scheduler: functions with a name, called by that name, with checked types.
//!
//! A caller can await a call, block a plain thread, run a callback in its strand, or want no answer. The example also
//! shows news of registrations, an owner that leaves, and a status over TCP.
//!
//! `cargo run --example services`

use std::{sync::mpsc, time::Duration};

use fom_patterns::{
    prelude::*,
    service::{CallCause, CallCx, Provider, Running, Service, Services},
};
use fom_runtime::time::TestClock;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

/// The names, with the types of their functions. A call with other types does not compile.
static ECHO: Service<String, usize> = Service::new("echo");
static FETCH: Service<u64, String> = Service::new("fetch");
static STATUS: Service<(), String> = Service::new("status");

const SECOND: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), BoxError> {
    // The example moves the clock by hand: a page takes a second, and the example does not wait for it.
    let clock = TestClock::new();
    let runtime = Runtime::builder().localities(2).clock(&clock).build()?;
    let services = runtime.services();

    // A waiter may come before the service.
    let mut news = services.subscribe("echo");
    let echo = services.register(&ECHO, Provider::function(|_, text: String| text.len()))?;
    services.wait_for(&ECHO).await?;
    println!("{:?}, {:?}", next(&mut news).await, next(&mut news).await);

    // One owner registers a function that another owner calls. The function waits, with one call of each page at a
    // time.
    let fetch = Provider::future(|cx: CallCx, page: u64| async move {
        cx.sleep(SECOND).await;
        format!("page {page}")
    });
    let fetch = services.register(&FETCH, fetch.key(|page: &u64| *page).owner("the store"))?;

    // One call is asynchronous, one blocks a plain thread, and one wants no answer.
    println!("echo: {}", services.call(&ECHO, "four".into()).await?);
    let of = services.clone();
    let waited = std::thread::spawn(move || of.call(&ECHO, "seven..".into()).wait());
    println!("echo: {}", waited.join().expect("it does not panic")?);
    services.call(&ECHO, "whatever".into()).detach()?;

    // A callback for each answer. The callbacks of one strand never overlap.
    let (tell, told) = mpsc::channel();
    for page in 1..=3 {
        let tell = tell.clone();
        let made = services.call(&FETCH, page).strand("my session");
        made.then(move |answer| tell.send(answer).expect("the receiver is here"));
    }
    drop(tell);
    runtime.quiet().await;
    clock.advance(SECOND);
    for answer in tokio::task::spawn_blocking(move || told.into_iter().collect::<Vec<_>>()).await? {
        println!("fetched {}", answer?);
    }

    // A name from outside is looked up: the service may be missing, or have other types.
    let found = services.lookup::<u64, String>("echo");
    println!("looked up: {}", found.expect_err("it takes a string"));

    // An owner leaves: the running call ends, the waiting call gets an answer, and other owners are not touched.
    let runs = services.call(&FETCH, 7).start()?;
    let waits = services.call(&FETCH, 7).start()?;
    runtime.quiet().await;
    let ends = async { clock.advance(SECOND) };
    tokio::join!(fetch.unregister(Running::Finish), ends);
    println!("{}", runs.await?);
    let failure = waits.await.expect_err("it was still waiting");
    assert!(matches!(failure.cause, CallCause::Cancelled(_)));
    println!("{failure}; it gives back {:?}", failure.argument);

    // A status that other processes can ask for is a service like any other.
    let _status = services.register(
        &STATUS,
        Provider::function(|cx, ()| cx.runtime().services().status().to_string()),
    )?;
    let server = TcpListener::bind("127.0.0.1:0").await?;
    let address = server.local_addr()?;
    let (served, said) = tokio::join!(serve(&services, server), ask(address, "status"));
    served?;
    println!("{}", said?);

    drop(echo);
    println!("{:?}", next(&mut news).await);
    Ok(())
}

async fn next(news: &mut fom_patterns::service::Subscription) -> Option<String> {
    let event = news.next().await?;
    Some(format!("{} {:?}", event.service, event.happened))
}

/// Reads one line: the name of a service that takes nothing and returns text. Answers with that text.
async fn serve(services: &Services, server: TcpListener) -> Result<(), BoxError> {
    let (stream, _) = server.accept().await?;
    let mut stream = BufReader::new(stream);
    let mut name = String::new();
    stream.read_line(&mut name).await?;
    let answer = match services.lookup::<(), String>(name.trim()) {
        Ok(service) => services.call(&service, ()).await?,
        Err(refusal) => refusal.to_string(),
    };
    stream.write_all(answer.as_bytes()).await?;
    Ok(())
}

async fn ask(address: std::net::SocketAddr, name: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("{name}\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
