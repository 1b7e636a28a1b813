//! The files that the kernel has mapped into this process, by address.
//!
//! The dynamic linker only knows the name that it was given for a library. That name may be relative to a folder that
//! the program has left, or lead to another file by now. The kernel knows the full path of the file itself.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MAPS: &str = "/proc/self/maps";

/// The kernel's table of mappings.
pub struct Mappings(Vec<u8>);

impl Mappings {
    /// Reads the table. `Err` names it.
    pub fn read() -> Result<Self, String> {
        fs::read(MAPS).map(Self).map_err(|error| format!("{MAPS}, which names the process's files: {error}"))
    }

    /// The paths of all files. A file with several mappings comes several times.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.split(|&byte| byte == b'\n').filter_map(path)
    }

    /// The path of the file at an address. ` (deleted)` stands behind the path of a file that was removed.
    pub fn file(&self, address: usize) -> Option<&Path> {
        self.0.split(|&byte| byte == b'\n').find_map(|line| mapped(line, address))
    }
}

/// The file in a line of the table, if `address` is in its mapping.
fn mapped(line: &[u8], address: usize) -> Option<&Path> {
    let range = std::str::from_utf8(line.split(|&byte| byte == b' ').next()?).ok()?;
    let (begin, end) = range.split_once('-')?;
    let range = usize::from_str_radix(begin, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    path(line).filter(|_| range.contains(&address))
}

/// The path in a line of the table.
fn path(line: &[u8]) -> Option<&Path> {
    Some(Path::new(OsStr::from_bytes(&line[line.iter().position(|&byte| byte == b'/')?..])))
}

/// Returns the path of the file that is mapped at an address, as the kernel knows it: absolute, with ` (deleted)` behind
/// it if the file was removed. `Err` says why there is none.
pub fn file_at(address: usize) -> Result<PathBuf, String> {
    let mappings = Mappings::read()?;
    let file = mappings.file(address).ok_or_else(|| format!("{MAPS} names no file at {address:#x}"))?;
    Ok(file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_the_file_of_an_address() {
        let own = file_at as *const () as usize;
        assert_eq!(file_at(own).unwrap(), std::env::current_exe().unwrap());
        assert!(Mappings::read().unwrap().files().any(|file| file == std::env::current_exe().unwrap()));
        assert!(file_at(0).unwrap_err().contains("no file at 0x0"));
        let line = b"7f00-7fff r-xp 00000000 08:01 42      /a folder/libucudnn.so";
        assert_eq!(mapped(line, 0x7f80), Some(Path::new("/a folder/libucudnn.so")));
        assert_eq!(mapped(line, 0x7fff), None);
        assert_eq!(mapped(b"7f00-7fff rw-p 00000000 00:00 0", 0x7f80), None);
        assert_eq!(mapped(b"7f00-7fff r-xp 00000000 00:00 0      [vdso]", 0x7f80), None);
    }
}
