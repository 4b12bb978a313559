//! The service scheduler: functions that are registered and called by name, with their types checked.
//!
//! Calls that are awaited, that block a plain thread, that run a callback in the caller's strand, or that want no answer; news of
//! who is registered; an owner that leaves; and a status that is asked for over TCP.
//!
//! `cargo run --example services`

use std::{sync::mpsc, time::Duration};

use fom_runtime::{
    TestClock,
    prelude::*,
    service::{CallCause, CallCx, Provider, Running, Service, Services},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

/// The names, with the types of their functions: a call with other types does not compile.
static ECHO: Service<String, usize> = Service::new("echo");
static FETCH: Service<u64, String> = Service::new("fetch");
static STATUS: Service<(), String> = Service::new("status");

const SECOND: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), BoxError> {
    // A clock that is moved by hand: a page takes a second, and nobody has to wait for it here.
    let clock = TestClock::new();
    let runtime = Runtime::builder().localities(2).clock(&clock).build()?;
    let services = runtime.services();

    // Who waits for a service need not be there after it.
    let mut news = services.subscribe("echo");
    let echo = services.register(&ECHO, Provider::function(|_, text: String| text.len()))?;
    services.wait_for(&ECHO).await?;
    println!("{:?}, {:?}", next(&mut news).await, next(&mut news).await);

    // One owner registers what another one calls: a function that waits, one call of each page at a time.
    let fetch = Provider::future(|cx: CallCx, page: u64| async move {
        cx.sleep(SECOND).await;
        format!("page {page}")
    });
    let fetch = services.register(&FETCH, fetch.key(|page: &u64| *page).owner("the store"))?;

    // Asynchronous; blocking, on a plain thread; and no answer wanted.
    println!("echo: {}", services.call(&ECHO, "four".into()).await?);
    let of = services.clone();
    let waited = std::thread::spawn(move || of.call(&ECHO, "seven..".into()).wait());
    println!("echo: {}", waited.join().expect("it does not panic")?);
    services.call(&ECHO, "whatever".into()).detach()?;

    // A callback for each answer: those of one strand never overlap.
    let (tell, told) = mpsc::channel();
    for page in 1..=3 {
        let tell = tell.clone();
        let made = services.call(&FETCH, page).strand("my session");
        made.then(move |answer| tell.send(answer).expect("somebody listens"));
    }
    drop(tell);
    runtime.quiet().await;
    clock.advance(SECOND);
    for answer in tokio::task::spawn_blocking(move || told.into_iter().collect::<Vec<_>>()).await? {
        println!("fetched {}", answer?);
    }

    // A name that comes from outside is looked up: it may not be there, or be of other types.
    let found = services.lookup::<u64, String>("echo");
    println!("looked up: {}", found.expect_err("it takes a string"));

    // An owner that leaves: what runs comes to its end, what waits is answered, others are not touched.
    let runs = services.call(&FETCH, 7).start()?;
    let waits = services.call(&FETCH, 7).start()?;
    runtime.quiet().await;
    let ends = async { clock.advance(SECOND) };
    tokio::join!(fetch.unregister(Running::Finish), ends);
    println!("{}", runs.await?);
    let failure = waits.await.expect_err("it was still waiting");
    assert!(matches!(failure.cause, CallCause::Cancelled(_)));
    println!("{failure}; it gives back {:?}", failure.argument);

    // A status that can be asked for from elsewhere is a service like any other.
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

async fn next(news: &mut fom_runtime::service::Subscription) -> Option<String> {
    let event = news.next().await?;
    Some(format!("{} {:?}", event.service, event.happened))
}

/// One line is the name of a service that takes nothing and gives text; what it gives is the answer.
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
