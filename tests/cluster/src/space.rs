//! Network namespaces: one for each process, and a bridge between them.

use std::{
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
};

/// Runs a program to its end.
///
/// # Errors
///
/// Fails with what the program has printed.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<String, String> {
    let ran = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output();
    let ran = ran.map_err(|error| format!("{program}: {error}"))?;
    match ran.status.success() {
        true => Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned()),
        false => Err(format!(
            "{program} {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&ran.stderr).trim()
        )),
    }
}

fn ip(args: &str) -> Result<String, String> {
    run("ip", &args.split(' ').collect::<Vec<_>>())
}

/// A bridge and the namespaces at it. They end with this value.
#[derive(Debug)]
pub(crate) struct Net {
    prefix: String,
    spaces: Vec<Space>,
}

/// A namespace with one address.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    pub(crate) name: String,
    /// The name of its port at the bridge.
    port: String,
    pub(crate) address: String,
}

impl Net {
    /// Makes namespaces with these names.
    ///
    /// # Errors
    ///
    /// Fails if this process may not make namespaces, or the system has none for time.
    pub(crate) fn new(names: &[&str]) -> Result<Self, String> {
        let mut net = Self {
            prefix: format!("fom{}", std::process::id()),
            spaces: Vec::new(),
        };
        // The processes have clocks of their own, and those of a server a namespace of processes.
        run("unshare", &["--time", "--pid", "--fork", "true"])?;
        let bridge = net.bridge();
        ip(&format!("netns add {bridge}"))?;
        ip(&format!("-n {bridge} link add br0 type bridge"))?;
        ip(&format!("-n {bridge} link set br0 up"))?;
        for (at, name) in (1..).zip(names) {
            let space = Space {
                name: format!("{}-{name}", net.prefix),
                port: format!("p{at}"),
                address: format!("10.77.0.{at}"),
            };
            let Space {
                name,
                port,
                address,
            } = &space;
            ip(&format!("netns add {name}"))?;
            net.spaces.push(space.clone());
            ip(&format!(
                "-n {name} link add e0 type veth peer name {port} netns {bridge}"
            ))?;
            ip(&format!("-n {name} addr add {address}/24 dev e0"))?;
            ip(&format!("-n {name} link set lo up"))?;
            ip(&format!("-n {name} link set e0 up"))?;
            ip(&format!("-n {bridge} link set {port} master br0 up"))?;
        }
        Ok(net)
    }

    fn bridge(&self) -> String {
        format!("{}-bridge", self.prefix)
    }

    pub(crate) fn spaces(&self) -> &[Space] {
        &self.spaces
    }

    /// Cuts a namespace from all others, or joins it again.
    pub(crate) fn cut(&self, space: &Space, is_cut: bool) -> Result<(), String> {
        let (bridge, port) = (self.bridge(), &space.port);
        let how = if is_cut { "nomaster" } else { "master br0" };
        ip(&format!("-n {bridge} link set {port} {how}")).map(drop)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for space in &self.spaces {
            let _ = ip(&format!("netns del {}", space.name));
        }
        let _ = ip(&format!("netns del {}", self.bridge()));
    }
}

impl Space {
    /// Drops each packet from this namespace to the other one, or sends them again.
    pub(crate) fn mute(&self, to: &Self, is_mute: bool) -> Result<(), String> {
        let how = if is_mute { "add" } else { "del" };
        ip(&format!(
            "-n {} route {how} blackhole {}/32",
            self.name, to.address
        ))
        .map(drop)
    }

    /// Ends all connections to another namespace on this side.
    pub(crate) fn disconnect(&self, from: &Self) -> Result<(), String> {
        ip(&format!(
            "netns exec {} ss -K -tn dst {}",
            self.name, from.address
        ))
        .map(drop)
    }

    /// Returns a command that runs in this namespace, in a group of its own. It ends with the thread that starts it.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            &self.name,
            "setpriv",
            "--pdeathsig",
            "KILL",
        ]);
        command.args(words);
        command.process_group(0);
        command
    }
}

/// Sends a signal to all processes of a group.
pub(crate) fn signal(group: &Child, signal: &str) {
    // The group may have ended.
    let _ = run(
        "kill",
        &[&format!("-{signal}"), "--", &format!("-{}", group.id())],
    );
}
