//! The data directory: made for this user alone, and never taken from anybody.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use crate::Error;

/// Files that say that a directory is a Village's: the lock, a database that was restored from a copy, and what a Village on PostgreSQL keeps.
const OURS: [&str; 4] = [
    "agentsville.lock",
    "agentsville.db",
    "operator.token",
    "root.secret",
];
/// Permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Makes the directory if it is missing, and closes it to everybody but its owner (0700). It blocks on the disk.
///
/// A directory that was there before is closed only if it is empty or a Village's already: closing `/tmp` or a home would lock out
/// whoever else uses it.
///
/// # Errors
/// [`Error::NotOurs`] for such a directory and for one of another user; [`Error::DataDir`] when the disk refuses.
pub fn prepare_data_dir(directory: &Path) -> Result<(), Error> {
    let failed = |source| Error::DataDir {
        path: directory.to_owned(),
        source,
    };
    let not_ours = |why| Error::NotOurs {
        path: directory.to_owned(),
        why,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(failed)?;
    let found = fs::metadata(directory).map_err(failed)?;
    let user = rustix::process::geteuid().as_raw();
    if found.uid() != user {
        return Err(not_ours("belongs to another user"));
    }
    if found.mode() & OTHERS == 0 {
        return Ok(());
    }
    if !is_empty(directory).map_err(failed)? && !is_a_villages(directory, user) {
        return Err(not_ours(
            "is open to others and holds what is not a Village's",
        ));
    }
    fs::set_permissions(directory, Permissions::from_mode(0o700)).map_err(failed)
}

fn is_empty(directory: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(directory)?.next().is_none())
}

/// A mark counts only if it is this user's: in a directory that everybody writes to, anybody can lay one.
fn is_a_villages(directory: &Path, user: u32) -> bool {
    OURS.iter().any(|name| {
        fs::symlink_metadata(directory.join(name))
            .is_ok_and(|mark| mark.is_file() && mark.uid() == user)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn opened(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_of_others_is_refused_and_keeps_its_mode() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("letter"), "dear").unwrap();
        opened(home.path(), 0o1777);
        let refused = prepare_data_dir(home.path()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "{} cannot be the data directory: it is open to others and holds what is not a Village's, and closing it (0700) would lock them out; set AGENTSVILLE__DATA_DIR to a directory of its own",
                home.path().display()
            )
        );
        assert_eq!(mode(home.path()), 0o1777);
    }

    #[test]
    fn an_empty_directory_and_a_villages_own_are_closed() {
        let home = tempfile::tempdir().unwrap();
        opened(home.path(), 0o755);
        prepare_data_dir(home.path()).unwrap();
        assert_eq!(mode(home.path()), 0o700);
        for mark in OURS {
            let home = tempfile::tempdir().unwrap();
            fs::write(home.path().join(mark), "").unwrap();
            opened(home.path(), 0o755);
            prepare_data_dir(home.path()).unwrap();
            assert_eq!(mode(home.path()), 0o700, "{mark}");
        }
    }

    #[test]
    fn a_mark_that_is_a_link_makes_no_directory_a_villages() {
        let home = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/proc/self/status", home.path().join("agentsville.lock"))
            .unwrap();
        opened(home.path(), 0o777);
        prepare_data_dir(home.path()).unwrap_err();
        assert_eq!(mode(home.path()), 0o777);
    }

    #[test]
    fn a_missing_directory_is_made_closed_and_a_closed_one_is_taken_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let inner = home.path().join("a/b");
        prepare_data_dir(&inner).unwrap();
        assert_eq!(mode(&inner), 0o700);
        fs::write(inner.join("letter"), "dear").unwrap();
        prepare_data_dir(&inner).unwrap();
        assert_eq!(mode(&inner), 0o700);
    }
}
