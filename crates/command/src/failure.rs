//! How a command fails, and with which exit status.

/// How a command fails.
#[derive(Debug)]
pub enum Failure {
    /// The command line requests something impossible: exit status 2.
    Usage(String),
    /// The request could not be fulfilled: exit status 1.
    Failed(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}
