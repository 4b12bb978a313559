//! The message queue as an active object, and the gateway built of it: the example of the *Active Object* pattern (Lavender and
//! Schmidt 1996, POSA 2).
//!
//! Suppliers hand their messages to a gateway, which puts each into the queue of every consumer on its route. A queue is bounded: `put` waits
//! until there is room, `get` until there is a message, and nobody blocks a thread meanwhile. A consumer that is slow holds up
//! nobody but itself.
//!
//! `cargo run --example active_object`

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use fom_runtime::{active::CallError, prelude::*};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    supplier: &'static str,
    number: u32,
}

/// The servant: an ordinary queue. What the pattern needs beside it (proxy, method requests, guards, activation list, scheduler,
/// futures) is the attribute.
struct MessageQueue {
    messages: VecDeque<Message>,
    room: usize,
}

#[active]
impl MessageQueue {
    fn new(room: usize) -> Self {
        let messages = VecDeque::new();
        Self { messages, room }
    }

    /// Waits until there is room.
    #[when(self.messages.len() < self.room)]
    pub(crate) fn put(&mut self, message: Message) {
        self.messages.push_back(message);
    }

    /// Waits until there is a message.
    #[when(!self.messages.is_empty())]
    pub(crate) fn get(&mut self) -> Option<Message> {
        self.messages.pop_front()
    }
}

/// Which suppliers' messages go into which queues. An active object, too: routes can change while messages come.
#[derive(Default)]
struct Gateway {
    routes: BTreeMap<&'static str, Vec<MessageQueueProxy>>,
}

#[active]
impl Gateway {
    #[active(priority = "high")]
    pub(crate) fn connect(&mut self, supplier: &'static str, consumer: MessageQueueProxy) {
        self.routes.entry(supplier).or_default().push(consumer);
    }

    /// Puts the message into all queues on its route, and says how many these are. The calls are on their way when it returns, and
    /// nothing waits for them here: each queue takes them in their order, as it has room.
    pub(crate) fn route(&mut self, message: Message) -> usize {
        let consumers = self.routes.get(message.supplier);
        let puts = consumers.into_iter().flatten();
        puts.map(|queue| drop(queue.put(message.clone()))).count()
    }
}

/// Takes what is for it, at its own pace, until the last message has come.
async fn consume(queue: MessageQueueProxy, messages: usize, pace: Duration) -> Vec<Message> {
    let mut taken = Vec::new();
    while taken.len() < messages {
        taken.extend(queue.get().await.ok().flatten());
        tokio::time::sleep(pace).await;
    }
    taken
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    const EACH: u32 = 20;
    let runtime = Runtime::new()?;
    let gateway = Gateway::default().activate(&runtime)?;
    let fast = MessageQueue::new(4).activate(&runtime)?;
    let slow = MessageQueue::new(4).activate(&runtime)?;
    for (supplier, consumer) in [("stocks", &fast), ("stocks", &slow), ("news", &fast)] {
        gateway.connect(supplier, consumer.clone()).await?;
    }
    let fast_one = tokio::spawn(consume(fast.clone(), 2 * EACH as usize, Duration::ZERO));
    let slow_one = tokio::spawn(consume(
        slow.clone(),
        EACH as usize,
        Duration::from_millis(2),
    ));

    // A supplier is a plain thread here: it blocks, and the gateway does not.
    let suppliers = ["stocks", "news"].map(|supplier| {
        let gateway = gateway.clone();
        std::thread::spawn(move || -> Result<usize, CallError> {
            let sends = (0..EACH).map(|number| gateway.route(Message { supplier, number }).wait());
            Ok(sends.collect::<Result<Vec<_>, _>>()?.into_iter().sum())
        })
    });
    for supplier in suppliers {
        let routed = supplier.join().expect("a supplier does not panic")?;
        println!("routed to {routed} queues in all");
    }
    let fast_took = fast_one.await?;
    println!(
        "the fast consumer has all, and the slow one's list is at {}",
        slow.queued()
    );
    println!("{}", runtime.operations());
    let slow_took = slow_one.await?;
    for (taken, supplier) in [
        (&fast_took, "stocks"),
        (&fast_took, "news"),
        (&slow_took, "stocks"),
    ] {
        let numbers = taken.iter().filter(|message| message.supplier == supplier);
        assert!(
            numbers.map(|message| message.number).eq(0..EACH),
            "{supplier}: in order, and all"
        );
    }

    // A guard that never turns true is no riddle: it is listed, and a deadline ends it.
    let nothing = fast.get().within(Duration::from_millis(20));
    println!(
        "nobody sends any more: {}",
        nothing.await.expect_err("there is none")
    );
    Ok(())
}
