//! The message queue as an active object, and a gateway of such queues. This is the example of the *Active Object*
//! pattern (Lavender and Schmidt 1996, POSA 2).
//!
//! Suppliers give their messages to a gateway, which puts each into the queue of every consumer on its route. A queue
//! is bounded: `put` waits until there is room, and `get` until there is a message. No wait blocks a thread. A slow
//! consumer holds up only itself.
//!
//! `cargo run --example active_object`

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use fom_patterns::{active::ActiveCallError, prelude::*};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    supplier: &'static str,
    number: u32,
}

/// The servant: an ordinary queue. The attribute provides the rest of the pattern: proxy, method requests, guards,
/// activation list, scheduler, futures.
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

/// The routes from suppliers to queues. The gateway is an active object, too, so routes can change while messages come.
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

    /// Puts the message into all queues on its route, and returns their number. The calls are on their way on return,
    /// and the gateway does not wait for them. Each queue takes its calls in order, when it has room.
    pub(crate) fn route(&mut self, message: Message) -> usize {
        let consumers = self.routes.get(message.supplier);
        let puts = consumers.into_iter().flatten();
        puts.map(|queue| drop(queue.put(message.clone()))).count()
    }
}

/// Takes the consumer's messages at its own pace, until the last message.
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

    // A supplier is a plain thread here. The thread blocks, and the gateway does not.
    let suppliers = ["stocks", "news"].map(|supplier| {
        let gateway = gateway.clone();
        std::thread::spawn(move || -> Result<usize, ActiveCallError> {
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

    // The listing shows a guard that never turns true, and a deadline ends it.
    let nothing = fast.get().within(Duration::from_millis(20));
    println!(
        "no more messages: {}",
        nothing.await.expect_err("there is none")
    );
    Ok(())
}
