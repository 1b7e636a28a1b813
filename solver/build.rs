//! Links `libucudnn_solver.so`: its soname, and that GLPK and what GLPK needs are looked for beside it first.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libucudnn_solver.so");
    // The old kind of tag, since the new one, DT_RUNPATH, does not hold for the dependencies of dependencies.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN,--disable-new-dtags");
}
