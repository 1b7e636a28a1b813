//! Links `libucudnn.so`: its soname, and that its functions call each other without asking the dynamic linker, which may
//! put another library's function of the same name in their place.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libucudnn.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
}
