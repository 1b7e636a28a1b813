//! Links `libucudnn.so`: its soname; that its functions call each other without asking the dynamic linker, which may put
//! another library's function of the same name in their place; and that `dlclose` never unloads it, since its threads,
//! exit handlers and open files stay. (The flag for functions alone is unknown to zig, which links the wheel's library.
//! The library exports nothing but functions.)
//!
//! zig would also put an unwinder of its own into the library. A C++ exception that passes the library's frames would
//! then meet two unwinders that do not know each other's data. `LIBGCC_S` names the system's, which comes first.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libucudnn.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-env-changed=LIBGCC_S");
    if let Ok(file) = std::env::var("LIBGCC_S") {
        println!("cargo::rustc-cdylib-link-arg={file}");
    }
}
