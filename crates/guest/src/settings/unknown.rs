//! Variables that begin with `UCUDNN_` and are no settings.

use std::ffi::OsStr;

use super::{FAULT, VARIABLES};

/// Settings begin with this.
const PREFIX: &str = "UCUDNN_";
/// Our tests' variables begin with this. The library ignores them in silence.
const TESTS: &str = "UCUDNN_TEST_";

/// Returns a warning for each name of a variable that begins with `UCUDNN_` and is no setting. It says the nearest
/// setting's name.
pub fn warnings(names: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Vec<String> {
    let mut unknown: Vec<_> = names
        .into_iter()
        .map(|name| name.as_ref().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(PREFIX) && !name.starts_with(TESTS) && name != FAULT)
        .filter(|name| VARIABLES.iter().all(|variable| variable.name != name))
        .collect();
    unknown.sort_unstable();
    unknown.iter().map(|name| format!("{name} is not a setting, and is ignored. Is {} meant?", nearest(name))).collect()
}

/// The variable whose name takes the fewest edits.
fn nearest(name: &str) -> &'static str {
    let edits = |known: &&str| strsim::damerau_levenshtein(known, name);
    VARIABLES.iter().map(|variable| variable.name).min_by_key(edits).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_variable_is_a_warning_with_the_nearest_name() {
        let names =
            ["UCUDNN_WORKSPACE_LIMTI", "UCUDNN_NUMERIC", "UCUDNN_RNN", "UCUDNN_FAULT", "UCUDNN_TEST_SEED", "PATH"];
        assert_eq!(
            warnings(names),
            [
                "UCUDNN_NUMERIC is not a setting, and is ignored. Is UCUDNN_NUMERICS meant?",
                "UCUDNN_WORKSPACE_LIMTI is not a setting, and is ignored. Is UCUDNN_WORKSPACE_LIMIT meant?",
            ]
        );
    }
}
