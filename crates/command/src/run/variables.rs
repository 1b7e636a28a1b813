//! One option for each environment variable of the library, generated from the library's table.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Arg, ArgMatches, Command, FromArgMatches, ValueHint};
use guest::settings::{self, Settings, VARIABLES, Variable};

use crate::Failure;

/// The variables that options set, in the table's order.
#[derive(Default)]
pub struct Variables(Vec<(&'static Variable, String)>);

/// The variables that have options. The switch has none, because it would make the command useless. The summary has
/// `--quiet`.
fn with_options() -> impl Iterator<Item = &'static Variable> {
    VARIABLES.iter().filter(|variable| ![settings::SWITCH, settings::SUMMARY].contains(&variable.name))
}

/// An option's help.
fn help(variable: &str) -> Option<&'static str> {
    Some(match variable {
        "UCUDNN_POLICY" => {
            "Plan each convolution on its own (wr), divide a total among all (wd), or hand every call to cuDNN"
        }
        "UCUDNN_BATCH_SIZE_POLICY" => "Micro-batch sizes that are tried [default: powerOfTwo]",
        "UCUDNN_WORKSPACE_LIMIT" => "The most workspace of each convolution",
        "UCUDNN_DEFAULT_WORKSPACE_LIMIT" => "The same, only where the program gives a convolution no limit of its own",
        "UCUDNN_TOTAL_WORKSPACE_SIZE" => "The most workspace of all convolutions together; selects wd",
        "UCUDNN_EXPLORE" => {
            "The most that exploring may cost of the program's time in tuned calls, besides half a second [default: 5%]"
        }
        "UCUDNN_TUNE_SECONDS" => {
            "The most time that tuning one kernel may take while the program waits, whatever exploring may"
        }
        "UCUDNN_TUNE_BYTES" => "The most memory that tuning one kernel may take",
        "UCUDNN_DATABASE" => "Where tuning results are kept [default: in the user's cache folder]",
        "UCUDNN_SEED_DATABASE" => "More tuning results, which are only read",
        "UCUDNN_BENCHMARK_DEVICES" => "Devices that tune in parallel [default: the program's own]",
        "UCUDNN_NUMERICS" => {
            "Algorithms a plan may use: of the numerical class that cuDNN runs without us, all that the program allows, \
             any, or only deterministic ones of the first [default: match]"
        }
        "UCUDNN_CHECK" => "Run each convolution undivided too, and compare",
        "UCUDNN_RNN" => {
            "Run recurrent networks' inference on our kernels where they are faster (auto), never, or wherever they can \
             [default: auto]"
        }
        "UCUDNN_RNN_TRAINING" => "Whether recurrent networks train on our kernels [default: auto]",
        "UCUDNN_RNN_TOP_K" => "How many of their configurations are compiled and timed [default: 5]",
        "UCUDNN_NORM" => {
            "Run batch normalization of channels-first tensors on our kernels where they are faster (auto), never, or \
             wherever they can [default: auto]"
        }
        "UCUDNN_TORCH" => {
            "Run PyTorch's own normalizations and depthwise convolutions, which call no cuDNN, on our kernels where they \
             are faster (auto), never, or wherever they can [default: auto]"
        }
        "UCUDNN_DYNAMIC" => {
            "What runs nets of vertex functions on a GPU: level by level (batched), in one launch each way with a number \
             of groups of blocks (persistent), or with a part left out, to measure it [default: auto]"
        }
        "UCUDNN_CUDNN_LIBRARY" => "The real cuDNN, where it is not found by itself",
        "UCUDNN_LOG" => "What is logged: warn, info, debug or any env_logger filter [default: warn]",
        "UCUDNN_REPORT" => {
            "Write what is chosen to this file, for `ucudnn report` and `ucudnn plot`; a file that is there is replaced, \
             unless --append is given"
        }
        _ => return None,
    })
}

/// The placeholder for an option's value: its values, if these are all.
fn placeholder(variable: &Variable) -> String {
    if let Some(values) = all_values(variable) {
        return values.join("|");
    }
    let has = |word| variable.values.contains(word);
    match variable.name {
        "UCUDNN_EXPLORE" => "PERCENTAGE|0|unbounded",
        "UCUDNN_BENCHMARK_DEVICES" => "0,1|all",
        _ if has("a path") && has("`off`") => "FILE|off",
        _ if has("a path") => "FILE",
        _ if has("bytes") => "SIZE",
        _ if has("seconds") => "SECONDS",
        _ if has("filter") => "FILTER",
        _ => "NUMBER",
    }
    .into()
}

/// The values of a variable that takes no others.
fn all_values(variable: &Variable) -> Option<Vec<&'static str>> {
    variable.values.split(", ").map(|value| value.strip_prefix('`')?.strip_suffix('`')).collect()
}

/// The option's name: `workspace-limit` for UCUDNN_WORKSPACE_LIMIT.
fn option(variable: &Variable) -> String {
    variable.name.trim_start_matches("UCUDNN_").to_ascii_lowercase().replace('_', "-")
}

/// Returns true for a variable that is 0 or 1: its option may stand without a value.
fn is_switch(variable: &Variable) -> bool {
    variable.values == "`0`, `1`"
}

fn is_path(variable: &Variable) -> bool {
    variable.values.contains("a path")
}

/// Returns true for a file that the library only reads: it must be there.
fn is_read(variable: &Variable) -> bool {
    [settings::CUDNN_LIBRARY, settings::SEED_DATABASE].contains(&variable.name)
}

impl clap::Args for Variables {
    fn augment_args(command: Command) -> Command {
        with_options().fold(command, |command, variable| {
            let help = format!("{} (sets {})", help(variable.name).unwrap_or("Not described yet"), variable.name);
            let arg = Arg::new(variable.name).long(option(variable)).value_name(placeholder(variable)).help(help);
            let arg = match all_values(variable) {
                Some(values) => arg.value_parser(PossibleValuesParser::new(values)),
                None => arg.value_parser(NonEmptyStringValueParser::new()),
            };
            // The placeholder shows them.
            let arg = arg.help_heading("Settings").hide_possible_values(true);
            let arg = if is_path(variable) { arg.value_hint(ValueHint::FilePath) } else { arg };
            command.arg(if is_switch(variable) {
                arg.num_args(0..=1).require_equals(true).default_missing_value("1")
            } else {
                arg
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Variables {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |variable: &'static Variable| Some((variable, matches.get_one::<String>(variable.name)?.clone()));
        Ok(Self(with_options().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Variables {
    /// Returns true if an option sets this variable.
    pub fn sets(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(variable, _)| variable.name == name).map(|(_, value)| value.as_str())
    }

    /// Refuses values that the library would only warn of: an option is typed on purpose.
    pub fn check(&self) -> Result<(), Failure> {
        let environment = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let (_, already) = Settings::read(environment);
        let (_, warnings) = Settings::read(|name| self.value(name).map(str::to_owned).or_else(|| environment(name)));
        let Some(warning) = warnings.into_iter().find(|warning| !already.contains(warning)) else { return Ok(()) };
        // The rest of the warning tells the library's fallback.
        let why = warning.rsplit_once("; ").map_or(warning.as_str(), |(why, _)| why).to_owned();
        let of = |(variable, value): &&(&Variable, String)| {
            why.contains(&format!("{}={value}", variable.name)) || why.contains(&format!("{}={value:?}", variable.name))
        };
        let option = self.0.iter().find(of).map(|(variable, _)| format!("--{}: ", option(variable)));
        Err(Failure::Usage(format!("{}{why}", option.unwrap_or_default())))
    }

    /// The variables to set. Paths become absolute, because the program may change its folder before it opens them. `Err`
    /// names a file that is to be read and is not there.
    pub fn absolute(&self) -> Result<Vec<(&'static str, OsString)>, Failure> {
        let value = |(variable, value): &(&'static Variable, String)| {
            let off = value == "off" && variable.values.contains("`off`");
            // The loader searches for a bare name.
            let bare = variable.name == settings::CUDNN_LIBRARY && !value.contains('/');
            if !is_path(variable) || off || bare {
                return Ok((variable.name, value.into()));
            }
            let path: Result<PathBuf, _> = std::path::absolute(value);
            let path = path.map_err(|error| format!("--{} {value}: {error}", option(variable)))?;
            if is_read(variable) {
                let metadata = path.metadata().map_err(|error| format!("--{} {value}: {error}", option(variable)))?;
                if !metadata.is_file() {
                    return Err(Failure::Failed(format!("--{} {value}: not a file", option(variable))));
                }
            }
            Ok((variable.name, path.into_os_string()))
        };
        self.0.iter().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;

    #[test]
    fn every_variable_has_an_option_that_explains_itself() {
        let command = Variables::augment_args(Command::new("run"));
        let options: Vec<_> = command.get_arguments().map(|arg| arg.get_id().as_str().to_owned()).collect();
        assert_eq!(options, with_options().map(|variable| variable.name.to_owned()).collect::<Vec<_>>());
        assert_eq!(options.len(), VARIABLES.len() - 2, "all but two");
        for variable in with_options() {
            assert!(help(variable.name).is_some(), "{} has no help", variable.name);
        }
    }

    fn given(arguments: &[&str]) -> Variables {
        let command = Variables::augment_args(Command::new("run").no_binary_name(true));
        Variables::from_arg_matches(&command.try_get_matches_from(arguments).unwrap()).unwrap()
    }

    #[test]
    fn options_set_their_variables() {
        let variables = given(&["--check", "--workspace-limit", "64MiB", "--report", "r.jsonl", "--database=off"]);
        assert!(variables.check().is_ok());
        let set = variables.absolute().unwrap();
        let value = |name| set.iter().find(|(set, _)| *set == name).map(|(_, value)| value.to_str().unwrap());
        assert_eq!(value("UCUDNN_CHECK"), Some("1"));
        assert_eq!(value("UCUDNN_WORKSPACE_LIMIT"), Some("64MiB"));
        assert_eq!(value("UCUDNN_DATABASE"), Some("off"));
        assert!(value("UCUDNN_REPORT").unwrap().starts_with('/'));
        assert_eq!(value("UCUDNN_POLICY"), None);
        assert_eq!(given(&["--check=0"]).value("UCUDNN_CHECK"), Some("0"));
    }

    #[test]
    fn what_the_library_would_warn_of_is_refused() {
        let refused = |arguments: &[&str]| match given(arguments).check() {
            Err(Failure::Usage(why)) => why,
            other => panic!("{other:?}"),
        };
        let why = refused(&["--workspace-limit", "lots"]);
        assert!(why.starts_with("--workspace-limit: ") && why.ends_with("if wanted"), "{why}");
        assert!(refused(&["--policy", "wd"]).contains("UCUDNN_TOTAL_WORKSPACE_SIZE"));
        assert!(given(&["--policy", "wd", "--total-workspace-size", "1GiB"]).check().is_ok());
    }
}
