//! One live fom a key: the first message of a customer starts a session, the next ones go to it.
//!
//! `cargo run --example keyed`

use fom_runtime::{RefusedReason, SendError, prelude::*};
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize)]
struct Session {
    said: Vec<String>,
}

#[derive(Debug)]
enum Message {
    Say(String),
    Bye,
}

#[fom(operation(Session), event(Message))]
enum Talking {
    #[phase(start, to(Over), on(Say, Bye), sync)]
    Listen,
    #[phase(end)]
    Over,
}

impl TalkingTransitions for Session {
    fn listen(
        &mut self,
        _: &mut Cx<'_, Message>,
        message: Message,
    ) -> Result<TalkingAfterListen, BoxError> {
        Ok(match message {
            Message::Say(words) => {
                self.said.push(words);
                TalkingAfterListen::Stay
            }
            Message::Bye => TalkingAfterListen::Over,
        })
    }
}

/// Brings a message to the customer's session, and begins one where there is none.
async fn deliver(runtime: &Runtime, customer: &str, mut message: Message) -> Result<(), BoxError> {
    let bye = matches!(message, Message::Bye);
    loop {
        // Whoever is first begins it; the others learn who that was. Nobody gets in between.
        let fom = match runtime.submit(Session::default()).key(customer).start() {
            Ok(handle) => {
                println!("{customer}: a new session");
                let fom = handle.fom().clone();
                // Nobody awaits it; the handle takes its outcome elsewhere.
                tokio::spawn(async move {
                    if let Ok(ended) = handle.await {
                        println!("session {}: {:?}", fom.id(), ended.operation.said);
                    }
                });
                continue;
            }
            Err(refused) if refused.reason() == RefusedReason::KeyInUse => {
                refused.live().expect("the holder of the key").clone()
            }
            Err(refused) => return Err(refused.reason().into()),
        };
        match fom.send(message) {
            Ok(()) => {
                if bye {
                    // What is sent behind a Bye, and before the end, nobody takes: it would be in `Ended::untaken`. To wait for
                    // no phase is to wait for the end, when the key is free.
                    fom.reached([]).await;
                }
                return Ok(());
            }
            // It ended just now: the next round begins a new one.
            Err(SendError::Ended(back)) => message = back,
            Err(error) => return Err(Box::new(error)),
        }
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    let runtime = Runtime::new()?;
    let say = |words: &str| Message::Say(words.to_owned());
    for (customer, message) in [
        ("ada", say("hello")),
        ("bob", say("anybody there?")),
        ("ada", say("a lamp, please")),
        ("ada", Message::Bye),
        ("ada", say("one more thing")),
        ("bob", Message::Bye),
    ] {
        deliver(&runtime, customer, message).await?;
    }
    assert!(runtime.find::<Session>("ada").is_some());
    deliver(&runtime, "ada", Message::Bye).await?;
    runtime.idle().await;
    println!("{}", runtime.operations());
    Ok(())
}
