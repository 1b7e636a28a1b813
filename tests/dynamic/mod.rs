//! Vertex nets of `ucudnn.h`, by C programs that link `libucudnn.so`.

mod example;
