//! Finds a command as a shell does, and says why there is none. The system's own search says "no such file" of a missing folder, a
//! missing command and a missing interpreter alike.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Access, access},
    io::Errno,
};

use crate::{Refusal, Spec};

/// Names that are tried for a fresh folder; others may be taken by those who came before, or by somebody who guesses.
const FRESH_NAMES: usize = 1_000;

/// The folder that a command runs in.
#[derive(Debug)]
pub(crate) enum Folder {
    /// One that was there before.
    Given(PathBuf),
    /// A fresh one, which is removed in the end.
    Fresh(PathBuf),
}

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Given(path) | Self::Fresh(path) => path,
        }
    }
}

/// The folder that the command shall run in.
pub(crate) fn folder(spec: &Spec) -> Result<Folder, Refusal> {
    let refuse = |error: &io::Error| Refusal::Folder(errno(error));
    let Some(directory) = &spec.directory else {
        let parent = variable(spec, "TMPDIR").unwrap_or("/tmp");
        return fresh(Path::new(parent)).map_err(|error| refuse(&error));
    };
    let path = PathBuf::from(directory);
    let is_folder = fs::metadata(&path)
        .map_err(|error| refuse(&error))?
        .is_dir();
    if !is_folder {
        return Err(Refusal::Folder(Errno::NOTDIR.raw_os_error()));
    }
    access(&path, Access::EXEC_OK).map_err(|error| Refusal::Folder(error.raw_os_error()))?;
    Ok(Folder::Given(path))
}

fn fresh(parent: &Path) -> io::Result<Folder> {
    let process = std::process::id();
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    for number in 0..FRESH_NAMES {
        let path = parent.join(format!("agentsville-{process}-{number}"));
        match builder.create(&path) {
            Ok(()) => return Ok(Folder::Fresh(path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The command's file, as an absolute path where the folder is one.
pub(crate) fn command(spec: &Spec, folder: &Path) -> Result<PathBuf, Refusal> {
    if spec.command.contains('/') {
        let path = folder.join(&spec.command);
        return executable(&path).map(|()| path);
    }
    let mut refusal = Refusal::NotFound(Errno::NOENT.raw_os_error());
    if spec.command.is_empty() {
        return Err(refusal);
    }
    // An empty entry means the folder itself (POSIX, 8.3), which nobody wants who does not say so.
    let entries = variable(spec, "PATH").unwrap_or_default().split(':');
    for entry in entries.filter(|entry| !entry.is_empty()) {
        let path = folder.join(entry).join(&spec.command);
        match executable(&path) {
            Ok(()) => return Ok(path),
            Err(found @ Refusal::NotExecutable(_)) => refusal = found,
            Err(_) => {}
        }
    }
    Err(refusal)
}

fn executable(path: &Path) -> Result<(), Refusal> {
    let metadata = fs::metadata(path).map_err(|error| {
        if error.kind() == io::ErrorKind::PermissionDenied {
            return Refusal::NotExecutable(errno(&error));
        }
        Refusal::NotFound(errno(&error))
    })?;
    if metadata.is_dir() {
        return Err(Refusal::NotExecutable(Errno::ISDIR.raw_os_error()));
    }
    access(path, Access::EXEC_OK).map_err(|error| Refusal::NotExecutable(error.raw_os_error()))
}

/// The last of several that have the same name, as the command gets it.
fn variable<'s>(spec: &'s Spec, wanted: &str) -> Option<&'s str> {
    let mut found = spec.environment.iter().rev();
    found
        .find(|(name, _)| name == wanted)
        .map(|(_, value)| value.as_str())
        .filter(|value| !value.is_empty())
}

pub(crate) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())
}
