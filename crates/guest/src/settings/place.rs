//! The path of the user's database. Our other files on disk lie beside it.

use std::ffi::OsString;
use std::path::PathBuf;

use super::Database;

/// Returns the file that a setting names; `None` for `off`. The user's cache folder is `$XDG_CACHE_HOME`, or
/// `~/.cache`. `Err` says why there is none.
pub fn place(setting: &Database, lookup: impl Fn(&str) -> Option<OsString>) -> Result<Option<PathBuf>, String> {
    match setting {
        Database::Off => Ok(None),
        Database::Path(path) => Ok(Some(path.clone())),
        Database::User => {
            // The XDG base directory specification ignores relative paths.
            let folder = |name| lookup(name).map(PathBuf::from).filter(|path| path.is_absolute());
            let cache = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
            let cache = cache.ok_or("neither XDG_CACHE_HOME nor HOME names a folder for the tuning database")?;
            Ok(Some(cache.join("ucudnn").join("tuning.sqlite")))
        }
    }
}
