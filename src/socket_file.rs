//! A unix socket's name in the file system: made when it is bound, and removed when it stops listening.
//!
//! A file that a dead program has left behind is removed first. One at which somebody listens, or that is
//! no socket, is left alone, at the begin and at the end.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// Who may connect: whoever may write to the file (unix(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The permissions, as in chmod(1); without one, what the umask leaves.
    pub mode: Option<u32>,
    /// User and group whom it belongs to, if not those who make it.
    pub owner: Option<(u32, u32)>,
}

/// The name of a bound socket. It is removed when this is dropped, if it still is that socket's: drop it
/// before the socket, since only an open one keeps its inode number from being given to another.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

/// A socket bound to `path`, that does not block and does not listen yet: until it does nobody can
/// connect, so its file has the right mode and owner before anybody can use it.
///
/// # Errors
/// `EADDRINUSE` if somebody listens there, a sentence if something else is there, and what bind(2),
/// chown(2) and chmod(2) say. Two programs that start in the same instant may both find the file of a
/// third one left behind, and the later one then takes the name.
pub fn bind(path: &Path, access: Access) -> io::Result<(Socket, SocketFile)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    let address = SockAddr::unix(path)?;
    if let Err(error) = socket.bind(&address) {
        if error.raw_os_error() != Some(libc::EADDRINUSE) || !is_left_behind(path, &address)? {
            return Err(error);
        }
        fs::remove_file(path)?;
        socket.bind(&address)?;
    }
    let file = SocketFile { path: path.to_owned(), identity: identity(path)? };
    if let Some((user, group)) = access.owner {
        lchown(path, Some(user), Some(group))?;
    }
    if let Some(mode) = access.mode {
        fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
    }
    Ok((socket, file))
}

/// Whether the file at `path` is that of a socket at which nobody listens.
fn is_left_behind(path: &Path, address: &SockAddr) -> io::Result<bool> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::other("what is there is no socket"));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Whoever listens and is behind with accepting must not hold us.
    probe.set_nonblocking(true)?;
    match probe.connect(address) {
        Err(error) => match error.raw_os_error() {
            Some(libc::ECONNREFUSED) => Ok(true),
            // A full queue, or a socket of another type.
            Some(libc::EAGAIN | libc::EPROTOTYPE) => Ok(false),
            _ => Err(error),
        },
        Ok(()) => Ok(false),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            // Whom we have become may not be allowed to; the next start finds it left behind.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(path: &Path) -> (Socket, SocketFile) {
        bind(path, Access::default()).unwrap()
    }

    #[test]
    fn the_name_goes_with_the_socket_and_only_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let (_socket, file) = bound(&path);
        assert!(path.exists());
        drop(file);
        assert!(!path.exists());

        // Somebody has taken the name.
        let (_socket, file) = bound(&path);
        fs::remove_file(&path).unwrap();
        let (_other_socket, _other) = bound(&path);
        drop(file);
        assert!(path.exists(), "it is another's");
        let (_socket, file) = bound(&dir.path().join("second"));
        fs::remove_file(dir.path().join("second")).unwrap();
        fs::write(dir.path().join("second"), "a file").unwrap();
        drop(file);
        assert!(dir.path().join("second").exists(), "it is another's");
    }

    #[test]
    fn only_a_socket_at_which_nobody_listens_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let refusal = || bind(&path, Access::default()).map(|_| ()).unwrap_err();
        let (socket, file) = bound(&path);
        socket.listen(0).unwrap();
        assert_eq!(refusal().raw_os_error(), Some(libc::EADDRINUSE));
        // Also when its queue is full.
        let waiting: Vec<_> =
            (0..2).map(|_| Socket::new(Domain::UNIX, Type::STREAM, None).unwrap()).collect();
        for client in &waiting {
            client.set_nonblocking(true).unwrap();
            let _ = client.connect(&SockAddr::unix(&path).unwrap()); // The last one finds it full.
        }
        assert_eq!(refusal().raw_os_error(), Some(libc::EADDRINUSE));
        // Its program dies.
        std::mem::forget(file);
        drop((socket, waiting));
        assert!(path.exists());
        drop(bound(&path));

        let datagrams = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        assert_eq!(refusal().raw_os_error(), Some(libc::EADDRINUSE));
        drop(datagrams);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "a file").unwrap();
        assert_eq!(refusal().to_string(), "what is there is no socket");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(refusal().to_string(), "what is there is no socket");
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert_eq!(refusal().to_string(), "what is there is no socket");
    }

    #[test]
    fn the_mode_is_the_one_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o600, 0o660, 0o666, 0o777, 0o000] {
            let path = dir.path().join("socket");
            let (_socket, _file) = bind(&path, Access { mode: Some(mode), owner: None }).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
        }
    }
}
