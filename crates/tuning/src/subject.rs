//! The trait of a tuned problem.

use std::fmt::{Debug, Display};
use std::hash::Hash;

use serde_json::Value;

/// A problem over a mini-batch that can be split into micro-batches, each run by an algorithm of the subject's kind.
/// Equal subjects cost the same. `Display` is for people.
pub trait Subject: Clone + PartialEq + Display + Send + Sync {
    /// A way to compute a micro-batch. `Display` gives cuDNN's name for it.
    type Algorithm: Copy + Eq + Hash + Debug + Display + Send + Sync;
    /// A set of algorithms that may be used. Classes that print alike are equal.
    type Class: Copy + Eq + Hash + Display + Send + Sync;
    /// The version of our engines, if any may run beside cuDNN's algorithms. A new version gives a search new answers.
    const ENGINES: Option<&str> = None;

    /// Images in the mini-batch.
    fn batch(&self) -> usize;

    /// Returns the same problem over another number of images.
    fn with_batch(&self, images: usize) -> Self;

    /// The problem as text, the key of its results. It has every field that changes the cost. Texts of different kinds
    /// of subjects begin differently.
    fn spec(&self) -> String;

    /// The dimensions of x, of the filter and of y.
    fn dims(&self) -> [Vec<i64>; 3];

    /// True if parts of the mini-batch are summed in float. Running one part then takes longer than a mini-batch of its
    /// size.
    fn sums_in_reduced_precision(&self) -> bool;

    /// The database's text of an algorithm: all its fields, on one line, without ` + `.
    fn algorithm_text(&self, algorithm: &Self::Algorithm) -> String;

    /// Parses such a text; `None` for any other text.
    fn algorithm_of(&self, text: &str) -> Option<Self::Algorithm>;

    /// True if the text is of an algorithm that uses another version of our GPU kernels.
    fn is_of_other_kernels(&self, _text: &str) -> bool {
        false
    }

    /// A JSON object that identifies the problem in the report, with at least `problem`, `spec` and `direction`.
    fn report(&self) -> Value;
}
