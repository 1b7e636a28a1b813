//! How a command fails, and with which exit status.

/// How a command fails.
#[derive(Debug)]
pub enum Failure {
    /// The command line requests something impossible: exit status 2.
    Usage(String),
    /// The request could not be fulfilled: exit status 1.
    Failed(String),
    /// A program was not found: exit status 127, as of a shell.
    NotFound(String),
    /// A program was found and cannot be run: exit status 126, as of a shell.
    NotRunnable(String),
}

impl Failure {
    /// The message, and the exit status.
    pub fn told(self) -> (String, u8) {
        match self {
            Self::Failed(why) => (why, 1),
            Self::Usage(why) => (why, 2),
            Self::NotRunnable(why) => (why, 126),
            Self::NotFound(why) => (why, 127),
        }
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}
