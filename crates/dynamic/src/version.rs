//! The version of the code that runs nets on a GPU.

use gpu::Element;
use kernels::hash;
use vertex::function::Net;

use crate::{Executor, Fours, Options, Warpgroups, Without, sources};

#[path = "../../vertex/nets/ready.rs"]
mod ready;
#[path = "../../vertex/nets/tree_lstm.rs"]
mod tree_lstm;

/// The widths of the fixed nets' inputs and states: for one block, for many, and without whole vectors.
const WIDTHS: [(usize, usize); 3] = [(12, 32), (5, 33), (256, 256)];
/// An H100's multiprocessors, and the bytes of shared memory that a block may have there.
const LIMITS: [usize; 2] = [132, 227 << 10];

/// The version: a hash of the family `dynamic` of kernels, and of the kernels that are made for a fixed set of nets. So
/// it also changes if these kernels change for another reason, such as another derivative or plan from `vertex`.
pub fn version() -> String {
    version_of(&|text| text)
}

/// Likewise, of kernels whose texts were changed. For tests.
#[doc(hidden)]
pub fn version_of(change: &dyn Fn(String) -> String) -> String {
    let add = |hash, text: &str| hash::add(hash, text.as_bytes());
    let hash = fixed().into_iter().fold(add(hash::NOTHING, kernels::dynamic::VERSION), |hash, (net, options)| {
        let made = sources(&net, options, LIMITS).into_iter().flatten();
        made.fold(hash, |hash, source| {
            let hash = source.options.iter().fold(hash, |hash, option| add(hash, option));
            add(hash, &change(source.text.into_owned()))
        })
    });
    format!("{hash:016x}")
}

/// The fixed nets, and how they are made.
fn fixed() -> Vec<(Net, Options)> {
    let mut fixed = vec![];
    for (x, h) in WIDTHS {
        let texts = ready::ready(x, h).map(|(_, text)| text);
        for text in texts.into_iter().chain([tree_lstm::tree_lstm(x, h, None)]) {
            let net = Net::new(text.parse().expect("a net's text")).expect("a net");
            let types = Element::ALL.map(|element| (element, false)).into_iter().chain([(Element::Float, true)]);
            for (element, tf32) in types {
                let options = Options {
                    element,
                    is_training: true,
                    tf32,
                    warpgroups: Warpgroups::Many,
                    fours: Fours::Many,
                    is_static: false,
                    without: Without::Nothing,
                    executor: Executor::Auto,
                };
                fixed.push((net.clone(), options));
            }
        }
    }
    fixed
}
