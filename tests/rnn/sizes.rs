//! The reported sizes.

use super::program_with;
use crate::hostdnn::seed;

/// Equal questions get equal answers for a process's whole life: a program may ask at any time, and keep an answer.
#[test]
fn equal_questions_get_equal_answers() {
    let program = program_with("rnn_sizes", &["rnn_train.c"]);
    let database = program.file("tuning.sqlite");
    let (seed, database) = (seed().to_string(), database.to_str().unwrap());
    let arguments = [seed.as_str(), "10000"];
    let known = ("UCUDNN_DATABASE", database);
    let forced = [("UCUDNN_RNN", "force"), ("UCUDNN_RNN_TRAINING", "force")];
    program.plain(&arguments, &[]);
    // The second process knows what the first one timed.
    for variables in [&[known][..], &[known], &[known, forced[0], forced[1], ("UCUDNN_RNN_TOP_K", "1")]] {
        program.preloaded(&arguments, variables);
    }
}
