//! The version of the code that runs nets on a GPU.

use ucudnn_dynamic::{version, version_of};

/// A change of one line in one of the kernels that are made changes the version.
#[test]
fn what_is_made_for_nets_is_a_part_of_the_version() {
    let changed = version_of(&|text| text.replacen("path_backward", "path_back", 1));
    assert_eq!(version(), version());
    assert_ne!(version(), changed);
}
