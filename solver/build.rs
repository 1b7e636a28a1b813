//! Links `libucudnn_solver.so`: its soname, and that GLPK and what GLPK needs are looked for first beside it, and in
//! the folder `ucudnn` beside it, where they are installed.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libucudnn_solver.so");
    // The old kind of tag, since the new one, DT_RUNPATH, does not hold for the dependencies of dependencies.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN:$ORIGIN/ucudnn,--disable-new-dtags");
}
