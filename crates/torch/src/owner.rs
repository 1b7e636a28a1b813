//! Whose kernel runs an operator: a kernel of a third library's stays.

use std::ffi::CStr;

use super::dispatcher::{Dispatcher, OperatorName, SHORT};
use super::libtorch::Libtorch;

/// The place in a source that has put a kernel for an operator and a key where PyTorch's own was. `None` if it is
/// PyTorch's, if there is none, or if this libtorch does not tell. The operator's name has its namespace.
pub fn other_owner(torch: &Libtorch, operator: &CStr, key: &str) -> Option<String> {
    let Dispatcher { singleton, find, dump } = torch.dispatcher?;
    let name = OperatorName::borrowed(operator);
    // SAFETY: the functions are libtorch's. An operator's entry lives as long as the operator, which PyTorch never removes.
    // Who registers a kernel of this operator at the same moment, in another thread, is not waited for.
    let state = unsafe {
        let found = find(singleton(), &name);
        if !found.is_there {
            return None;
        }
        dump(found.entry)
    };
    // What the dispatcher tells takes several lines.
    if state.size <= SHORT {
        return None;
    }
    // SAFETY: C++'s operator new has made a long text, which is ours.
    let text = unsafe {
        let bytes = std::slice::from_raw_parts(state.data.cast::<u8>(), state.size);
        let text = String::from_utf8_lossy(bytes).into_owned();
        (torch.delete)(state.data.cast_mut().cast());
        text
    };
    other_place(&text, key).map(str::to_owned)
}

/// Reads what the dispatcher tells of an operator: a line for each key, `CUDA: registered at FILE:LINE :: …`. PyTorch's own
/// kernels come from files that are made for their key. A line that reads otherwise counts as another's.
fn other_place<'a>(state: &'a str, key: &str) -> Option<&'a str> {
    let of_key = |line: &'a str| line.strip_prefix(key)?.strip_prefix(": ");
    let place = state.lines().find_map(of_key)?.split(" :: ").next()?;
    let place = place.strip_prefix("registered at ").unwrap_or(place);
    let (_, file) = place.rsplit_once(&format!("aten/src/ATen/Register{key}")).unwrap_or_default();
    // `_0.cpp:16637`, or without a number of the file.
    let is_pytorchs = file.trim_start_matches(|sign: char| sign == '_' || sign.is_ascii_digit()).starts_with(".cpp:");
    (!is_pytorchs).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_others_are_told_from_pytorchs() {
        let state = "name: aten::f\n\
            CPU: registered at /home/me/mine.py:5 :: (none) [ boxed ]\n\
            CPU (inactive): registered at /build/aten/src/ATen/RegisterCPU_1.cpp:3625 :: (Tensor _0) -> () [ boxed ]\n\
            CUDA: registered at /build/aten/src/ATen/RegisterCUDA_0.cpp:16637 :: (Tensor _0) -> () [ boxed unboxed ]\n\
            Meta: registered at aten/src/ATen/RegisterMeta.cpp:1 :: (Tensor _0) -> () [ boxed unboxed ]\n\
            XPU: registered at /plugin/csrc/RegisterXPU_0.cpp:7 :: (Tensor _0) -> () [ boxed unboxed ]\n\
            MPS: registered at /build/aten/src/ATen/RegisterMPS_mine.py:7 :: (none) [ boxed ]\n\
            HPU: my kernels :: (none) [ boxed ]\n";
        let of = |key| other_place(state, key);
        assert_eq!([of("CUDA"), of("Meta"), of("VE")], [None; 3], "nobody has a kernel for the last one");
        assert_eq!(of("CPU"), Some("/home/me/mine.py:5"));
        assert_eq!(of("XPU"), Some("/plugin/csrc/RegisterXPU_0.cpp:7"), "a plugin's, which is made likewise");
        assert_eq!(of("MPS"), Some("/build/aten/src/ATen/RegisterMPS_mine.py:7"));
        assert_eq!(of("HPU"), Some("my kernels"));
    }
}
