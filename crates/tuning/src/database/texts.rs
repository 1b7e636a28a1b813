//! The questions of an import about the texts of subjects, whose kinds the crates above know.

use super::results::division_parts;
use crate::subject::Subject;

/// A subject of any kind, as far as importing results takes it.
pub trait AnySubject {
    /// Whether it is over one image, as subjects are kept.
    fn is_over_one_image(&self) -> bool;
    /// Whether a text is an algorithm of its kind.
    fn has_algorithm(&self, text: &str) -> bool;
    /// True if the text is of an algorithm that uses another version of our GPU kernels.
    fn is_of_other_kernels(&self, text: &str) -> bool;
    /// Whether a text is a division's into micro-batches by algorithms of its kind.
    fn has_division(&self, text: &str) -> bool;
}

impl<K: Subject> AnySubject for K {
    fn is_over_one_image(&self) -> bool {
        self.batch() == 1 && self.with_batch(1) == *self
    }

    fn has_algorithm(&self, text: &str) -> bool {
        self.algorithm_of(text).is_some()
    }

    fn is_of_other_kernels(&self, text: &str) -> bool {
        Subject::is_of_other_kernels(self, text)
    }

    fn has_division(&self, text: &str) -> bool {
        division_parts(text, self).is_some()
    }
}

/// Reads the texts of subjects, which the crates above know. `Err` says what is wrong with one.
#[derive(Clone, Copy)]
pub struct Texts {
    /// A convolution problem's.
    pub problem: fn(&str) -> Result<Box<dyn AnySubject>, String>,
    /// A family and the text of its subject.
    pub subject: fn(&str, &str) -> Result<(), String>,
}
