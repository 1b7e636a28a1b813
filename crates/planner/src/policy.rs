use std::{fmt, str::FromStr};

/// The largest mini-batch that is divided. A larger one runs undivided: planning tables would outgrow their use (a
/// tensor's dimension may be 2³¹ − 1).
pub const LARGEST_DIVIDED_BATCH: usize = 1 << 20;

/// The micro-batch sizes to try. In the order `all`, `powerOfTwo`, `undivided`, each policy's sizes include the next
/// policy's, so its plan is predicted to be no slower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BatchSizePolicy {
    /// 1, 2, 4, … and the mini-batch itself.
    #[default]
    PowerOfTwo,
    /// Every size up to the mini-batch.
    All,
    /// Only the mini-batch itself.
    Undivided,
}

impl BatchSizePolicy {
    /// All policies, the default first.
    pub const EVERY: [Self; 3] = [Self::PowerOfTwo, Self::All, Self::Undivided];

    /// The name used in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::PowerOfTwo => "powerOfTwo",
            Self::All => "all",
            Self::Undivided => "undivided",
        }
    }

    /// The micro-batch sizes to try for a mini-batch of `batch` images, ascending and ending with `batch`; empty for an
    /// empty mini-batch.
    pub fn sizes(self, batch: usize) -> Vec<usize> {
        if batch == 0 {
            return Vec::new();
        }
        let smaller: Vec<usize> = match self {
            _ if batch > LARGEST_DIVIDED_BATCH => Vec::new(),
            Self::PowerOfTwo => (0..).map(|k| 1 << k).take_while(|&size| size < batch).collect(),
            Self::All => (1..batch).collect(),
            Self::Undivided => Vec::new(),
        };
        smaller.into_iter().chain([batch]).collect()
    }
}

impl fmt::Display for BatchSizePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reads a name. `Err` quotes the text and lists the accepted names.
impl FromStr for BatchSizePolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::EVERY.into_iter().find(|policy| policy.name() == text).ok_or_else(|| {
            let accepted = Self::EVERY.map(Self::name).join(", ");
            format!("unknown batch-size policy {text:?}: accepted are {accepted}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BatchSizePolicy::*;

    #[test]
    fn sizes_ascend_to_the_mini_batch() {
        assert_eq!(PowerOfTwo.sizes(1), [1]);
        assert_eq!(PowerOfTwo.sizes(8), [1, 2, 4, 8]);
        assert_eq!(PowerOfTwo.sizes(100), [1, 2, 4, 8, 16, 32, 64, 100]);
        assert_eq!(All.sizes(5), [1, 2, 3, 4, 5]);
        assert_eq!(Undivided.sizes(100), [100]);
        for policy in BatchSizePolicy::EVERY {
            assert!(policy.sizes(0).is_empty());
            assert_eq!(policy.sizes(usize::MAX), [usize::MAX]);
        }
        assert_eq!(PowerOfTwo.sizes(LARGEST_DIVIDED_BATCH).len(), 21);
    }

    #[test]
    fn every_policy_contains_the_next() {
        for batch in 0..=300 {
            let [all, power, undivided] = [All, PowerOfTwo, Undivided].map(|policy| policy.sizes(batch));
            assert!(power.iter().all(|size| all.contains(size)), "{batch}");
            assert!(undivided.iter().all(|size| power.contains(size)), "{batch}");
        }
    }

    #[test]
    fn names_are_read_back_and_others_refused() {
        for policy in BatchSizePolicy::EVERY {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!(BatchSizePolicy::default().name(), "powerOfTwo");
        let message = "PowerOfTwo".parse::<BatchSizePolicy>().unwrap_err();
        assert_eq!(message, r#"unknown batch-size policy "PowerOfTwo": accepted are powerOfTwo, all, undivided"#);
    }
}
