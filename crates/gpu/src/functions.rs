//! Tables of C functions that are found at run time.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use libloading::os::unix::Library;

/// Declares `struct Functions`. A row gives a field, the function's name in its library, and its type.
macro_rules! functions {
    ($(
        $(#[$comment:meta])*
        $field:ident = $name:literal: fn($($argument:ty),* $(,)?) $(-> $result:ty)?;
    )*) => {
        struct Functions {
            $($(#[$comment])* $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Finds each function by its name. `Err` says which one is missing.
            ///
            /// # Safety
            /// The functions have the types in the table.
            unsafe fn of(
                find: impl Fn(&std::ffi::CStr) -> Option<std::ptr::NonNull<std::ffi::c_void>>,
            ) -> Result<Self, String> {
                let find = |name: &std::ffi::CStr| find(name).ok_or_else(|| format!("it has no {}", name.to_string_lossy()));
                Ok(Self {$(
                    $field: {
                        type Function = unsafe extern "C" fn($($argument),*) $(-> $result)?;
                        // SAFETY: the caller promises this type.
                        unsafe { std::mem::transmute::<std::ptr::NonNull<std::ffi::c_void>, Function>(find($name)?) }
                    },
                )*})
            }
        }
    };
}
pub(crate) use functions;

/// Finds functions in a library.
pub fn in_library(library: &Library) -> impl Fn(&CStr) -> Option<NonNull<c_void>> {
    |name| {
        // SAFETY: the symbol is only used as an address.
        let symbol = unsafe { library.get::<*mut c_void>(name.to_bytes_with_nul()) };
        NonNull::new(*symbol.ok()?)
    }
}
