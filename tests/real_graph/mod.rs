//! The graph API of the real cuDNN through `libucudnn.so`; planning needs no GPU. Graphs that are not split answer as
//! without the library, and graphs that are split report a workspace that their micro-batches fit in.
//!
//! Runs if `UCUDNN_TEST_REAL_CUDNN` names the folder of the real `libcudnn.so.9`, which the loader's search path must
//! find too (`scripts/test-real.sh`). The scripts are those that compare hostdnn with the real library.

#[allow(dead_code)] // hostdnn's tests use the rest
#[path = "../../hostdnn/tests/real_graph/attributes.rs"]
mod attributes;
#[path = "../../hostdnn/tests/real_graph/backend.rs"]
mod backend;
mod children;
mod families;
#[allow(dead_code)] // hostdnn's tests use the rest
#[path = "../../hostdnn/tests/real_graph/graphs.rs"]
mod graphs;
#[path = "../../hostdnn/tests/real_graph/mutations.rs"]
mod mutations;
mod networks;
mod normalization;
#[allow(dead_code)] // hostdnn's tests use the rest
#[path = "../../hostdnn/tests/real_graph/script.rs"]
mod script;
mod transparent;
