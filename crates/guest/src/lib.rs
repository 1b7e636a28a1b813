//! The needs of a library in someone else's process: settings from the environment, the program's request for
//! determinism, logging, the report's file, a summary at the end, the terminal, threads that end before the process does, signals left
//! to the program, writes that may fail, room in memory, the libraries that the process has loaded, and objects by
//! handle.
#![warn(missing_docs)]

pub mod background;
pub mod determinism;
pub mod handles;
pub mod kept_sizes;
pub mod libraries;
pub mod loaded;
pub mod process_end;
pub mod ranks;
pub mod refusal;
pub mod report;
pub mod room;
pub mod settings;
pub mod signals;
pub mod summary;
pub mod terminal;
#[cfg(feature = "testing")]
pub mod testing;
pub mod writes;
