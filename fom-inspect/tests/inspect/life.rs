//! The start and the end of an inspector.

use std::{
    fs,
    io::Write as _,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use fom_inspect::{Inspector, StartError};
use fom_runtime::{
    Runtime,
    extension::{Attachment, UnfinishedStop},
    prelude::*,
};

use crate::kit::{Answer, Served, TOKEN, limited, runtime, secs, until};

#[test]
fn a_drop_closes_the_port() {
    limited(|| {
        let served = Served::new(runtime());
        let address = served.address();
        assert_eq!(served.get("/").status, 200);
        let mut open = TcpStream::connect(address).unwrap();
        let Served { runtime, inspector } = served;
        drop(inspector);
        assert!(TcpStream::connect(address).is_err(), "nothing listens");
        let mut rest = Vec::new();
        let ended = std::io::Read::read_to_end(&mut open, &mut rest);
        assert!(matches!(ended, Ok(0) | Err(_)), "the connection is closed");
        // The same port again.
        let again = Inspector::new(&runtime).bind(address).start().unwrap();
        assert_eq!(again.url(), format!("http://{address}/"));
    });
}

#[test]
fn the_inspector_does_not_keep_the_runtime_alive() {
    limited(|| {
        static DROPPED: AtomicBool = AtomicBool::new(false);

        struct Part;

        impl Attachment for Part {
            fn close(self: Arc<Self>, _: &Runtime) -> Vec<UnfinishedStop> {
                DROPPED.store(true, Ordering::Release);
                Vec::new()
            }
        }

        let Served { runtime, inspector } = Served::new(runtime());
        let part: Arc<dyn Attachment> = Arc::new(Part);
        runtime.extension().attach(Arc::downgrade(&part));
        drop(runtime);
        until("the runtime has ended", || DROPPED.load(Ordering::Acquire));
        let mut stream = TcpStream::connect(inspector.address().unwrap()).unwrap();
        stream
            .write_all(
                b"GET /api/v1/summary HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            )
            .unwrap();
        assert_eq!(Answer::read(&mut stream).status, 200);
    });
}

#[test]
fn it_answers_while_every_locality_spins() {
    limited(|| {
        static SPINNING: AtomicUsize = AtomicUsize::new(0);
        static STOP: AtomicBool = AtomicBool::new(false);

        struct Spin;

        #[fom(operation(Spin), transient)]
        enum Spinning {
            #[phase(start, sync, to(Stopped))]
            Turn,
            #[phase(end)]
            Stopped,
        }

        impl SpinningTransitions for Spin {
            fn turn(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
                SPINNING.fetch_add(1, Ordering::Release);
                while !STOP.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                Ok(())
            }
        }

        let runtime = Runtime::builder().localities(2).pin(false).build().unwrap();
        let served = Served::with(runtime, |inspector| inspector.actions(TOKEN));
        let spins: Vec<_> = (0..2)
            .map(|locality| {
                let spin = served.runtime.submit(Spin);
                let spin = spin.place(fom_runtime::submission::Placement::Locality(locality));
                spin.start().unwrap()
            })
            .collect();
        until("both spin", || SPINNING.load(Ordering::Acquire) == 2);
        for path in [
            "summary",
            "machines",
            "machines/Spin",
            "foms?type=Spin",
            "find?q=Spin",
            "waits",
            "keys",
            "localities",
            "warnings",
            "failures",
        ] {
            served.json(path);
        }
        let found = served.json("foms?type=Spin&state=running");
        assert_eq!(found["foms"], 2);
        let id = spins[0].id();
        assert_eq!(served.json(&format!("foms/{id}"))["fom"]["phase"], "Turn");
        let cancel = serde_json::json!({"action": "cancel", "id": id, "reason": "it spins"});
        assert_eq!(served.act(&cancel).status, 200);
        STOP.store(true, Ordering::Release);
    });
}

/// A path in the temporary directory.
fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("fom-{name}-{}", std::process::id()))
}

#[test]
fn a_unix_socket_is_only_for_its_user_and_goes_with_the_inspector() {
    limited(|| {
        let (runtime, path) = (runtime(), path("mode"));
        // What a killed program left.
        drop(UnixListener::bind(&path).unwrap());
        let inspector = Inspector::new(&runtime)
            .bind(path.as_path())
            .start()
            .unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(inspector.path(), Some(path.as_path()));
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(secs(60))).unwrap();
        stream
            .write_all(b"GET /api/v1/summary HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .unwrap();
        let answer = Answer::read(&mut stream);
        assert_eq!((answer.status, &answer.json()["api"]), (200, &1.into()));
        let taken = Inspector::new(&runtime).bind(path.as_path()).start();
        assert!(
            matches!(taken, Err(StartError::PathInUse { .. })),
            "{taken:?}"
        );
        drop(inspector);
        assert!(!path.exists());
    });
}

#[test]
fn a_file_at_the_path_of_the_socket_stays() {
    let path = path("file");
    fs::write(&path, "precious").unwrap();
    let started = Inspector::new(&runtime()).bind(path.as_path()).start();
    let error = started.unwrap_err().to_string();
    assert!(error.contains("choose another path"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    fs::remove_file(&path).unwrap();
}

#[test]
fn other_machines_need_a_token() {
    let all = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let runtime = runtime();
    let error = Inspector::new(&runtime).bind(all).start().unwrap_err();
    assert!(matches!(error, StartError::NeedsToken(_)), "{error}");
    assert!(error.to_string().contains("Inspector::token"), "{error}");
    for set in [Inspector::token, Inspector::actions] {
        let weak = set(Inspector::new(&runtime), "0123456789abcde");
        assert!(matches!(
            weak.start(),
            Err(StartError::WeakToken { length: 15 })
        ));
        let served = Served::with(runtime.clone(), |inspector| set(inspector.bind(all), TOKEN));
        let port = served.address().port();
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let read = |headers: &str| {
            let mut stream = TcpStream::connect(to).unwrap();
            let request = format!(
                "GET /api/v1/summary HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n{headers}\r\n"
            );
            stream.write_all(request.as_bytes()).unwrap();
            Answer::read(&mut stream)
        };
        read("").is(403, "token");
        read("Authorization: Bearer correct horse battery stable\r\n").is(403, "token");
        let answer = read(&format!("Authorization: Bearer {TOKEN}\r\n"));
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
}

#[test]
fn an_address_that_cannot_be_bound_to_is_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = Inspector::new(&runtime())
        .bind(address)
        .start()
        .unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    let error = Inspector::new(&runtime())
        .bind("no address")
        .start()
        .unwrap_err();
    assert!(error.to_string().contains("no address"), "{error}");
}
