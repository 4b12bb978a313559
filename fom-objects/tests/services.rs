//! Services that are called by key, on two nodes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fom_cluster::{Cluster, ClusterBuilder, ClusterError, MemoryEngine, Tcp};
use fom_objects::{KeyedCallCause, ObjectsBuilderExt as _, ObjectsExt as _};
use fom_patterns::service::{Provider, Service};

/// The time limit of a test.
const LIMIT: Duration = Duration::from_secs(60);

async fn limited(test: impl Future<Output = ()>) {
    tokio::time::timeout(LIMIT, test).await.expect("in time");
}

async fn nodes(serve: impl Fn(ClusterBuilder) -> ClusterBuilder) -> [Cluster; 2] {
    let engine = MemoryEngine::new();
    let join = async |name: &str| {
        let builder = Cluster::builder(engine.clone(), name).slots(4);
        let builder = builder.network(Tcp::bind("127.0.0.1:0").unwrap());
        serve(builder).join().await.unwrap()
    };
    [join("a").await, join("b").await]
}

static LENGTH: Service<String, usize> = Service::new("length");
static HALF: Service<u64, u64> = Service::new("half");

/// AO-09: each node reaches the service of each key.
#[tokio::test]
async fn a_service_is_called_by_key_from_any_node() {
    limited(async {
        let nodes = nodes(|builder| {
            let length = || Provider::function(|_, text: String| text.len());
            let half = || Provider::function(|_, number| number / 2);
            builder.service(&LENGTH, length).service(&HALF, half)
        })
        .await;
        for node in &nodes {
            for key in 0..20u64 {
                let text = "x".repeat(key as usize);
                assert_eq!(
                    node.call_service(&LENGTH, key, text).await.unwrap(),
                    key as usize
                );
                assert_eq!(node.call_service(&HALF, key, 2 * key).await.unwrap(), key);
            }
        }
        for node in &nodes {
            node.leave().await;
        }
    })
    .await;
}

/// A service is registered once in each slot that is called.
#[tokio::test]
async fn a_service_is_registered_once_in_a_slot() {
    limited(async {
        let made = Arc::new(AtomicUsize::new(0));
        let length = {
            let made = Arc::clone(&made);
            move || {
                made.fetch_add(1, Ordering::SeqCst);
                Provider::function(|_, text: String| text.len())
            }
        };
        let builder = Cluster::builder(MemoryEngine::new(), "a").slots(4);
        let node = builder.service(&LENGTH, length).join().await.unwrap();
        for key in 0..40u64 {
            node.call_service(&LENGTH, key, String::new())
                .await
                .unwrap();
        }
        assert_eq!(made.load(Ordering::SeqCst), 4);
        node.leave().await;
    })
    .await;
}

/// A call that fails says why. It gives its argument back if the function was not entered.
#[tokio::test]
async fn a_failed_call_says_why() {
    static STRICT: Service<Vec<u8>, u8> = Service::new("strict");
    static UNKNOWN: Service<u64, u64> = Service::new("unknown");
    /// The same name with another argument.
    static OTHER: Service<String, u8> = Service::new("strict");
    limited(async {
        let nodes = nodes(|builder| {
            builder.service(&STRICT, || {
                Provider::function(|_, bytes: Vec<u8>| *bytes.first().expect("a byte"))
            })
        })
        .await;
        for node in &nodes {
            assert_eq!(node.call_service(&STRICT, "k", vec![7]).await.unwrap(), 7);
            let entered = node.call_service(&STRICT, "k", vec![]).await.unwrap_err();
            assert!(
                matches!(&entered.cause, KeyedCallCause::Service(why) if why.contains("a byte"))
            );
            assert_eq!(entered.argument, None);
            assert_eq!(
                entered.to_string(),
                "call of `strict` failed: panicked: a byte"
            );

            let unknown = node.call_service(&UNKNOWN, "k", 1).await.unwrap_err();
            let cause = &unknown.cause;
            assert!(
                matches!(cause, KeyedCallCause::Cluster(ClusterError::Failed(_))),
                "{cause}"
            );

            let other = node
                .call_service(&OTHER, "k", "text".to_owned())
                .await
                .unwrap_err();
            assert!(
                other.to_string().contains("the argument is unreadable"),
                "{other}"
            );
            assert_eq!(other.argument.as_deref(), Some("text"));
        }
        for node in &nodes {
            node.leave().await;
        }
    })
    .await;
}

/// A call that no caller waits for is cancelled at its owner.
#[tokio::test]
async fn a_dropped_call_is_cancelled() {
    static ENDLESS: Service<u64, u64> = Service::new("endless");
    struct Gone(Arc<AtomicUsize>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    limited(async {
        let (begun, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let nodes = nodes(|builder| {
            let (begun, gone) = (Arc::clone(&begun), Arc::clone(&gone));
            builder.service(&ENDLESS, move || {
                let (begun, gone) = (Arc::clone(&begun), Arc::clone(&gone));
                Provider::future(move |_, _: u64| {
                    let gone = Gone(Arc::clone(&gone));
                    begun.fetch_add(1, Ordering::SeqCst);
                    async move {
                        let _gone = gone;
                        std::future::pending::<u64>().await
                    }
                })
            })
        })
        .await;
        for (number, node) in nodes.iter().cycle().take(8).enumerate() {
            let node = node.clone();
            let call = async move { node.call_service(&ENDLESS, number as u64, 1).await };
            let call = tokio::spawn(call);
            while begun.load(Ordering::SeqCst) <= number {
                tokio::task::yield_now().await;
            }
            call.abort();
            while gone.load(Ordering::SeqCst) <= number {
                tokio::task::yield_now().await;
            }
        }
        for node in &nodes {
            node.leave().await;
        }
    })
    .await;
}
