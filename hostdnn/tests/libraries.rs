//! hostdnn and the real cuDNN, loaded side by side for the tests that compare them.

use crate::built;
use libloading::Library;
use std::ffi::{c_int, c_void};
use std::path::Path;

pub type Desc = *mut c_void;
pub type Ints = *const c_int;
pub type Out = *mut c_int;

/// Declares a struct with functions of one library.
macro_rules! api {
    ($api:ident: $($name:ident($($type:ty),*) -> $result:ty;)*) => {
        /// Functions of one of the two libraries.
        #[allow(non_snake_case)]
        pub struct $api {
            $(pub $name: unsafe extern "C" fn($($type),*) -> $result,)*
            _library: libloading::Library,
        }

        impl $api {
            pub fn open(path: &std::path::Path) -> Self {
                // SAFETY: the constructors of cuDNN and hostdnn need nothing of the process.
                let library = unsafe { libloading::Library::new(path) };
                let library = library.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                // SAFETY: cuDNN declares the functions with these types.
                unsafe {
                    Self { $($name: *library.get(concat!(stringify!($name), "\0")).unwrap(),)* _library: library }
                }
            }
        }
    };
}
pub(crate) use api;

/// Both libraries, hostdnn first. `None`, and a skipped test, without the real one.
pub fn both<Api>(open: impl Fn(&Path) -> Api) -> Option<[Api; 2]> {
    let Some(folder) = std::env::var_os("UCUDNN_TEST_REAL_CUDNN") else {
        built::skip("UCUDNN_TEST_REAL_CUDNN is not set: no real cuDNN to compare with");
        return None;
    };
    let paths = [built::library(), Path::new(&folder).join("libcudnn.so.9")];
    let apis = paths.each_ref().map(|path| open(path));
    // SAFETY: the libraries are loaded already.
    let [ours, real] = paths.map(|path| unsafe { Library::new(path) }.unwrap());
    let address = |library: &Library, name: &str| {
        // SAFETY: the symbol is only looked up, never used.
        unsafe { library.get::<*const ()>(name) }.ok().map(|symbol| *symbol)
    };
    let marked = [&ours, &real].map(|library| address(library, "hostdnnGetVersion\0").is_some());
    assert_eq!(marked, [true, false], "the two libraries are not hostdnn and another");
    assert_ne!(address(&ours, "cudnnCreate\0"), address(&real, "cudnnCreate\0"), "the two libraries are one");
    Some(apis)
}
