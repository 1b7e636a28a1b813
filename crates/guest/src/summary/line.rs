//! The terminal's line about a process that called cuDNN.

use std::path::Path;

use trust::Shown as _;

/// What the library did. Times are seconds.
pub struct Totals {
    /// By kind, as counted.
    pub counts: [u64; super::KINDS],
    /// Against plain cuDNN, by the times of trials.
    pub saved: f64,
    /// What the trials cost.
    pub cost: f64,
    /// Subjects that are being tried.
    pub tried: u64,
}

/// Less than this is shown as nothing.
const LEAST: f64 = 0.05;

/// The line; `kept` is the file of times, if they are kept.
pub fn text(totals: &Totals, kept: Option<&Path>) -> String {
    let [convolutions, divided, replaced, networks, on_our_kernels, normalizations, by_us] = totals.counts;
    let all = convolutions + networks + normalizations;
    if all == 0 {
        return "cuDNN was called, but for no convolution, recurrent network or normalization".into();
    }
    let ours = divided + replaced + on_our_kernels + by_us;
    let Totals { saved, cost, tried, .. } = *totals;
    let mut text = format!("{ours} of {all} calls ran on our plans and kernels");
    if saved.abs() >= LEAST {
        let word = if saved > 0.0 { "less" } else { "more" };
        text += &format!(", in {:.1} s {word} than plain cuDNN takes, by trials that cost {cost:.1} s", saved.abs());
    }
    text += &match (tried, ours) {
        (0, 0) => "; nothing was tried, or cuDNN was the fastest".into(),
        (0, _) => String::new(),
        (1, _) => "; 1 shape is still being tried, and a further run goes on".into(),
        (tried, _) => format!("; {tried} shapes are still being tried, and a further run goes on"),
    };
    text + &kept.map_or_else(String::new, |file| format!("; times are in {}", file.shown()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_gained_and_what_is_open() {
        let totals = |counts, saved, tried| Totals { counts, saved, cost: 0.42, tried };
        assert_eq!(
            text(&totals([10, 5, 2, 4, 1, 7, 5], 12.34, 3), Some(Path::new("/d/t.sqlite"))),
            "13 of 21 calls ran on our plans and kernels, in 12.3 s less than plain cuDNN takes, by trials that cost 0.4 s; \
             3 shapes are still being tried, and a further run goes on; times are in /d/t.sqlite"
        );
        assert_eq!(
            text(&totals([10, 0, 0, 0, 0, 0, 0], 0.04, 0), None),
            "0 of 10 calls ran on our plans and kernels; nothing was tried, or cuDNN was the fastest"
        );
        assert!(
            text(&totals([1, 1, 0, 0, 0, 0, 0], -0.26, 1), None).contains(", in 0.3 s more than plain cuDNN takes")
        );
        assert!(text(&totals([0; 7], 0.0, 0), None).starts_with("cuDNN was called, but for no convolution"));
    }
}
