//! One live fom for each key: the first message of a customer starts a session, and the next ones go to it.
//!
//! `cargo run --example keyed`

use fom_runtime::{
    error::{RefusedReason, SendError},
    prelude::*,
};
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

/// Sends a message to the customer's session, and starts one if there is none.
async fn deliver(runtime: &Runtime, customer: &str, mut message: Message) -> Result<(), BoxError> {
    let bye = matches!(message, Message::Bye);
    loop {
        // The first caller starts the session, and the other callers get its fom. No other start can come between.
        let fom = match runtime.submit(Session::default()).key(customer).start() {
            Ok(handle) => {
                println!("{customer}: a new session");
                let fom = handle.fom().clone();
                // No task awaits the outcome here; the handle moves to another task.
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
                    // No phase takes an event after a Bye and before the end: the event would be in `Ended::untaken`. A
                    // wait for no phase is a wait for the end, when the key is free.
                    fom.reached([]).await;
                }
                return Ok(());
            }
            // The session ended just now: the next round starts a new one.
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
