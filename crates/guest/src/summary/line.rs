//! The terminal's line about a process that called cuDNN.

use crate::settings::{self, Settings};
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

pub fn text(totals: &Totals, settings: &Settings) -> String {
    let [convolutions, divided, replaced, networks, on_our_kernels, normalizations, by_us] = totals.counts;
    let all = convolutions + networks + normalizations;
    if all == 0 {
        return "cuDNN was called, but for no convolution, recurrent network or batch normalization".into();
    }
    let ours = divided + replaced + on_our_kernels + by_us;
    let Totals { saved, cost, tried, .. } = *totals;
    let mut text = format!("{ours} of {all} calls ran on our plans and kernels");
    if saved != 0.0 {
        text +=
            &format!(", {:.1} s {} than by plain cuDNN", saved.abs(), if saved > 0.0 { "faster" } else { "slower" });
        text += &format!(" (by trials, which cost {cost:.1} s)");
    }
    text += &match (tried, ours) {
        (0, 0) => "; cuDNN was the fastest, or the calls too few to try anything".into(),
        (0, _) => String::new(),
        (1, _) => "; 1 shape is still being tried, and a further run goes on".into(),
        (tried, _) => format!("; {tried} shapes are still being tried, and a further run goes on"),
    };
    let place = settings::place(&settings.database, |name| std::env::var_os(name)).ok().flatten();
    text + &place.map_or_else(|| "; no times are kept".into(), |place| format!("; times are in {}", place.shown()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Database;

    #[test]
    fn a_line_says_what_was_gained_and_what_is_open() {
        let kept = Settings { database: Database::Path("/d/t.sqlite".into()), ..Settings::default() };
        let off = Settings { database: Database::Off, ..Settings::default() };
        let totals = |counts, saved, tried| Totals { counts, saved, cost: 0.42, tried };
        assert_eq!(
            text(&totals([10, 5, 2, 4, 1, 7, 5], 12.34, 3), &kept),
            "13 of 21 calls ran on our plans and kernels, 12.3 s faster than by plain cuDNN (by trials, which cost 0.4 s); \
             3 shapes are still being tried, and a further run goes on; times are in /d/t.sqlite"
        );
        assert_eq!(
            text(&totals([10, 0, 0, 0, 0, 0, 0], 0.0, 0), &off),
            "0 of 10 calls ran on our plans and kernels; cuDNN was the fastest, or the calls too few to try anything; \
             no times are kept"
        );
        assert!(text(&totals([1, 1, 0, 0, 0, 0, 0], -0.26, 1), &off).contains(", 0.3 s slower than by plain cuDNN"));
        assert!(text(&totals([0; 7], 0.0, 0), &off).starts_with("cuDNN was called, but for no convolution"));
    }
}
