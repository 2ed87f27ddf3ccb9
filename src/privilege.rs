//! Giving up root: `--user`, and what no program of ours may ever gain.
//!
//! The whole program becomes the user before it starts another thread or serves a byte, and it is
//! checked that there is no way back.

use std::ffi::CString;
use std::io;

use nix::errno::Errno;
use nix::unistd::{self, Gid, Group, Uid, User};
use rustix::thread::{capabilities, set_no_new_privs};

use crate::failure::{Failure, cause};

/// A user as it is typed: `NAME[:GROUP]`, each a name or a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    typed: String,
    user: String,
    group: Option<String>,
}

impl Named {
    /// What was typed behind `--user`.
    ///
    /// # Errors
    /// A sentence naming the value, the cause and what to try.
    pub fn parse(typed: &str) -> Result<Self, Failure> {
        let (user, group) = match typed.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (typed, None),
        };
        let is_name = |name: &str| !name.is_empty() && !name.contains([':', '/', '\0']);
        if !is_name(user) || group.is_some_and(|group| !is_name(group)) {
            let cause = "this is no name of a user, nor one and a group";
            return Err(Failure::usage(format!("--user '{typed}': {cause} (try NAME or NAME:GROUP)")));
        }
        Ok(Self { typed: typed.to_owned(), user: user.to_owned(), group: group.map(str::to_owned) })
    }

    /// Looks up who that is.
    ///
    /// # Errors
    /// A sentence naming the value, and who is not there or is root.
    pub fn identity(&self) -> Result<Identity, Failure> {
        let refuse = |cause: &str, way: &str| refusal(&self.typed, cause, way);
        let unreadable = |error: Errno| refuse(&cause(&error.into()), "try numbers, as in 65534:65534");
        let number = |text: &str| text.parse::<u32>().ok().filter(|_| !text.starts_with('+'));
        let entry = match (User::from_name(&self.user).map_err(unreadable)?, number(&self.user)) {
            (None, Some(uid)) => User::from_uid(Uid::from_raw(uid)).map_err(unreadable)?,
            (entry, _) => entry,
        };
        let user = match (&entry, number(&self.user)) {
            (Some(entry), _) => entry.uid,
            (None, Some(uid)) => Uid::from_raw(uid),
            (None, None) => return Err(refuse("there is no such user", "name one of /etc/passwd")),
        };
        let group = match (&self.group, &entry) {
            (Some(name), _) => match (Group::from_name(name).map_err(unreadable)?, number(name)) {
                (Some(group), _) => group.gid,
                (None, Some(gid)) => Gid::from_raw(gid),
                (None, None) => return Err(refuse("there is no such group", "name one of /etc/group")),
            },
            (None, Some(entry)) => entry.gid,
            (None, None) => {
                let way = format!("name one, as in {0}:{0}", self.user);
                return Err(refuse("a user without an entry has no group", &way));
            }
        };
        // In setresuid(2) and setresgid(2) the last number stands for no change.
        if user.as_raw() == u32::MAX || group.as_raw() == u32::MAX {
            return Err(refuse("this number is nobody's", "try 65534:65534"));
        }
        if user.is_root() || group.as_raw() == 0 {
            return Err(refuse("this is root or root's group, which is what to give up", "name another"));
        }
        let name = entry.and_then(|entry| CString::new(entry.name).ok());
        Ok(Identity { typed: self.typed.clone(), name, user, group })
    }
}

/// A user and a group, by their numbers; never root.
#[derive(Clone, Debug)]
pub struct Identity {
    typed: String,
    /// The name under which the user's further groups are looked up.
    name: Option<CString>,
    user: Uid,
    group: Gid,
}

impl Identity {
    /// The numbers of user and group.
    pub fn numbers(&self) -> (u32, u32) {
        (self.user.as_raw(), self.group.as_raw())
    }

    /// Makes this process that user's, in that group and the user's further ones (initgroups(3)).
    ///
    /// # Errors
    /// A sentence with what the system said, or that there is a way back.
    pub fn assume(&self) -> Result<(), Failure> {
        let refuse = |cause: &str| refusal(&self.typed, cause, "start it as root, or leave out --user");
        let (user, group) = (self.user, self.group);
        // Groups first: afterwards nobody may change them.
        let assumed = match &self.name {
            Some(name) => unistd::initgroups(name, group),
            None => unistd::setgroups(&[group]),
        };
        let assumed = assumed
            .and_then(|()| unistd::setresgid(group, group, group))
            .and_then(|()| unistd::setresuid(user, user, user));
        assumed.map_err(|error| refuse(&cause(&error.into())))?;
        if has_way_back(user, group) {
            return Err(refuse("there is a way back to root"));
        }
        Ok(())
    }
}

/// Whether this process is more than `user` and `group`, or can become more.
fn has_way_back(user: Uid, group: Gid) -> bool {
    let root = (Uid::from_raw(0), Gid::from_raw(0));
    let is_user = unistd::getresuid().is_ok_and(|ids| [ids.real, ids.effective, ids.saved] == [user; 3]);
    let is_group = unistd::getresgid().is_ok_and(|ids| [ids.real, ids.effective, ids.saved] == [group; 3]);
    let is_in_roots = unistd::getgroups().map_or(true, |groups| groups.contains(&root.1));
    let has_capabilities = capabilities(None).map_or(true, |sets| !sets.permitted.is_empty());
    // Last, since they would succeed.
    !is_user
        || !is_group
        || is_in_roots
        || has_capabilities
        || unistd::setresuid(root.0, root.0, root.0).is_ok()
        || unistd::setresgid(root.1, root.1, root.1).is_ok()
}

fn refusal(typed: &str, cause: &str, way: &str) -> Failure {
    Failure::refused(format!("cannot become --user '{typed}': {cause} ({way})"))
}

/// Whether this process is root's.
pub fn is_root() -> bool {
    unistd::geteuid().is_root()
}

/// From now on nothing that this process executes has more privileges than itself: PR_SET_NO_NEW_PRIVS,
/// prctl(2).
///
/// # Errors
/// A sentence with what the system said.
pub fn renounce() -> Result<(), Failure> {
    set_no_new_privs(true).map_err(|error| {
        let cause = cause(&io::Error::from(error));
        Failure::refused(format!("cannot renounce new privileges: {cause} (it takes Linux 3.5)"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_user_is_refused() {
        for typed in ["", ":", ":group", "user:", "a:b:c", "a/b", "user:a/b"] {
            let failure = Named::parse(typed).unwrap_err();
            assert!(failure.to_string().contains(&format!("--user '{typed}'")), "{failure}");
            assert_eq!(failure.status(), 2);
        }
    }

    #[test]
    fn who_is_not_there_or_is_root_is_refused() {
        for (typed, part) in [
            ("no-such-user", "no such user"),
            ("65534:no-such-group", "no such group"),
            ("3999999999", "has no group"),
            ("4294967295:1", "nobody's"),
            ("1:4294967295", "nobody's"),
            ("4294967296", "no such user"),
            ("root", "root"),
            ("0", "root"),
            ("0:65534", "root"),
            ("65534:0", "root"),
            ("65534:root", "root"),
        ] {
            let failure = Named::parse(typed).unwrap().identity().unwrap_err();
            let sentence = failure.to_string();
            assert!(
                sentence.contains(&format!("--user '{typed}': ")) && sentence.contains(part),
                "{sentence}"
            );
            assert_eq!(failure.status(), 1);
        }
        let identity = Named::parse("3999999999:3999999998").unwrap().identity().unwrap();
        assert_eq!(identity.numbers(), (3999999999, 3999999998));
    }
}
