//! A place where a library may be, and its opening.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use trust::Shown as _;

/// A candidate for a library that we look for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// How we came to this place, for messages.
    pub origin: &'static str,
    /// A path, or a bare name for the dynamic linker to find.
    pub file: OsString,
    /// Who chose the file.
    pub chosen: Chosen,
}

/// Who chose a file, and so whether we ask who can change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chosen {
    /// The process has loaded the library. If it has not, the place does not count.
    Loaded,
    /// The dynamic linker, or a search path that the user gave it.
    ByLinker,
    /// The user, by a setting.
    ByUser,
    /// We did, near the program. The file must be trusted.
    ByUs,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{} ({})", self.file.shown(), self.origin)
    }
}

impl Place {
    /// Loads the library, or takes the loaded one. `Err` gives the reason.
    ///
    /// # Safety
    /// The library's constructors are safe to run.
    pub unsafe fn open(&self) -> Result<Library, String> {
        let file = match self.chosen {
            Chosen::ByUs => self.trusted()?,
            _ => self.file.clone(),
        };
        let is_loaded = self.chosen == Chosen::Loaded;
        let flags = RTLD_LAZY | RTLD_LOCAL | if is_loaded { libc::RTLD_NOLOAD } else { 0 };
        // The linker reads from a pipe without end, and so the process would wait for ever.
        if self.chosen == Chosen::ByUser && Path::new(&file).metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Err("not a regular file".into());
        }
        // SAFETY: the caller vouches for the library's constructors.
        let library = unsafe { Library::open(Some(&file), flags) }.map_err(|error| match (error, is_loaded) {
            (_, true) => "not loaded in this process".to_owned(),
            (libloading::Error::DlOpen { source }, _) => source.to_string().shown().to_string(),
            (error, _) => error.to_string(),
        })?;
        if self.chosen == Chosen::ByUser
            && let Err(why) = trust::file(Path::new(&file))
        {
            log::warn!("{self} is used, but is not safe: {why}");
        }
        Ok(library)
    }

    /// The real path of a file that only the user and root can change.
    fn trusted(&self) -> Result<OsString, String> {
        let path = Path::new(&self.file);
        if !path.exists() {
            return Err("no such file".into());
        }
        trust::file(path)
            .map(Into::into)
            .inspect_err(|why| log::warn!("{self} is passed over, as it is not safe: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_others_can_change_is_passed_over_but_where_the_user_names_it() {
        let folder = std::env::temp_dir().join(format!("ucudnn-place-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("library.so"), "no library").unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o757)).unwrap();
        let place = |chosen| Place { origin: "a test", file: folder.join("library.so").into(), chosen };
        // SAFETY: the file is no library, so it has no constructors.
        let why = |chosen| unsafe { place(chosen).open() }.err().unwrap();
        assert!(why(Chosen::ByUs).contains("other users can write to "), "{}", why(Chosen::ByUs));
        for chosen in [Chosen::ByUser, Chosen::ByLinker] {
            assert!(why(chosen).contains("file too short"), "{}", why(chosen));
        }
        assert_eq!(why(Chosen::Loaded), "not loaded in this process");
        fs::remove_dir_all(&folder).unwrap();
    }
}
