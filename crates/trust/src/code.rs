//! The process's code on disk: the program, the libraries that it has loaded, and who can change them.

use std::ffi::{CStr, OsString, c_int, c_void};
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::mappings::Mappings;

/// A library in the process.
struct Library {
    /// The name that the dynamic linker was given.
    name: OsString,
    /// Where its first part is mapped; 0 if nothing is.
    address: usize,
}

fn libraries() -> Vec<Library> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, libraries: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr passes a valid record, whose name is null or a C string and whose headers are as many
        // as it says, and passes on the vector that the call below hands it.
        unsafe {
            let info = &*info;
            if info.dlpi_name.is_null() {
                return 0;
            }
            let name = OsString::from_vec(CStr::from_ptr(info.dlpi_name).to_bytes().to_vec());
            let headers = match info.dlpi_phdr.is_null() {
                true => &[],
                false => std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()),
            };
            let first = headers.iter().find(|header| header.p_type == libc::PT_LOAD);
            let address = first.map_or(0, |first| info.dlpi_addr.wrapping_add(first.p_vaddr) as usize);
            (*libraries.cast::<Vec<Library>>()).push(Library { name, address });
        }
        0
    }
    let mut libraries = Vec::<Library>::new();
    // SAFETY: `note` expects a `Vec<Library>`, and this call passes one that outlives it.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut libraries).cast()) };
    libraries
}

/// How many libraries the process has ever loaded.
pub fn loaded_so_far() -> u64 {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, loaded: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr passes a valid record, and passes on the number that the call below hands it.
        unsafe { *loaded.cast::<u64>() = (*info).dlpi_adds };
        1 // no other record is wanted
    }
    let mut loaded = 0_u64;
    // SAFETY: `first` expects a `u64`, and this call passes one that outlives it.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut loaded).cast()) };
    loaded
}

/// The names that the dynamic linker knows the process's libraries by. A name opens its library again, but need not be a
/// path: the kernel's library (`linux-vdso.so.1`) is no file, the program's name is empty, and a relative name may belong
/// to a folder that the program has left.
pub fn loaded_names() -> Vec<OsString> {
    libraries().into_iter().map(|library| library.name).collect()
}

/// The absolute paths among [`loaded_names`].
pub fn loaded_files() -> Vec<OsString> {
    loaded_names().into_iter().filter(|name| Path::new(name).is_absolute()).collect()
}

/// Returns whether a user or a group can change the process's code already: the program, a library that it has loaded,
/// or a folder that holds one of them.
///
/// A name counts only if it is absolute and still leads to the file that was loaded. Others could make a file of any
/// other name: in the working directory, or in a sticky folder where the library was removed.
pub fn is_changed_by(is_who: impl Fn(&Metadata) -> bool) -> bool {
    of_program().iter().chain(&of_libraries()).any(is_who)
}

fn of_program() -> Vec<Metadata> {
    // The kernel leads to the program itself, whatever its path means by now.
    let path = Path::new("/proc/self/exe");
    let Ok(program) = fs::metadata(path) else { return Vec::new() };
    let folder = File::of(path).filter(|file| same(&file.file, &program)).map(|file| file.folder);
    [Some(program), folder].into_iter().flatten().collect()
}

fn of_libraries() -> Vec<Metadata> {
    let named = |library: Library| Some((library.address, File::of(Path::new(&library.name))?));
    let files: Vec<_> = libraries().into_iter().filter_map(named).collect();
    // This is read last: what the table says afterwards was so when the files were looked at.
    let Ok(mappings) = Mappings::read() else { return Vec::new() };
    let is_loaded = |(address, file): &(usize, File)| mappings.file(*address) == Some(&file.path);
    files.into_iter().filter(is_loaded).flat_map(|(_, file)| [file.file, file.folder]).collect()
}

/// A file, and the folder that holds it.
struct File {
    /// The real path.
    path: PathBuf,
    file: Metadata,
    folder: Metadata,
}

impl File {
    /// The file that an absolute path leads to now.
    fn of(path: &Path) -> Option<Self> {
        let path = path.is_absolute().then(|| fs::canonicalize(path).ok())??;
        let (file, folder) = (fs::metadata(&path).ok()?, fs::metadata(path.parent()?).ok()?);
        Some(Self { path, file, folder })
    }
}

fn same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;
    use crate::tests::{Scratch, skip};

    /// Returns whether whoever can change this file or folder counts.
    fn counts(path: &Path) -> bool {
        let wanted = fs::metadata(path).unwrap();
        is_changed_by(|code| same(code, &wanted))
    }

    /// Loads a library for good, by this name.
    fn load(name: &str) {
        let name = CString::new(name).unwrap();
        // SAFETY: `name` is a C string, and the library is a copy of one that the process has loaded.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null(), "{name:?} does not load");
    }

    /// Puts a real library in the place of the scratch folder's library.
    fn make_library(scratch: &Scratch) {
        let files = loaded_files();
        let real = files.iter().find(|file| file.to_string_lossy().contains("libgcc_s")).unwrap();
        fs::copy(real, scratch.library()).unwrap();
    }

    /// Gives the calling thread a working directory of its own. Returns false, and says so, if a sandbox forbids it.
    fn has_own_working_directory() -> bool {
        // SAFETY: the call only separates the thread's directories and mask of rights from those of other threads.
        let is_apart = unsafe { libc::unshare(libc::CLONE_FS) } == 0;
        if !is_apart {
            skip("unshare is forbidden here");
        }
        is_apart
    }

    #[test]
    fn who_owns_the_program_changes_its_code() {
        let program = fs::metadata("/proc/self/exe").unwrap();
        assert!(is_changed_by(|code| code.uid() == program.uid()));
        assert!(!is_changed_by(|code| code.uid() == 65534));
        let program = std::env::current_exe().unwrap();
        assert!(counts(&program) && counts(program.parent().unwrap()));
        assert!(!counts(&std::env::temp_dir()));
    }

    #[test]
    fn who_owns_a_library_changes_the_code_until_the_library_is_removed() {
        let scratch = Scratch::new("removed");
        make_library(&scratch);
        assert!(!counts(&scratch.library()));
        load(scratch.library().to_str().unwrap());
        assert!(counts(&scratch.library()) && counts(scratch.library().parent().unwrap()));
        // Another file in its place, which anybody can make in a sticky folder.
        fs::remove_file(scratch.library()).unwrap();
        fs::write(scratch.library(), "").unwrap();
        assert!(!counts(&scratch.library()) && !counts(scratch.library().parent().unwrap()));
    }

    /// In a sticky folder, a group's members cannot replace what others own.
    #[test]
    fn a_group_changes_the_code_in_a_folder_that_is_not_sticky() {
        let (code, others) = (Scratch::new("code"), Scratch::new("group-s"));
        for scratch in [&code, &others] {
            if std::os::unix::fs::chown(scratch.0.join("lib/inner"), None, Some(65533)).is_err() {
                return skip("only root gives folders to any group");
            }
        }
        make_library(&code);
        load(code.library().to_str().unwrap());
        others.set("lib/inner", 0o775);
        code.set("lib/inner", 0o1775);
        assert!(crate::file(&others.library()).unwrap_err().contains("other users can write to "));
        code.set("lib/inner", 0o775);
        assert_eq!(crate::file(&others.library()), Ok(others.library()));
    }

    #[test]
    fn a_file_of_the_vdso_s_name_counts_for_nobody() {
        let names = loaded_names();
        let relative: Vec<_> = names.iter().map(Path::new).filter(|name| !name.is_absolute()).collect();
        assert!(relative.contains(&Path::new("")), "the program's own name is empty: {relative:?}");
        let scratch = Scratch::new("vdso");
        if !has_own_working_directory() {
            return;
        }
        std::env::set_current_dir(&scratch.0).unwrap();
        for name in relative.into_iter().filter(|name| !name.as_os_str().is_empty()) {
            fs::write(name, "").unwrap();
            assert!(!counts(name), "{name:?}");
        }
        assert!(!counts(&scratch.0));
    }

    #[test]
    fn a_relative_name_counts_for_nobody() {
        let (scratch, other) = (Scratch::new("relative"), Scratch::new("other"));
        make_library(&scratch);
        if !has_own_working_directory() {
            return;
        }
        std::env::set_current_dir(&scratch.0).unwrap();
        let name = "lib/inner/library.so";
        load(name);
        assert!(loaded_names().iter().any(|loaded| loaded == name));
        assert!(!loaded_files().iter().any(|loaded| loaded == name));
        assert!(!counts(&scratch.library()));
        // The name means a file of another folder now.
        std::env::set_current_dir(&other.0).unwrap();
        assert!(!counts(&other.library()) && !counts(other.library().parent().unwrap()));
    }

    #[test]
    fn files_are_absolute() {
        let files = loaded_files();
        assert!(files.iter().any(|file| file.to_string_lossy().contains("libc.so")));
        assert!(files.iter().all(|file| Path::new(file).is_absolute()), "{files:?}");
    }
}
