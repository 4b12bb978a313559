//! What the engine refuses, with a message that names the remedy.

use std::error::Error;

use async_nats::jetstream::{self, stream};
use fom_cluster::engine::{Engine, EngineError, Settings};
use fom_nats::{ConnectOptions, NatsEngine, NatsEngineBuilder, NatsError};

use crate::{SAFE, server::Servers};

/// Opens a cluster. Returns why it is refused.
fn refused(builder: NatsEngineBuilder) -> NatsError {
    let opened = builder.build().unwrap().open(&Settings::new(2));
    match opened.unwrap_err() {
        EngineError::Refused(why) => {
            let why: &(dyn Error + 'static) = &*why;
            why.downcast_ref::<NatsError>().unwrap().clone()
        }
        other => panic!("{other}"),
    }
}

fn builder(servers: &Servers, cluster: &str) -> NatsEngineBuilder {
    NatsEngine::builder(servers.urls(), servers.monitors(), cluster)
}

#[test]
fn a_server_that_may_lose_messages_is_refused() {
    let Some(servers) = Servers::start(1, "sync_interval: 1s") else {
        return;
    };
    let error = refused(builder(&servers, "orders").allow_one_copy());
    assert!(matches!(error, NatsError::NoFsync { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("set `sync_interval: always`"), "{text}");
    let accepted = builder(&servers, "orders")
        .allow_one_copy()
        .allow_no_fsync();
    accepted.build().unwrap().open(&Settings::new(2)).unwrap();
}

#[test]
fn a_stream_with_one_copy_is_refused() {
    let Some(servers) = Servers::start(1, SAFE) else {
        return;
    };
    let accepted = builder(&servers, "orders").allow_one_copy();
    accepted.build().unwrap().open(&Settings::new(2)).unwrap();
    let error = refused(builder(&servers, "orders"));
    assert!(matches!(error, NatsError::OneCopy { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("`nats stream edit --replicas 3`"), "{text}");
}

/// A server whose settings no page tells is refused, and a page that does not answer is no reason if most do.
#[test]
fn servers_without_a_monitoring_page_are_refused() {
    let Some(mut servers) = Servers::start(3, SAFE) else {
        return;
    };
    let monitors = servers.monitors();
    let with = |monitors: &[String]| {
        NatsEngine::builder(servers.urls(), monitors.iter().cloned(), "orders")
    };
    for monitors in [&monitors[..0], &monitors[..1], &monitors[..2]] {
        let error = refused(with(monitors));
        assert!(matches!(error, NatsError::NotChecked { .. }), "{error}");
        assert!(error.to_string().contains("`http: HOST:8222`"), "{error}");
    }
    let mut wrong = monitors.clone();
    wrong[0] = servers.urls()[0].clone();
    let error = refused(with(&wrong[..2])).to_string();
    assert!(error.contains("begins with `http://`"), "{error}");
    servers.kill(2);
    // The other servers need a while until one of them leads.
    let engine = builder(&servers, "orders").build().unwrap();
    engine.open(&Settings::new(2)).unwrap();
}

#[test]
fn a_wrong_password_is_an_error() {
    let authorization =
        format!("{SAFE} }}\nauthorization {{ user: fom, password: \"correct horse\"");
    let Some(servers) = Servers::start(1, &authorization) else {
        return;
    };
    let with = |password: &'static str| {
        let builder = builder(&servers, "orders").allow_one_copy();
        let options = move |options: ConnectOptions| {
            options.user_and_password("fom".to_owned(), password.to_owned())
        };
        builder.connect_with(options).build().unwrap()
    };
    with("correct horse").open(&Settings::new(2)).unwrap();
    let error = with("battery staple")
        .open(&Settings::new(2))
        .unwrap_err()
        .to_string();
    assert!(error.contains("authorization violation"), "{error}");
}

#[test]
fn a_name_that_is_no_part_of_a_subject_is_refused() {
    for name in ["", "a b", "a.b", "a>", "ä"] {
        let error = NatsEngine::builder(["nats://127.0.0.1"], [""; 0], name).build();
        let error = error.unwrap_err();
        assert!(
            matches!(&error, NatsError::Name(of) if of == name),
            "{error}"
        );
    }
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let engine = NatsEngine::builder(["nats://127.0.0.1:1"], [""; 0], "orders");
    let error = engine.build().unwrap().open(&Settings::new(2)).unwrap_err();
    assert!(matches!(error, EngineError::Unknown(_)), "{error}");
    assert!(
        error.to_string().contains("no server accepts a connection"),
        "{error}"
    );
}

/// A stream that deletes what it has is not one that this engine has made.
#[test]
fn a_stream_that_loses_messages_is_refused() {
    let Some(servers) = Servers::start(1, SAFE) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(servers.urls()).await.unwrap();
        let config = stream::Config {
            name: "fom-orders".to_owned(),
            subjects: vec!["fom.orders.>".to_owned()],
            max_messages: 100,
            ..stream::Config::default()
        };
        jetstream::new(client).create_stream(config).await.unwrap();
    });
    let error = refused(builder(&servers, "orders").allow_one_copy());
    let text = error.to_string();
    assert!(matches!(error, NatsError::Settings { .. }), "{text}");
    assert!(
        text.contains("it deletes old messages when it is full"),
        "{text}"
    );
}

/// What a later release has written is not misread, and damage is told.
#[test]
fn messages_of_a_later_release_are_refused() {
    let Some(servers) = Servers::start(1, SAFE) else {
        return;
    };
    let cases: [(&str, &[u8]); 2] = [
        ("later", br#"{"Divide":{"slots":128}}"#),
        ("damaged", br#"{"Leave":"#),
    ];
    for (cluster, message) in cases {
        let accepted = builder(&servers, cluster).allow_one_copy();
        accepted.build().unwrap().open(&Settings::new(2)).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let client = async_nats::connect(servers.urls()).await.unwrap();
            let subject = format!("fom.{cluster}.control");
            let context = jetstream::new(client);
            let sent = context.publish(subject, message.to_vec().into());
            sent.await.unwrap().await.unwrap();
        });
        let error = refused(builder(&servers, cluster).allow_one_copy());
        let is_it = match cluster {
            "later" => matches!(error, NatsError::Newer { sequence: 2, .. }),
            _ => matches!(error, NatsError::Damaged { sequence: 2, .. }),
        };
        assert!(is_it, "{error}");
    }
}
