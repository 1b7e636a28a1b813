//! The subjects that the database has times of: a network's inference, or one call of its training.

use std::fmt;

use crate::configuration::Pass;
use crate::network::inference::Inference;

/// The calls of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Forward,
    Data,
    Weights,
}

/// All of them, in their order.
pub const CALLS: [Call; 3] = [Call::Forward, Call::Data, Call::Weights];

/// A network's inference, or one call of its training. Its text is the subject in the database.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    pub network: Inference,
    /// `None`: inference.
    call: Option<Call>,
}

/// The key of a call's name in a text.
const KEY: &str = " pass=";

impl Subject {
    /// A call of a network's training.
    pub fn of_call(network: &Inference, call: Call) -> Self {
        Self { network: network.clone(), call: Some(call) }
    }

    /// The pass of its recurrences. `None`: it has none.
    pub fn pass(&self) -> Option<Pass> {
        match self.call {
            None => Some(Pass::Inference),
            Some(Call::Forward) => Some(Pass::Forward),
            Some(Call::Data) => Some(Pass::Backward),
            Some(Call::Weights) => None,
        }
    }

    /// The subject as one line of text: the network's, and of training the call behind it.
    pub fn spec(&self) -> String {
        let call = self.call.map_or_else(String::new, |call| format!("{KEY}{}", name(call)));
        self.network.spec() + &call
    }

    /// Reads the text of [`Self::spec`], and nothing else. `Err` names the part that is wrong, and why.
    pub fn from_spec(text: &str) -> Result<Self, String> {
        let (network, call) = match text.split_once(KEY) {
            None => (text, None),
            Some((network, read)) => {
                let names = || CALLS.map(name).join(", ");
                let call = CALLS.into_iter().find(|&call| name(call) == read);
                (network, Some(call.ok_or_else(|| format!("pass is {read:?}; accepted are {}", names()))?))
            }
        };
        Ok(Self { network: Inference::from_spec(network)?, call })
    }
}

/// The name of a call in a text.
fn name(call: Call) -> &'static str {
    match call {
        Call::Forward => "forward-training",
        Call::Data => "backward-data",
        Call::Weights => "backward-weights",
    }
}

/// For people.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { network, call } = self;
        match call {
            None => write!(f, "{network}"),
            Some(call) => write!(f, "{network}, {}", name(*call)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = "LSTM input=5 hidden=64 layers=2 directions=1 bias=double type=float math=default \
                           algorithm=standard layout=packed padded=no batch=4 steps=16 full=no";

    #[test]
    fn texts_are_read_back() {
        let network = Inference::from_spec(NETWORK).unwrap();
        assert_eq!(Subject::from_spec(NETWORK), Ok(Subject { network: network.clone(), call: None }));
        for call in CALLS {
            let subject = Subject::of_call(&network, call);
            assert_eq!(Subject::from_spec(&subject.spec()), Ok(subject.clone()));
            assert_eq!(subject.to_string(), format!("{network}, {}", name(call)));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            (format!("{NETWORK} pass=sideways"), "pass is \"sideways\"; accepted are forward-training, backward-data"),
            (format!("{NETWORK} pass="), "pass is \"\""),
            (format!("{} pass=backward-data", &NETWORK[5..]), "the cell"),
        ] {
            let error = Subject::from_spec(&text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
