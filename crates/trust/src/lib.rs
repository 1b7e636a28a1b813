//! Which files the library may load or believe in someone else's process: those that only the user, root and whoever can
//! change the process's code already can change. (A cluster's Python often belongs to a user for installations, and its
//! folders to a group. A name that is not absolute makes nobody one of these, for others can make a file of that name in
//! the working directory.)
//!
//! A folder is *safe* if one of these owns it and nobody else can write to it. A file is trusted if it is safe in
//! the same sense, and all folders of its real path are. A sticky folder such as `/tmp` may lie further up the path,
//! since others cannot rename or remove what the user owns there. The folder that holds the file may not be sticky:
//! others can add files to it.
//!
//! The check goes from the root of the file system down. So the folders above a path cannot be exchanged once they are
//! checked, and nobody but these can make another file of the real path that the check returns.
//!
//! [`Shown`] is how paths stand in messages.
#![warn(missing_docs)]

mod code;
mod mappings;
mod shown;

pub use shown::{Escaped, Shown};

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub use code::{loaded_files, loaded_names, loaded_so_far};
pub use mappings::{Mappings, file_at};

/// True if the process has more rights than the user who started it (`AT_SECURE`): a program that is setuid, setgid or
/// has capabilities. Such a process takes no orders from the user's environment.
pub fn has_more_rights_than_its_user() -> bool {
    // SAFETY: `getauxval` only reads a table that the kernel made at the process's start.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns the real path of a file to load, if the file is trusted. `Err` says which part of the path is not safe.
pub fn file(path: &Path) -> Result<PathBuf, String> {
    let real = fs::canonicalize(path).map_err(|error| error.to_string())?;
    folders(real.parent().unwrap_or(&real))?;
    let metadata = fs::symlink_metadata(&real).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("not a regular file".into());
    }
    safe(&real, &metadata, false)?;
    Ok(real)
}

/// Returns the real path of a folder that holds files to trust, if the folder and those above it are safe. `Err` says
/// which is not.
pub fn folder(path: &Path) -> Result<PathBuf, String> {
    let real = fs::canonicalize(path).map_err(|error| error.to_string())?;
    folders(&real)?;
    Ok(real)
}

/// Opens a file of a folder that [`folder`] returned, for reading. The descriptor is checked: it must be a regular file,
/// and safe.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    safe(path, &metadata, false).map_err(io::Error::other)?;
    Ok(file)
}

/// Checks a real path of folders, from the root down.
fn folders(real: &Path) -> Result<(), String> {
    let mut downwards: Vec<_> = real.ancestors().collect();
    downwards.reverse();
    for folder in downwards {
        let metadata = fs::symlink_metadata(folder).map_err(|error| format!("{}: {error}", folder.shown()))?;
        if !metadata.is_dir() {
            return Err(format!("{} is not a folder", folder.shown()));
        }
        safe(folder, &metadata, folder != real)?;
    }
    Ok(())
}

/// `Err` if somebody else owns this or can write to it.
fn safe(path: &Path, metadata: &Metadata, may_be_sticky: bool) -> Result<(), String> {
    // SAFETY: both functions only return a number, and never fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let (path, owner, mode) = (path.shown(), metadata.uid(), metadata.mode());
    if owner != user && owner != 0 && !code::is_changed_by(|code| code.uid() == owner) {
        return Err(format!("another user (number {owner}) owns {path}"));
    }
    // A group with its user's number is that user's alone, by the custom of all distributions.
    let gid = metadata.gid();
    let is_safe_group = || {
        // In a sticky folder, a group can only change what its members own.
        let writes = |code: &Metadata| code.gid() == gid && code.mode() & (libc::S_ISVTX | 0o020) == 0o020;
        gid == 0 || (gid == group && group == user) || code::is_changed_by(writes)
    };
    let others_write = mode & 0o002 != 0 || (mode & 0o020 != 0 && !is_safe_group());
    let is_sticky = mode & libc::S_ISVTX != 0 && may_be_sticky;
    if others_write && !is_sticky {
        return Err(format!("other users can write to {path} (mode {:03o})", mode & 0o7777));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::Permissions;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A folder of this test's own, which the test may let others write to.
    pub struct Scratch(pub PathBuf);

    impl Scratch {
        pub fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("ucudnn-trust-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(folder.join("lib/inner")).unwrap();
            let scratch = Self(fs::canonicalize(&folder).unwrap());
            scratch.set(".", 0o755);
            scratch.set("lib", 0o755);
            scratch.set("lib/inner", 0o755);
            fs::write(scratch.library(), "").unwrap();
            scratch.set("lib/inner/library.so", 0o644);
            scratch
        }

        pub fn library(&self) -> PathBuf {
            self.0.join("lib/inner/library.so")
        }

        pub fn set(&self, path: &str, mode: u32) {
            fs::set_permissions(self.0.join(path), Permissions::from_mode(mode)).unwrap();
        }
    }

    /// Reports, past the capture of output, that the running test is skipped.
    pub fn skip(why: &str) {
        let thread = std::thread::current();
        let _ = writeln!(io::stderr(), "SKIPPED {}: {why}", thread.name().unwrap_or("a test"));
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_users_own_file_is_trusted_below_a_sticky_folder_too() {
        let scratch = Scratch::new("own");
        assert_eq!(file(&scratch.library()), Ok(scratch.library()));
        scratch.set("lib", 0o1777);
        assert_eq!(file(&scratch.library()), Ok(scratch.library()));
        open(&scratch.library()).unwrap();
    }

    #[test]
    fn a_path_that_others_can_change_is_named() {
        let cases = [("lib", 0o757), ("lib/inner", 0o757), ("lib/inner", 0o1777), ("lib/inner/library.so", 0o646)];
        for (path, mode) in cases {
            let scratch = Scratch::new("others");
            scratch.set(path, mode);
            let why = file(&scratch.library()).unwrap_err();
            let expected = format!("other users can write to {} (mode {mode:o})", scratch.0.join(path).display());
            assert_eq!(why, expected);
        }
        let scratch = Scratch::new("others");
        scratch.set("lib/inner/library.so", 0o646);
        assert!(open(&scratch.library()).unwrap_err().to_string().contains("other users can write"));
    }

    /// The path that a program names may lead elsewhere.
    #[test]
    fn links_are_followed_before_the_check() {
        let scratch = Scratch::new("links");
        let link = scratch.0.join("link.so");
        symlink(scratch.library(), &link).unwrap();
        assert_eq!(file(&link), Ok(scratch.library()));
        assert!(open(&link).is_err(), "a link in the place of a file is followed");
        scratch.set("lib", 0o757);
        assert!(file(&link).is_err());
    }

    #[test]
    fn other_users_files_are_not_trusted() {
        let scratch = Scratch::new("owner");
        if std::os::unix::fs::chown(scratch.library(), Some(65534), None).is_err() {
            return skip("only root gives files away");
        }
        let why = file(&scratch.library()).unwrap_err();
        assert_eq!(why, format!("another user (number 65534) owns {}", scratch.library().display()));
        assert!(open(&scratch.library()).is_err());
        std::os::unix::fs::chown(scratch.0.join("lib"), Some(65534), None).unwrap();
        assert_eq!(
            folder(&scratch.0.join("lib/inner")),
            Err(format!("another user (number 65534) owns {}", scratch.0.join("lib").display()))
        );
    }

    /// A group that can change neither the program nor a library of the process cannot be let in by a folder.
    #[test]
    fn folders_of_other_groups_are_not_trusted() {
        let scratch = Scratch::new("group");
        if std::os::unix::fs::chown(scratch.0.join("lib"), None, Some(65534)).is_err() {
            return skip("only root gives folders to any group");
        }
        assert_eq!(file(&scratch.library()), Ok(scratch.library()));
        scratch.set("lib", 0o775);
        let why = format!("other users can write to {} (mode 775)", scratch.0.join("lib").display());
        assert_eq!(file(&scratch.library()), Err(why));
    }

    /// Opening a pipe that nobody writes to would wait for ever.
    #[test]
    fn pipes_and_folders_are_no_files() {
        let scratch = Scratch::new("pipe");
        let pipe = scratch.0.join("pipe");
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: `name` is a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert_eq!(file(&pipe), Err("not a regular file".into()));
        assert_eq!(open(&pipe).unwrap_err().to_string(), "not a regular file");
        assert_eq!(file(&scratch.0.join("lib")), Err("not a regular file".into()));
    }

    #[test]
    fn this_process_has_its_users_rights() {
        assert!(!has_more_rights_than_its_user());
    }
}
