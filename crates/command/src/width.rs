//! The width that a command's tables may have.

use std::io::IsTerminal;
use std::os::fd::AsRawFd;

use clap::Args;
use guest::terminal;

/// The width of a terminal that does not tell its own.
const USUAL: usize = 100;

/// The option that shows tables in full.
#[derive(Args, Clone, Copy)]
pub struct Width {
    /// Show tables in full, however wide
    ///
    /// Without this option, tables fit the terminal, or COLUMNS if standard output is not a terminal: shapes are
    /// shortened, columns left out and texts cut. If neither gives a width, tables are shown in full.
    #[arg(long)]
    wide: bool,
}

impl Width {
    /// The most characters of a table's line.
    pub fn columns(self) -> usize {
        if self.wide {
            return usize::MAX;
        }
        let variable = || std::env::var("COLUMNS").ok()?.trim().parse().ok().filter(|columns| *columns > 0);
        let output = std::io::stdout();
        match output.is_terminal() {
            true => terminal::columns(output.as_raw_fd()).or_else(variable).unwrap_or(USUAL),
            false => variable().unwrap_or(usize::MAX),
        }
    }
}
