//! `c10::Dispatcher`, which knows the kernels of each operator, and the C++ types that its functions take and return.

use std::ffi::{CStr, c_char, c_void};

/// libstdc++'s `std::string`. A short one lies in the string itself.
#[repr(C)]
pub struct CppString {
    pub data: *const c_char,
    pub size: usize,
    capacity: [usize; 2],
}

/// The longest text that lies in a string itself.
pub const SHORT: usize = 15;

/// `c10::OperatorName`.
#[repr(C)]
pub struct OperatorName {
    name: CppString,
    overload: CppString,
}

/// libstdc++'s `std::optional<c10::OperatorHandle>`. A handle begins with a pointer to the operator's entry.
#[repr(C)]
pub struct OptionalHandle {
    pub entry: *const c_void,
    in_list: *const c_void,
    pub is_there: bool,
}

/// Functions of `c10::Dispatcher`. Each result is so large that both processors return it where the caller says.
#[derive(Clone, Copy)]
pub struct Dispatcher {
    /// `c10::Dispatcher::realSingleton()`.
    pub singleton: unsafe extern "C" fn() -> *mut c_void,
    /// `c10::Dispatcher::findSchema(const OperatorName&)`.
    pub find: unsafe extern "C" fn(*mut c_void, &OperatorName) -> OptionalHandle,
    /// `c10::impl::OperatorEntry::dumpState() const`.
    pub dump: unsafe extern "C" fn(*const c_void) -> CppString,
}

impl OperatorName {
    /// The name of an operator without overloads, with its namespace. It is valid as long as the text is.
    pub fn borrowed(operator: &CStr) -> Self {
        let string = |text: &CStr| {
            let size = text.count_bytes();
            CppString { data: text.as_ptr(), size, capacity: [size, 0] }
        };
        Self { name: string(operator), overload: string(c"") }
    }
}
