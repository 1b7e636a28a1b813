//! Links `libucudnn_solver.so`: sets its soname, and the folders to search first for GLPK and GLPK's dependencies:
//! beside the library, and the folder `ucudnn` beside it, where they are installed.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libucudnn_solver.so");
    // The old kind of tag: the new one, DT_RUNPATH, does not apply to dependencies of dependencies.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN:$ORIGIN/ucudnn,--disable-new-dtags");
}
