//! Three PostgreSQL servers: a primary, and two standbys of which one must have each commit.

use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    servers,
    space::{Space, run, signal},
};

/// The longest time that a start may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Commits wait for one standby. A dead connection is noticed after some seconds. The socket is in the directory above the data.
const SETTINGS: &str = "
listen_addresses='*'
unix_socket_directories='..'
shared_buffers=32MB
wal_level=replica
max_wal_senders=8
wal_keep_size=1GB
wal_sender_timeout=5s
wal_receiver_timeout=5s
wal_retrieve_retry_interval=500ms
synchronous_standby_names='ANY 1 (s0,s1,s2)'
tcp_keepalives_idle=2
tcp_keepalives_interval=1
tcp_keepalives_count=3
tcp_user_timeout=4000
";

/// Each booking writes a row of its own, in the transaction of its commit. The table takes a row twice.
const TABLE: &str = "CREATE TABLE booking (account bigint, transfer bigint, cents bigint)";
const ROWS: &str = "SELECT account || ' ' || transfer || ' ' || cents FROM booking";

/// The servers. They end with this value.
#[derive(Debug)]
pub(crate) struct Servers {
    programs: PathBuf,
    user: (u32, u32),
    directory: PathBuf,
    servers: Vec<Server>,
    primary: usize,
}

#[derive(Debug)]
struct Server {
    space: Space,
    process: Option<Child>,
}

/// Returns where the programs of a server are.
pub(crate) fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let installed = versions.flatten().map(|version| version.path().join("bin"));
    installed.filter(|bin| bin.join("initdb").is_file()).max()
}

impl Servers {
    pub(crate) fn start(directory: &Path, spaces: &[Space]) -> Result<Self, String> {
        let programs = programs().ok_or("no PostgreSQL server is installed")?;
        let id = |what: &str| {
            let id = run("id", &[what, "postgres"])?;
            id.parse().map_err(|_| format!("id has said: {id}"))
        };
        let server = |space: &Space| Server {
            space: space.clone(),
            process: None,
        };
        let mut servers = Self {
            programs,
            user: (id("-u")?, id("-g")?),
            directory: directory.to_owned(),
            servers: spaces.iter().map(server).collect(),
            primary: 0,
        };
        for at in 0..spaces.len() {
            let home = servers.home(at);
            fs::create_dir(&home).map_err(|error| error.to_string())?;
            let (user, group) = servers.user;
            chown(&home, Some(user), Some(group)).map_err(|error| error.to_string())?;
        }
        let data = servers.data(0);
        servers.tool(0, "initdb", &["-A", "trust", "-U", "postgres", "-D", &data])?;
        append(&format!("{data}/postgresql.conf"), SETTINGS)?;
        let hosts = "host all all 10.77.0.0/24 trust\nhost replication all 10.77.0.0/24 trust\n";
        append(&format!("{data}/pg_hba.conf"), hosts)?;
        servers.run(0)?;
        for at in 1..spaces.len() {
            servers.copy(at)?;
        }
        servers.query(0, TABLE)?;
        Ok(servers)
    }

    fn home(&self, at: usize) -> String {
        format!("{}/s{at}", self.directory.display())
    }

    fn data(&self, at: usize) -> String {
        format!("{}/data", self.home(at))
    }

    /// The words that make a program run as the user of the servers.
    fn as_user(&self) -> [String; 4] {
        let (user, group) = self.user;
        [
            "setpriv".to_owned(),
            format!("--reuid={user}"),
            format!("--regid={group}"),
            "--clear-groups".to_owned(),
        ]
    }

    /// Runs a program of PostgreSQL in the namespace of a server.
    fn tool(&self, at: usize, program: &str, args: &[&str]) -> Result<String, String> {
        let path = self.programs.join(program).display().to_string();
        let as_user = self.as_user();
        let words = as_user
            .iter()
            .map(String::as_str)
            .chain([&*path])
            .chain(args.iter().copied());
        let words: Vec<_> = words.collect();
        let mut command = self.servers[at].space.command(&words);
        let ran = command
            .current_dir(self.home(at))
            .stdin(Stdio::null())
            .output();
        let ran = ran.map_err(|error| error.to_string())?;
        match ran.status.success() {
            true => Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned()),
            false => Err(format!(
                "{program}: {}",
                String::from_utf8_lossy(&ran.stderr)
            )),
        }
    }

    /// Starts a server, and waits until it answers.
    fn run(&mut self, at: usize) -> Result<(), String> {
        let log = fs::File::options()
            .append(true)
            .create(true)
            .open(format!("{}/log", self.home(at)))
            .map_err(|error| error.to_string())?;
        let (program, data) = (self.programs.join("postgres"), self.data(at));
        let program = program.display().to_string();
        // In a namespace of processes, a kill ends all processes of the server.
        let contain = ["unshare", "--pid", "--fork", "--kill-child=KILL"].map(str::to_owned);
        let words: Vec<_> = contain
            .into_iter()
            .chain(self.as_user())
            .chain([program, "-D".into(), data])
            .collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let mut command = self.servers[at].space.command(&words);
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        command
            .current_dir(self.home(at))
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        self.servers[at].process = Some(command.spawn().map_err(|error| error.to_string())?);
        let begun = Instant::now();
        while self.query(at, "SELECT 1").is_err() {
            if begun.elapsed() > LIMIT {
                return Err(format!(
                    "server {at} does not answer; see {}/log",
                    self.home(at)
                ));
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Returns the folders in `/proc` of the processes of a server.
    fn processes(&self, at: usize) -> impl Iterator<Item = PathBuf> {
        let data = fs::canonicalize(self.data(at)).ok();
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all = all.map(|process| process.path());
        all.filter(move |process| {
            let cwd = fs::read_link(process.join("cwd")).ok();
            cwd.is_some() && cwd == data
        })
    }

    /// Makes a standby out of a copy of the primary.
    fn copy(&mut self, at: usize) -> Result<(), String> {
        let data = self.data(at);
        let _ = fs::remove_dir_all(&data);
        let from = self.servers[self.primary].space.address.clone();
        self.tool(
            at,
            "pg_basebackup",
            &[
                "-c", "fast", "-h", &from, "-U", "postgres", "-D", &data, "-X", "stream",
            ],
        )?;
        self.follow(at)?;
        self.run(at)
    }

    /// Makes a stopped server a standby of the primary.
    fn follow(&self, at: usize) -> Result<(), String> {
        let data = self.data(at);
        let primary = &self.servers[self.primary].space.address;
        let settings = format!(
            "primary_conninfo='host={primary} user=postgres application_name=s{at} connect_timeout=3 \
             keepalives_idle=2 keepalives_interval=1 keepalives_count=3'\n"
        );
        fs::write(format!("{data}/postgresql.auto.conf"), settings)
            .map_err(|error| error.to_string())?;
        fs::write(format!("{data}/standby.signal"), "").map_err(|error| error.to_string())
    }

    /// Asks a server through its own socket, which no cut of the network reaches.
    fn query(&self, at: usize, query: &str) -> Result<String, String> {
        let home = self.home(at);
        self.tool(at, "psql", &["-h", &home, "-U", "postgres", "-Atc", query])
    }

    /// Kills the primary, and makes the standby with more of its log the new one, as a program for failover does. The others
    /// become its standbys.
    fn fail_over(&mut self) -> Result<(), String> {
        let (old, standbys) = (self.primary, servers::Servers::standbys(self)?);
        servers::Servers::kill(self, old);
        let has = |at: &usize| {
            let query = "SELECT pg_wal_lsn_diff(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0')::bigint";
            Ok::<_, String>((self.query(*at, query)?.parse::<u64>().unwrap_or(0), *at))
        };
        // What has been received is replayed first.
        sleep(Duration::from_secs(1));
        let have = standbys.iter().map(has).collect::<Result<Vec<_>, _>>()?;
        let (_, best) = have.into_iter().max().ok_or("no standby")?;
        self.query(best, "SELECT pg_promote()")?;
        self.primary = best;
        for at in standbys.into_iter().filter(|at| *at != best) {
            servers::Servers::kill(self, at);
            self.follow(at)?;
            self.run(at)?;
        }
        self.copy(old)
    }
}

impl servers::Servers for Servers {
    fn config(&self) -> String {
        let hosts: Vec<_> = self
            .servers
            .iter()
            .map(|server| &*server.space.address)
            .collect();
        format!(
            "host={} user=postgres target_session_attrs=read-write connect_timeout=2 tcp_user_timeout=4000 \
             keepalives_idle=2 keepalives_interval=1 keepalives_retries=3",
            hosts.join(",")
        )
    }

    fn space(&self, at: usize) -> &Space {
        &self.servers[at].space
    }

    fn primary(&self) -> Result<usize, String> {
        Ok(self.primary)
    }

    fn kill(&mut self, at: usize) {
        if let Some(mut process) = self.servers[at].process.take() {
            signal(&process, "KILL");
            let _ = process.wait();
            // Its processes end a little later. Until then they hold memory that the next start refuses to share.
            let begun = Instant::now();
            while self.processes(at).next().is_some() && begun.elapsed() < LIMIT {
                sleep(Duration::from_millis(10));
            }
        }
    }

    fn restart(&mut self, at: usize) -> Result<(), String> {
        self.run(at)
    }

    fn promote(&mut self) -> Option<Result<(), String>> {
        Some(self.fail_over())
    }

    fn committer_of(&self, client: &Space) -> Result<Option<u32>, String> {
        let query = format!(
            "SELECT pid FROM pg_stat_activity WHERE client_addr = '{}' \
             AND (query = 'COMMIT' OR query LIKE '%INSERT INTO fom_slot_log%')",
            client.address
        );
        let found = self.query(self.primary, &query)?;
        let inner = |process: &Path| {
            // The number in this namespace of processes, and the one in that of the server.
            let status = fs::read_to_string(process.join("status")).ok()?;
            let numbers = status
                .lines()
                .find_map(|line| line.strip_prefix("NSpid:"))?;
            Some(numbers.split_whitespace().nth(1)?.to_owned())
        };
        let is_it = |process: &Path| {
            inner(process).is_some_and(|number| found.lines().any(|one| one == number))
        };
        let process = self.processes(self.primary).find(|process| is_it(process));
        Ok(process.and_then(|process| process.file_name()?.to_str()?.parse().ok()))
    }

    fn rows(&self) -> Option<Result<String, String>> {
        Some(self.query(self.primary, ROWS))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for at in 0..self.servers.len() {
            servers::Servers::kill(self, at);
        }
    }
}

fn append(path: &str, text: &str) -> Result<(), String> {
    use std::io::Write as _;
    let file = fs::File::options().append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| format!("{path}: {error}"))
}
