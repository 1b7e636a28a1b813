//! `ucudnn completions` and `ucudnn man`: what an installation gives to shells and to `man`, made from the options.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::Failure;
use crate::output;
use trust::Shown as _;

/// Print a shell's completions of this command
///
/// The shell reads the text at its start: `source <(ucudnn completions bash)`, or a file in its folder of completions.
#[derive(Args)]
#[command(after_help = "Examples:\n\n  \
    ucudnn completions bash > ucudnn.bash\n  \
    ucudnn completions zsh > _ucudnn\n  \
    ucudnn completions fish > ucudnn.fish")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// Write the manual pages of this command and of its subcommands
#[derive(Args)]
#[command(after_help = "Examples:\n\n  \
    ucudnn man > ucudnn.1\n  \
    ucudnn man share/man/man1")]
pub struct Manual {
    /// The folder for all pages, which is made if it is missing [default: the first page, to standard output]
    folder: Option<PathBuf>,
}

pub fn completions(options: &Completions, mut command: Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut command, "ucudnn", &mut text);
    output::write(|output| output.write_all(&text))
}

pub fn manual(options: &Manual, command: Command) -> Result<(), Failure> {
    let Some(folder) = &options.folder else {
        let mut text = Vec::new();
        Man::new(command).render(&mut text).map_err(|error| error.to_string())?;
        return output::write(|output| output.write_all(&text));
    };
    let failed = |error| format!("{}: {error}", folder.shown());
    std::fs::create_dir_all(folder).map_err(failed)?;
    Ok(clap_mangen::generate_to(command, folder).map_err(failed)?)
}
