//! The graph API of the real cuDNN through `libucudnn.so`, which needs no GPU to plan: what we do not split answers as
//! without us, and what we split tells a workspace that its micro-batches fit in.
//!
//! Runs where `UCUDNN_TEST_REAL_CUDNN` names the folder that holds the real `libcudnn.so.9`, which the loader's search
//! path must find too (`scripts/test-real.sh`). The scripts are those that hostdnn is held against the real library by.

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
#[path = "../programs/mod.rs"]
mod programs;
#[allow(dead_code)] // hostdnn's tests use the rest
#[path = "../../hostdnn/tests/real_graph/script.rs"]
mod script;
mod transparent;
