//! Calls by key: what answers them, and what fails them.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fom_cluster::{Asked, Cluster, ClusterError, MemoryEngine, Tcp};
use fom_durable::prelude::*;
use fom_runtime::{Key, config::Shutdown, extension::RuntimeState};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// The time limit of a test.
const LIMIT: Duration = Duration::from_secs(60);

async fn limited(test: impl Future<Output = ()>) {
    tokio::time::timeout(LIMIT, test).await.expect("in time");
}

/// Joins two nodes that answer alike.
async fn nodes<R>(answers: impl Fn(Asked) -> R + Clone + Send + Sync + 'static) -> [Cluster; 2]
where
    R: Future<Output = Vec<u8>> + Send + 'static,
{
    let engine = MemoryEngine::new();
    let join = async |name: &str| {
        let builder = Cluster::builder(engine.clone(), name).slots(8);
        let builder = builder.network(Tcp::bind("127.0.0.1:0").unwrap());
        let builder = builder.answers("echo", answers.clone());
        builder.join().await.unwrap()
    };
    [join("a").await, join("b").await]
}

/// Each node reaches the owner of each key. The answer comes from the runtime of the slot.
#[tokio::test]
async fn a_call_reaches_the_owner_of_its_key() {
    limited(async {
        let nodes = nodes(|asked: Asked| async move {
            let key = format!("{} ", asked.key);
            [key.as_bytes(), &asked.body].concat()
        })
        .await;
        for node in &nodes {
            for number in 0..40u64 {
                let answer = node.call("echo", number, b"hello".to_vec()).await.unwrap();
                assert_eq!(answer, format!("{number} hello").into_bytes());
            }
            // Keys whose first parts are equal share a slot.
            let pair = Key::from(("a", "b"));
            assert_eq!(node.call("echo", pair, Vec::new()).await.unwrap(), b"a/b ");
        }
        for node in &nodes {
            node.leave().await;
        }
    })
    .await;
}

/// A name that no node answers, an answer that panics at once or later, and too many bytes fail the call and nothing else.
#[tokio::test]
async fn a_call_that_cannot_be_answered_fails() {
    limited(async {
        let nodes = nodes(|asked: Asked| {
            assert_ne!(asked.body, b"at once", "no luck");
            async move {
                tokio::task::yield_now().await;
                assert_ne!(asked.body, b"later", "no luck later");
                match &*asked.body {
                    b"long" => vec![7; (64 << 20) + 1],
                    _ => asked.body,
                }
            }
        })
        .await;
        for node in &nodes {
            let why = |failed: Result<Vec<u8>, ClusterError>| failed.unwrap_err().to_string();
            let unknown = node.call("shout", 1u64, Vec::new()).await;
            assert!(why(unknown).contains("does not answer calls of `shout`"));
            for body in ["at once", "later"] {
                let panicked = node.call("echo", 1u64, body.into()).await;
                let why = why(panicked);
                assert!(
                    why.starts_with("the call panicked:") && why.contains("no luck"),
                    "{why}"
                );
            }
            // The frame would be too long for the connection.
            let long = node.call("echo", 1u64, vec![7; (64 << 20) + 1]).await;
            assert_eq!(
                why(long),
                "the call has 67108865 bytes; the most are 67108864"
            );
            let long = node.call("echo", 1u64, b"long".to_vec()).await;
            assert_eq!(
                why(long),
                "the answer has 67108865 bytes; the most are 67108864"
            );
            assert_eq!(
                node.call("echo", 1u64, b"fine".to_vec()).await.unwrap(),
                b"fine"
            );
        }
        for node in &nodes {
            node.leave().await;
        }
    })
    .await;
}

/// A slot answers 1,024 calls at once, and refuses further ones.
#[tokio::test]
async fn too_many_calls_are_refused() {
    limited(async {
        let (open, running) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let [node, other] = nodes({
            let (open, running) = (Arc::clone(&open), Arc::clone(&running));
            move |asked: Asked| {
                let (open, running) = (Arc::clone(&open), Arc::clone(&running));
                async move {
                    let opened = open.notified();
                    running.fetch_add(1, Ordering::SeqCst);
                    opened.await;
                    asked.body
                }
            }
        })
        .await;
        let mut calls = Vec::new();
        for _ in 0..1024 {
            let node = node.clone();
            let call = async move { node.call("echo", 7u64, b"x".to_vec()).await };
            calls.push(tokio::spawn(call));
        }
        while running.load(Ordering::SeqCst) < 1024 {
            tokio::task::yield_now().await;
        }
        let refused = other.call("echo", 7u64, Vec::new()).await;
        assert!(matches!(refused, Err(ClusterError::Busy)), "{refused:?}");
        open.notify_waiters();
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap(), b"x");
        }
        for node in [node, other] {
            node.leave().await;
        }
    })
    .await;
}

/// A call that no caller waits for is dropped at its owner.
#[tokio::test]
async fn a_dropped_call_is_dropped_at_the_owner() {
    limited(async {
        struct Gone(Arc<AtomicUsize>);
        impl Drop for Gone {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let (begun, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let [node, other] = nodes({
            let (begun, gone) = (Arc::clone(&begun), Arc::clone(&gone));
            move |_: Asked| {
                let gone = Gone(Arc::clone(&gone));
                begun.fetch_add(1, Ordering::SeqCst);
                async move {
                    let _gone = gone;
                    pending().await
                }
            }
        })
        .await;
        for key in 0..16u64 {
            let (node, number) = (node.clone(), key as usize + 1);
            let call = tokio::spawn(async move { node.call("echo", key, Vec::new()).await });
            while begun.load(Ordering::SeqCst) < number {
                tokio::task::yield_now().await;
            }
            call.abort();
            while gone.load(Ordering::SeqCst) < number {
                tokio::task::yield_now().await;
            }
        }
        for node in [node, other] {
            node.leave().await;
        }
    })
    .await;
}

/// An answer out of a runtime that ends is none: what was asked there may have ended with it. The next owner answers.
#[tokio::test]
async fn a_runtime_that_ends_answers_nothing() {
    limited(async {
        let answered = Arc::new(AtomicBool::new(false));
        let answers = {
            let answered = Arc::clone(&answered);
            move |asked: Asked| {
                let runtime = asked.runtime.clone();
                std::thread::spawn(move || {
                    runtime.shutdown_blocking(Shutdown::Now, Duration::ZERO);
                });
                while asked.runtime.extension().state() == RuntimeState::Open {
                    std::thread::yield_now();
                }
                answered.store(true, Ordering::SeqCst);
                async { b"too late".to_vec() }
            }
        };
        let builder = Cluster::builder(MemoryEngine::new(), "a").slots(1);
        let node = builder.answers("echo", answers).join().await.unwrap();
        let call = {
            let node = node.clone();
            tokio::spawn(async move { node.call("echo", 1u64, Vec::new()).await })
        };
        while !answered.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        node.leave().await;
        let called = call.await.unwrap();
        assert!(matches!(called, Err(ClusterError::Left)), "{called:?}");
    })
    .await;
}

#[derive(Serialize, Deserialize)]
struct Parcel {
    content: String,
}

#[fom(operation(Parcel))]
enum Sending {
    #[phase(start, sync, to(Sent))]
    Send,
    #[phase(end)]
    Sent,
}

impl SendingTransitions for Parcel {
    fn send(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.content = "x".repeat(66 << 20);
        Ok(())
    }
}

/// A request that is too long for the connection between nodes fails, and is not repeated. Other calls go on.
#[tokio::test]
async fn a_request_that_is_too_long_between_nodes_fails() {
    limited(async {
        let engine = MemoryEngine::new();
        let join = async |name: &str| {
            let builder = Cluster::builder(engine.clone(), name).slots(1);
            let builder = builder.network(Tcp::bind("127.0.0.1:0").unwrap());
            builder.operation::<Parcel>().join().await.unwrap()
        };
        let owner = join("a").await;
        while owner.served().is_empty() {
            tokio::task::yield_now().await;
        }
        let other = join("b").await;
        let long = Parcel {
            content: "x".repeat(66 << 20),
        };
        let refused = other.submit(long).key("long").start().await.unwrap_err();
        let why = refused.reason.to_string();
        assert!(why.starts_with("the request has 692"), "{why}");
        assert!(
            why.ends_with("between nodes, the most are 68157440"),
            "{why}"
        );
        assert_eq!(refused.operation.unwrap().content.len(), 66 << 20);

        // An outcome is never longer than the journal takes.
        let short = Parcel {
            content: String::new(),
        };
        let started = other.submit(short).key("short").start().await.unwrap();
        let failure = started.await.unwrap().unwrap_err();
        let why = failure.cause.to_string();
        assert!(why.contains("is too long for the journal"), "{why}");
        for node in [owner, other] {
            node.leave().await;
        }
    })
    .await;
}

/// Another type with the same names.
mod other {
    use fom_durable::prelude::*;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    pub(super) struct Parcel;

    #[fom(operation(Parcel))]
    pub(super) enum Sending {
        #[phase(start, sync, to(Sent))]
        Send,
        #[phase(end)]
        Sent,
    }

    impl SendingTransitions for Parcel {
        fn send(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            Ok(())
        }
    }
}

/// Calls and operations go by names, so a name that is taken would reach the wrong type.
#[tokio::test]
async fn a_name_that_is_taken_is_refused_at_the_join() {
    limited(async {
        let builder = || Cluster::builder(MemoryEngine::new(), "a").slots(1);
        let echo = |asked: Asked| async move { asked.body };
        let twice = builder().answers("echo", echo).answers("echo", echo);
        let refused = twice.join().await.unwrap_err();
        assert!(matches!(&refused, ClusterError::AddedTwice(name) if name == "echo"));
        let twice = builder().operation::<Parcel>().operation::<other::Parcel>();
        let refused = twice.join().await.unwrap_err();
        assert!(matches!(&refused, ClusterError::AddedTwice(name) if name == "Sending Parcel"));
        // The same type is one.
        let once = builder().operation::<Parcel>().operation::<Parcel>();
        once.join().await.unwrap().leave().await;
    })
    .await;
}
