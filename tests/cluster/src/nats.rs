//! Three NATS servers. They choose their leader themselves.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde::Deserialize;

use crate::{
    servers,
    space::{Space, run, signal},
};

/// The longest time that a start may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The servers. They end with this value.
#[derive(Debug)]
pub(crate) struct Servers {
    program: PathBuf,
    directory: PathBuf,
    servers: Vec<Server>,
}

#[derive(Debug)]
struct Server {
    space: Space,
    process: Option<Child>,
}

/// What a monitoring page tells of the streams.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    account_details: Vec<Account>,
}

#[derive(Deserialize)]
struct Account {
    #[serde(default)]
    stream_detail: Vec<Detail>,
}

#[derive(Deserialize)]
struct Detail {
    cluster: Group,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    leader: String,
}

/// Returns where the program of a server is: on the path, or where `.ci/run` puts it.
pub(crate) fn program() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let own = env::current_exe().ok()?;
    let beside = own.parent()?.join("../nats/bin");
    let folders = env::split_paths(&path).chain([beside]);
    let mut programs = folders.map(|folder| folder.join("nats-server"));
    programs.find(|program| program.is_file())
}

impl Servers {
    pub(crate) fn start(directory: &Path, spaces: &[Space]) -> Result<Self, String> {
        let server = |space: &Space| Server {
            space: space.clone(),
            process: None,
        };
        let mut servers = Self {
            program: program().ok_or("no NATS server is installed")?,
            directory: directory.to_owned(),
            servers: spaces.iter().map(server).collect(),
        };
        let routes = spaces
            .iter()
            .map(|space| format!("nats-route://{}:6222", space.address));
        let routes = routes.collect::<Vec<_>>().join(", ");
        for (at, space) in spaces.iter().enumerate() {
            let address = &space.address;
            let store = servers.home(at);
            let text = format!(
                "server_name: s{at}\nlisten: \"{address}:4222\"\nhttp: \"{address}:8222\"\nping_interval: 2s\nping_max: 2\n\
                 write_deadline: 4s\njetstream {{ store_dir: \"{store}\", sync_interval: always }}\n\
                 cluster {{ name: fom, listen: \"{address}:6222\", routes: [{routes}], ping_interval: 2s }}\n"
            );
            fs::write(servers.settings(at), text).map_err(|error| error.to_string())?;
            servers.spawn(at)?;
        }
        for at in 0..spaces.len() {
            servers.wait(at)?;
        }
        Ok(servers)
    }

    fn home(&self, at: usize) -> String {
        format!("{}/s{at}", self.directory.display())
    }

    fn settings(&self, at: usize) -> String {
        format!("{}.conf", self.home(at))
    }

    fn spawn(&mut self, at: usize) -> Result<(), String> {
        let log = fs::File::options()
            .append(true)
            .create(true)
            .open(format!("{}.log", self.home(at)))
            .map_err(|error| error.to_string())?;
        let (program, settings) = (self.program.display().to_string(), self.settings(at));
        let mut command = self.servers[at].space.command(&[&program, "-c", &settings]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.servers[at].process = Some(command.spawn().map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Waits until a server has what the others have.
    fn wait(&self, at: usize) -> Result<(), String> {
        let begun = Instant::now();
        while self.page(at, "healthz").is_err() {
            if begun.elapsed() > LIMIT {
                let log = format!("{}.log", self.home(at));
                return Err(format!("server {at} is not ready; see {log}"));
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Reads a monitoring page in the namespace of the server, which no cut of the network reaches.
    fn page(&self, at: usize, name: &str) -> Result<String, String> {
        let Space {
            name: space,
            address,
            ..
        } = &self.servers[at].space;
        let own = env::current_exe().map_err(|error| error.to_string())?;
        let (own, address) = (own.display().to_string(), format!("{address}:8222"));
        run(
            "ip",
            &["netns", "exec", space, &own, "page", &address, name],
        )
    }

    fn leader(&self) -> Result<usize, String> {
        let running = self
            .servers
            .iter()
            .enumerate()
            .filter(|(_, server)| server.process.is_some());
        for (at, _) in running {
            let Ok(page) = self.page(at, "jsz?streams=true") else {
                continue;
            };
            let page: Page = serde_json::from_str(&page).map_err(|error| error.to_string())?;
            let details = page
                .account_details
                .into_iter()
                .flat_map(|of| of.stream_detail);
            // A server that was cut off may still take itself for the leader: the first that is not it says who is.
            for detail in details {
                let leader = detail
                    .cluster
                    .leader
                    .strip_prefix('s')
                    .and_then(|at| at.parse().ok());
                if let Some(leader) = leader {
                    return Ok(leader);
                }
            }
        }
        Err("no server tells which one leads".to_owned())
    }
}

/// Prints a page of a server.
pub(crate) fn print_page(address: &str, name: &str) -> std::io::Result<()> {
    use std::io::{Error, Read as _, Write as _};
    let address = address.parse().map_err(Error::other)?;
    let mut stream = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(format!("GET /{name} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.0 200") => {
            println!("{body}");
            Ok(())
        }
        _ => Err(Error::other(answer)),
    }
}

impl servers::Servers for Servers {
    fn config(&self) -> String {
        let addresses = self.servers.iter().map(|server| &*server.space.address);
        format!("nats:{}", addresses.collect::<Vec<_>>().join(","))
    }

    fn space(&self, at: usize) -> &Space {
        &self.servers[at].space
    }

    fn primary(&self) -> Result<usize, String> {
        let begun = Instant::now();
        loop {
            match self.leader() {
                Err(_) if begun.elapsed() < LIMIT => sleep(Duration::from_millis(200)),
                found => return found,
            }
        }
    }

    fn kill(&mut self, at: usize) {
        if let Some(mut process) = self.servers[at].process.take() {
            signal(&process, "KILL");
            let _ = process.wait();
        }
    }

    fn restart(&mut self, at: usize) -> Result<(), String> {
        self.spawn(at)?;
        // A server alone is not ready before it knows a leader.
        let begun = Instant::now();
        while self.page(at, "varz").is_err() {
            if begun.elapsed() > LIMIT {
                return Err(format!(
                    "server {at} does not answer; see {}.log",
                    self.home(at)
                ));
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn promote(&mut self) -> Option<Result<(), String>> {
        None
    }

    /// The leader commits for all clients. While it is stopped, another one is chosen.
    fn committer_of(&self, _: &Space) -> Result<Option<u32>, String> {
        let leader = self.primary()?;
        Ok(self.servers[leader].process.as_ref().map(Child::id))
    }

    fn rows(&self) -> Option<Result<String, String>> {
        None
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for at in 0..self.servers.len() {
            servers::Servers::kill(self, at);
        }
    }
}
