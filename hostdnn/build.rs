//! Gives the library cuDNN 9's soname, so that programs linked with cuDNN find it under that name.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcudnn.so.9");
    // Calls of its own functions stay inside, even behind a preloaded library that exports the same names. It exports
    // nothing but functions. (The flag for functions alone is unknown to zig, which links the wheel's library.)
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
