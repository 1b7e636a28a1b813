//! What is tuned.

use std::fmt::{Debug, Display};
use std::hash::Hash;

use serde_json::Value;

/// What is tuned: a kernel over a mini-batch, that micro-batches by algorithms of its own kind can make up. Equal ones
/// cost the same. It prints for people.
pub trait Subject: Clone + PartialEq + Display + Send + Sync {
    /// A way to compute a micro-batch. It prints as cuDNN's name for it.
    type Algorithm: Copy + Eq + Hash + Debug + Display + Send + Sync;
    /// Which of them may be used. Classes that print alike are one.
    type Class: Copy + Eq + Hash + Display + Send + Sync;
    /// The version of what of ours may run beside cuDNN's algorithms, if anything may: with another, a search has new answers.
    const ENGINES: Option<&str> = None;

    /// Images in the mini-batch.
    fn batch(&self) -> usize;

    /// The same over another number of images.
    fn with_batch(&self, images: usize) -> Self;

    /// It as text, with every field that changes what it costs: what it is kept by. Subjects of different kinds begin
    /// differently.
    fn spec(&self) -> String;

    /// The dimensions of x, of the filter and of y.
    fn dims(&self) -> [Vec<i64>; 3];

    /// Whether parts of the mini-batch are summed in float, so that running one takes more than running a mini-batch
    /// of its size.
    fn sums_in_reduced_precision(&self) -> bool;

    /// An algorithm as the database keeps it: every field of it, on one line, without ` + `.
    fn algorithm_text(&self, algorithm: &Self::Algorithm) -> String;

    /// The algorithm that such a text speaks of; `None` if it is no such text.
    fn algorithm_of(&self, text: &str) -> Option<Self::Algorithm>;

    /// Whether a text is an algorithm's in which other versions of our kernels take part.
    fn is_of_other_kernels(&self, _text: &str) -> bool {
        false
    }

    /// A JSON object with what tells it in the report's lines: at least `kernel`, `spec` and `direction`.
    fn report(&self) -> Value;
}
