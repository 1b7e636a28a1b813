//! The layers of a network, and the layer that a call belongs to. A layer is one use of a convolution problem: equal
//! problems in different layers run at different times, or at once on different streams, and each needs its own
//! segment.
//!
//! A layer is identified by its filter's address; while only queries have been seen, by its descriptors' addresses; or
//! by the program's name for it (`ucudnnSetLayerId`). Layers on different lanes differ too, since two streams may run
//! at once. Some programs allocate filter gradients anew in each iteration and so show new addresses for old layers. A
//! call with unknown addresses therefore takes a matching layer that this iteration has not run yet, and is a new layer
//! only if there is none.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;

use cudnn_abi::{CUDNN_DETERMINISTIC, CUDNN_STATUS_SUCCESS};

use crate::plans::legacy::rounding;
use crate::problem::Problem;
use crate::problem::algorithm::Class;
use cudnn::convolution::AlgoPerf;
use cudnn::convolution::{Descriptors, Direction};
use guest::settings::Numerics;

use super::problem::LayerProblem;

/// Calls that run one after another: a stream, and where nothing orders the program's threads, one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    pub stream: usize,
    pub thread: usize,
}

/// The part of a call that tells layers apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub problem: LayerProblem,
    /// The algorithm that a legacy call requests.
    pub algorithm: Option<c_int>,
    /// cuDNN takes no other algorithm.
    pub only: bool,
    /// The address of the filter, or of its gradient.
    pub filter: usize,
    pub lane: Lane,
    /// The program's id for the layer.
    pub name: Option<u64>,
}

/// The addresses of a query's or a call's descriptors.
pub type Addresses = [usize; 4];

/// Returns the addresses of descriptors.
pub fn addresses(descriptors: &Descriptors) -> Addresses {
    [descriptors.x().addr(), descriptors.w().addr(), descriptors.convolution().addr(), descriptors.y().addr()]
}

/// One use of a convolution problem.
#[derive(Clone)]
pub struct Layer {
    pub problem: LayerProblem,
    /// The algorithm that the program chose by the legacy API, or that cuDNN chose for it. A plan must keep to its
    /// class.
    pub chosen: Option<AlgoPerf>,
    /// cuDNN takes no other algorithm.
    pub only: bool,
    pub lane: Option<Lane>,
    pub name: Option<u64>,
    /// How often it has run.
    pub calls: u64,
    /// The descriptors of the query that reported the layer, if a query did.
    collected: Option<Addresses>,
    /// The algorithms that queries reported for the layer.
    named: Vec<c_int>,
    /// The iteration in which it ran last.
    last: u64,
}

impl Layer {
    /// The class that the layer's plan must keep to. Finds out how the chosen algorithm rounds, and waits for it. `None` for an operation graph, whose state holds the class.
    pub fn class(&self, numerics: Numerics) -> Option<Class> {
        let LayerProblem::Convolution(problem) = &self.problem else { return None };
        let chosen = AlgoPerf { mathType: problem.math_type, ..self.chosen? };
        let plain = rounding::find(problem, &chosen);
        // A layer's calls may be fused, which engines do not compute.
        Some(Class { only: self.only.then_some(chosen.algo), engines: false, ..Class::of(&plain, numerics) })
    }

    /// True if a call with this key may belong to this layer, whatever its addresses.
    fn is_like(&self, key: &Key) -> bool {
        let alike = self.problem == key.problem || self.is_waiting() && self.problem.differs_in_math_type(&key.problem);
        // A program that asks about several algorithms may run any of them.
        let named = |algorithm| self.is_waiting() && self.named.contains(&algorithm);
        alike
            && (self.chosen.map(|chosen| chosen.algo) == key.algorithm || key.algorithm.is_some_and(named))
            && self.only == key.only
            && self.lane.is_none_or(|lane| lane == key.lane)
            && (self.name.is_none() || self.name == key.name)
    }

    /// True if only queries have reported the layer.
    fn is_waiting(&self) -> bool {
        self.collected.is_some() && self.calls == 0
    }
}

/// Identifies a layer. Ids are never reused.
pub type LayerId = usize;

/// The layer of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub layer: LayerId,
    /// The call is the first of a new iteration.
    pub begins_iteration: bool,
}

/// The most addresses kept for each layer, on average. Beyond that, all are learnt anew.
const ADDRESSES_A_LAYER: usize = 64;
/// The most layers kept. Beyond that, layers that ran once and never came back are forgotten.
const MOST_LAYERS: usize = 4096;
/// A layer that did not run for this many iterations is not planned any more.
const GONE: u64 = 1000;

/// The layers of a network, in the order in which they were met.
#[derive(Default)]
pub struct Layers {
    layers: BTreeMap<LayerId, Layer>,
    next: LayerId,
    known: HashMap<Key, LayerId, foldhash::fast::RandomState>,
    /// The number of the current iteration.
    iteration: u64,
    backward: bool,
}

impl Layers {
    /// True if the network has no layers.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The layers to plan: those that came back in an iteration that has ended, so that no layer is planned before the
    /// rest of its network; and if `collected`, those that queries reported.
    pub fn lasting(&self, collected: bool) -> impl Iterator<Item = (LayerId, &Layer)> {
        let lasts = move |layer: &Layer| {
            let under_way = u64::from(layer.last == self.iteration);
            let known = layer.chosen.is_none_or(|chosen| chosen.status == CUDNN_STATUS_SUCCESS);
            let came_back = layer.calls > 1 + under_way && self.iteration - layer.last <= GONE;
            known && (came_back || collected && layer.collected.is_some())
        };
        self.layers.iter().filter(move |(_, layer)| lasts(layer)).map(|(&id, layer)| (id, layer))
    }

    /// Adds a layer that a query reported. A repeated query adds none: programs ask again when they reshape, and when
    /// they compare algorithms.
    pub fn collect(&mut self, problem: &Problem, chosen: AlgoPerf, descriptors: Addresses, name: Option<u64>) {
        let problem = LayerProblem::Convolution(*problem);
        let known = self.layers.values_mut().find(|layer| {
            (layer.problem == problem || layer.problem.differs_in_math_type(&problem))
                && match name {
                    Some(_) => layer.name == name,
                    None => layer.collected == Some(descriptors),
                }
        });
        match known {
            Some(layer) if layer.is_waiting() => {
                // The program may run any algorithm it asked about, so the plan keeps to the strictest class.
                let strictest = layer.chosen.filter(|known| known.determinism == CUDNN_DETERMINISTIC).unwrap_or(chosen);
                layer.chosen = Some(AlgoPerf { determinism: strictest.determinism, ..chosen });
                if !layer.named.contains(&chosen.algo) {
                    layer.named.push(chosen.algo);
                }
            }
            Some(_) => {}
            None => {
                let (collected, named, chosen) = (Some(descriptors), vec![chosen.algo], Some(chosen));
                self.push(Layer {
                    problem,
                    chosen,
                    only: false,
                    lane: None,
                    name,
                    calls: 0,
                    collected,
                    named,
                    last: 0,
                });
            }
        }
    }

    /// Returns the layer of a call. `None` for a call never seen before: [`Self::add`] adds it.
    pub fn call(&mut self, key: &Key, descriptors: Addresses) -> Option<Seen> {
        let layer = match self.known.get(key) {
            Some(&layer) => layer,
            None => {
                let layer = self.expected(key, descriptors)?;
                self.bind(key, layer);
                layer
            }
        };
        Some(self.ran(layer, key.problem.direction()))
    }

    /// Adds a layer for a call never seen before. `chosen` is cuDNN's result for the requested algorithm, if the call
    /// names one. A layer whose algorithm is not supported is never planned.
    pub fn add(&mut self, key: &Key, chosen: Option<AlgoPerf>) -> Seen {
        let Key { only, lane, name, .. } = *key;
        let (problem, direction) = (key.problem.clone(), key.problem.direction());
        let (lane, collected, named) = (Some(lane), None, Vec::new());
        let layer = self.push(Layer { problem, chosen, only, lane, name, calls: 0, collected, named, last: 0 });
        self.bind(key, layer);
        self.ran(layer, direction)
    }

    /// Returns cuDNN's result for the requested algorithm, taken from a layer with the same problem.
    pub fn chosen_alike(&self, key: &Key) -> Option<AlgoPerf> {
        let alike = |layer: &&Layer| {
            let algorithm = layer.chosen.map(|chosen| chosen.algo);
            layer.problem == key.problem && (algorithm, layer.only) == (key.algorithm, key.only)
        };
        self.layers.values().find(alike)?.chosen
    }

    fn push(&mut self, layer: Layer) -> LayerId {
        if self.layers.len() >= MOST_LAYERS {
            self.layers.retain(|_, layer| layer.calls > 1 && self.iteration - layer.last <= GONE);
            self.known.retain(|_, layer| self.layers.contains_key(layer));
        }
        let id = self.next;
        self.next += 1;
        self.layers.insert(id, layer);
        id
    }

    /// Finds the layer of a call with unknown addresses.
    fn expected(&self, key: &Key, descriptors: Addresses) -> Option<LayerId> {
        let find = |is: &dyn Fn(&Layer) -> bool| {
            self.layers.iter().find(|(_, layer)| layer.is_like(key) && is(layer)).map(|(&id, _)| id)
        };
        if key.name.is_some() {
            return find(&|layer| layer.name == key.name);
        }
        find(&|layer| layer.is_waiting() && layer.collected == Some(descriptors))
            .or_else(|| find(&Layer::is_waiting))
            .or_else(|| find(&|layer| layer.last < self.iteration))
    }

    fn bind(&mut self, key: &Key, id: LayerId) {
        if self.known.len() >= ADDRESSES_A_LAYER * self.layers.len() {
            self.known.clear();
        }
        self.known.insert(key.clone(), id);
        let Some(layer) = self.layers.get_mut(&id) else { return };
        let reported = layer.chosen.filter(|_| layer.is_waiting()).map(|chosen| chosen.mathType);
        let follows = layer.problem.differs_in_math_type(&key.problem) && reported == key.problem.math_type();
        layer.problem = key.problem.clone();
        if let (Some(chosen), Some(algorithm)) = (&mut layer.chosen, key.algorithm) {
            chosen.algo = algorithm;
        }
        layer.lane = Some(key.lane);
        if follows {
            // The program set the math type that the query reported, and will do so for the other layers.
            for layer in self.layers.values_mut().filter(|layer| layer.is_waiting()) {
                if let (LayerProblem::Convolution(problem), Some(chosen)) = (&mut layer.problem, layer.chosen) {
                    problem.math_type = chosen.mathType;
                }
            }
        }
    }

    /// An iteration begins where a layer comes back, or a Forward follows a backward.
    fn ran(&mut self, id: LayerId, direction: Direction) -> Seen {
        let forward = direction == Direction::Forward;
        let comes_back = self.layers.get(&id).is_some_and(|layer| layer.calls > 0 && layer.last == self.iteration);
        let begins_iteration = comes_back || forward && self.backward;
        if begins_iteration {
            self.iteration += 1;
            self.backward = false;
        }
        self.backward |= !forward;
        if let Some(layer) = self.layers.get_mut(&id) {
            layer.calls += 1;
            layer.last = self.iteration;
        }
        Seen { layer: id, begins_iteration }
    }
}
