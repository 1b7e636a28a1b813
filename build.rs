//! Links `libucudnn.so`: its soname; that its functions call each other without asking the dynamic linker, which may put
//! another library's function of the same name in their place; and that `dlclose` never unloads it, since its threads,
//! exit handlers and open files stay.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libucudnn.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
