//! A PostgreSQL server for one test. It ends with the test.

use std::{
    fs,
    io::Read,
    net::TcpListener,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tokio_postgres::{Client, NoTls};

/// The longest time that a start may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns where the programs of the server are, or `None` with a message if they are not installed.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok();
    let installed = versions.into_iter().flatten().flatten();
    let mut found: Vec<_> = installed
        .map(|version| version.path().join("bin"))
        .filter(|bin| bin.join("initdb").is_file())
        .collect();
    found.sort();
    if found.is_empty() {
        eprintln!("SKIPPED: no PostgreSQL server is installed (Debian: `postgresql`)");
    }
    found.pop()
}

/// Returns the user of the server: it refuses to run as root.
fn user() -> Option<(u32, u32)> {
    let id = |what: &str, of: &[&str]| -> u32 {
        let ran = Command::new("id").arg(what).args(of).output().unwrap();
        String::from_utf8_lossy(&ran.stdout).trim().parse().unwrap()
    };
    (id("-u", &[]) == 0).then(|| (id("-u", &["postgres"]), id("-g", &["postgres"])))
}

pub(crate) struct Server {
    programs: PathBuf,
    pub(crate) directory: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Server {
    /// Returns a server without data, with an empty directory and a port.
    fn vacant(programs: PathBuf) -> Self {
        let any = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = any.local_addr().unwrap().port();
        let directory = std::env::temp_dir().join(format!("fom-postgres-{port}"));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        if let Some((user, group)) = user() {
            chown(&directory, Some(user), Some(group)).unwrap();
        }
        Self {
            programs,
            directory,
            port,
            process: None,
        }
    }

    /// Starts a server with these settings. Returns `None` if none is installed.
    pub(crate) fn start(settings: &[&str]) -> Option<Self> {
        let mut server = Self::vacant(programs()?);
        let data = server.directory.join("data");
        server.succeeds(
            "initdb",
            &["-A", "trust", "-U", "postgres", "--no-sync", "-D"],
            &data,
        );
        server.configure(&data, settings);
        server.run();
        Some(server)
    }

    /// Starts a standby of this server.
    pub(crate) fn standby(&self, name: &str) -> Self {
        let mut standby = Self::vacant(self.programs.clone());
        let from = format!(
            "host=127.0.0.1 port={} user=postgres application_name={name}",
            self.port
        );
        let data = standby.directory.join("data");
        standby.succeeds(
            "pg_basebackup",
            &["-c", "fast", "-N", "-R", "-X", "stream", "-d", &from, "-D"],
            &data,
        );
        standby.configure(&data, &[]);
        standby.run();
        standby
    }

    fn configure(&self, data: &Path, settings: &[&str]) {
        let path = data.join("postgresql.conf");
        let mut all = fs::read_to_string(&path).unwrap();
        all.push_str(&format!(
            "\nlisten_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = ''\nmax_connections = 50\n\
             shared_buffers = 16MB\n",
            self.port
        ));
        for setting in settings {
            all.push_str(setting);
            all.push('\n');
        }
        fs::write(path, all).unwrap();
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        if let Some((user, group)) = user() {
            command.uid(user).gid(group);
        }
        command.current_dir(&self.directory).stdin(Stdio::null());
        command
    }

    fn succeeds(&self, program: &str, args: &[&str], data: &Path) {
        let ran = self.command(program).args(args).arg(data).output().unwrap();
        assert!(
            ran.status.success(),
            "{program}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }

    /// Starts the process, and waits until it takes connections.
    pub(crate) fn run(&mut self) {
        let log = fs::File::create(self.directory.join("log")).unwrap();
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.directory.join("data"));
        let process = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.process = Some(process);
        let begun = Instant::now();
        loop {
            let ready = self
                .command("pg_isready")
                .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
                .status()
                .unwrap();
            if ready.success() {
                return;
            }
            assert!(
                begun.elapsed() < LIMIT,
                "the server does not start: {}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Uses TLS from now on.
    #[cfg(feature = "tls")]
    pub(crate) fn use_certificate(&mut self, certificate: &Path, key: &Path) {
        use std::os::unix::fs::PermissionsExt;

        let data = self.directory.join("data");
        for (from, to) in [(certificate, "server.crt"), (key, "server.key")] {
            let to = data.join(to);
            fs::copy(from, &to).unwrap();
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
            if let Some((user, group)) = user() {
                chown(&to, Some(user), Some(group)).unwrap();
            }
        }
        self.kill();
        self.configure(&data, &["ssl = on"]);
        self.run();
    }

    fn log(&self) -> String {
        let mut log = String::new();
        let _ = fs::File::open(self.directory.join("log"))
            .and_then(|mut file| file.read_to_string(&mut log));
        log
    }

    /// Kills the server as a power failure does, without a checkpoint.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let id = process.id().to_string();
            // SIGQUIT: the server ends its own processes, and writes nothing.
            let _ = Command::new("kill").args(["-QUIT", &id]).status();
            let _ = process.wait();
        }
    }

    /// Returns the settings of a connection.
    pub(crate) fn config(&self) -> String {
        format!(
            "host=127.0.0.1 port={} user=postgres dbname=postgres",
            self.port
        )
    }

    /// Returns the settings of a connection to one of two servers.
    pub(crate) fn config_with(&self, other: &Self) -> String {
        format!(
            "host=127.0.0.1,127.0.0.1 port={},{} user=postgres dbname=postgres",
            self.port, other.port
        )
    }

    /// Makes a standby the primary.
    pub(crate) fn promote(&self) {
        self.succeeds(
            "pg_ctl",
            &["promote", "-w", "-D"],
            &self.directory.join("data"),
        );
    }

    pub(crate) async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.config(), NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client
    }

    /// Runs SQL.
    pub(crate) async fn sql(&self, text: &str) {
        self.client().await.batch_execute(text).await.unwrap();
    }

    /// Returns the only value that a query has.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        let row = self.client().await.query_one(query, &[]).await.unwrap();
        row.get(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
