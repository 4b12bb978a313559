//! The socket that clients connect to.

use std::{
    fs, io,
    net::SocketAddr,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use tokio::net::{TcpListener, UnixListener};

use super::{connection::Conn, guard::Io};
use crate::{
    address::{Address, Bound, Target},
    error::StartError,
};

/// A socket that was bound to, and not yet part of an async runtime.
pub(crate) struct Listening {
    pub(crate) bound: Bound,
    socket: Socket,
}

enum Socket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, SocketFile),
}

/// A socket that accepts connections.
pub(crate) struct Listener {
    socket: Accepts,
    /// Removed with the listener.
    _file: Option<SocketFile>,
}

enum Accepts {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listening {
    /// Binds to an address.
    pub(crate) fn bind(address: &Address) -> Result<Self, StartError> {
        let failed = |source| StartError::Bind {
            address: address.to_string(),
            source,
        };
        match address.resolve()? {
            Target::Tcp(to) => {
                let socket = std::net::TcpListener::bind(to).map_err(failed)?;
                socket.set_nonblocking(true).map_err(failed)?;
                Ok(Self {
                    bound: Bound::Tcp(socket.local_addr().map_err(failed)?),
                    socket: Socket::Tcp(socket),
                })
            }
            Target::Unix(path) => {
                check(&path)?;
                let (socket, file) = private(&path).map_err(failed)?;
                socket.set_nonblocking(true).map_err(failed)?;
                Ok(Self {
                    bound: Bound::Unix(path),
                    socket: Socket::Unix(socket, file),
                })
            }
        }
    }

    /// Begins to listen in the async runtime of this thread.
    pub(crate) fn listen(self) -> io::Result<Listener> {
        let (socket, file) = match self.socket {
            Socket::Tcp(socket) => (Accepts::Tcp(TcpListener::from_std(socket)?), None),
            Socket::Unix(socket, file) => {
                (Accepts::Unix(UnixListener::from_std(socket)?), Some(file))
            }
        };
        let _file = file;
        Ok(Listener { socket, _file })
    }
}

impl Listener {
    pub(super) async fn accept(&self) -> io::Result<(Box<dyn Io>, Conn)> {
        match &self.socket {
            Accepts::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                let local: Option<SocketAddr> = stream.local_addr().ok();
                // Messages of the stream are short, and shall arrive at once.
                let _ = stream.set_nodelay(true);
                Ok((Box::new(stream), Conn::new(local, peer.to_string())))
            }
            Accepts::Unix(socket) => {
                let (stream, _) = socket.accept().await?;
                let user = stream.peer_cred().map(|peer| peer.uid());
                let peer = user.map_or_else(|_| "unix".into(), |user| format!("user {user}"));
                Ok((Box::new(stream), Conn::new(None, peer)))
            }
        }
    }
}

/// Refuses a path that has a file, unless it is the socket of a program that has ended.
fn check(path: &Path) -> Result<(), StartError> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    let reason = if !found.file_type().is_socket() {
        "a file is there that is no socket"
    } else if std::os::unix::net::UnixStream::connect(path).is_ok() {
        "a running program listens there"
    } else {
        return Ok(());
    };
    let path = path.into();
    Err(StartError::PathInUse { path, reason })
}

/// Binds to a path that only this user reaches. The socket gets its mode in a directory of its own, and moves to its place then.
fn private(path: &Path) -> io::Result<(std::os::unix::net::UnixListener, SocketFile)> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let directory = Directory::new(parent)?;
    let place = directory.0.join("s");
    let socket = std::os::unix::net::UnixListener::bind(&place)?;
    fs::set_permissions(&place, fs::Permissions::from_mode(0o600))?;
    fs::rename(&place, path)?;
    let found = fs::symlink_metadata(path)?;
    let file = SocketFile {
        path: path.into(),
        id: (found.dev(), found.ino()),
    };
    Ok((socket, file))
}

/// A directory that only this user reaches, while it is needed.
struct Directory(PathBuf);

impl Directory {
    fn new(parent: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;

        let process = std::process::id();
        let mut number = 0;
        loop {
            let path = parent.join(format!(".{process}.{number}"));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 100 => {
                    number += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The file of a Unix socket. It is removed when this is dropped, unless another file is at its path.
pub(crate) struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
