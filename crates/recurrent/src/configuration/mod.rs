//! The configurations that the recurrence's kernels can be compiled for, and the resources of each one. Nothing here
//! queries a device. The constants are twins of those in `kernels/common/{exchange.cuh, matrix/fma.cuh}` and
//! `kernels/recurrent/{states.cuh, block.cu, canonical_block.cu, unit_packets.cuh, grid_exchange.cuh,
//! grid_steps.cuh}`; each file below names its own twins.
//!
//! | file | contents |
//! | --- | --- |
//! | `cluster` | blocks that write into each other's memory |
//! | `input` | where the layer's input is multiplied |
//! | `problem` | the network and the device that a configuration is for |
//! | `scatter` | blocks that send each other sums on the way back |
//! | `single` | canonical GRU with a single exchange a step |
//! | `tensor` | how tensor cores share out the products, and the resources for that |
//! | `text` | configurations as text |
//! | `wavefront` | layers that run at the same time |

mod cluster;
mod input;
mod problem;
mod scatter;
mod single;
mod tensor;
#[cfg(test)]
mod tests;
mod text;
mod wavefront;

use std::ffi::CStr;

pub use gpu::Element;
pub use problem::{Cell, Pass, Problem};

/// How blocks share out the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Regime {
    /// R1: a block computes all units of some rows of the batch.
    Block,
    /// R2: each block of a cluster computes some units and sends them to the other blocks at each step. Other clusters
    /// have other rows of the batch.
    Cluster,
    /// R2 on the way back: each block of a cluster multiplies its units' gradients of gates with all columns of R, and
    /// sends each other block the sums of that block's units.
    Scatter,
    /// R3 on the way back, likewise: each block of the whole grid sends sums.
    GridScatter,
    /// R3: each block of the whole grid computes some units, and the blocks exchange them at each step.
    Grid,
    /// R3 for canonical GRU, with one exchange a step instead of two: every block computes the new h of all units.
    GridSingle,
    /// R3 for `layers` stacked layers, each a time step behind the layer below.
    Wavefront { layers: usize },
}

/// The instructions that multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Math {
    /// Fused multiply-adds in float.
    Fma,
    /// Tensor cores, on tiles: 16 rows of all gates' weights, and 8 rows of the batch. Floats are rounded to TF32.
    TensorCores,
}

/// The compile-time choices of a kernel, beside its problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    pub regime: Regime,
    pub math: Math,
    /// Hidden units of a block.
    pub units: usize,
    /// Rows of the batch that a block computes at once.
    pub batch_tile: usize,
    /// Threads of a block that multiply R. Input warps are as many more.
    pub threads: usize,
    /// Threads that share a dot product: within a warp; on tensor cores, 4 threads of each of several warps.
    pub lanes: usize,
    /// Weights that a thread keeps in registers; it keeps the rest in shared memory.
    pub register_weights: usize,
    /// The same for W, where W x is computed within each step. `None`: W x of all steps is computed ahead.
    pub input_register_weights: Option<usize>,
}

/// Registers of a multiprocessor, and the most that a thread may have.
const REGISTERS: usize = 65_536;
const MOST_REGISTERS: usize = 255;
/// Estimated registers of a thread: a base, some for each round of the reduction over lanes, and some for each pair of
/// a unit and a row that the thread owns. Under pressure the compiler can do with fewer, but not always.
const BASE_REGISTERS: usize = 66;
const ROUND_REGISTERS: usize = 3;
/// Registers for weights on their way from shared memory.
const FETCHED: usize = 12;
const PAIR_REGISTERS: usize = 9;
/// Registers of a pair for what a step saves, and for its places.
const SAVED_REGISTERS: usize = 8;
/// Registers of a pair for its gradients, and for their places.
const BACK_REGISTERS: usize = 12;
/// Bytes of a packet. Those of two-byte elements have 4 bytes of an epoch.
const PACKET: usize = 16;
const EPOCH: usize = 4;
/// Dynamic shared memory begins behind static shared memory, at a multiple of this many bytes.
const LINE: usize = 128;
/// Bytes of an exchange's header; the memory of each group is a multiple of this.
const EXCHANGE: usize = 128;
/// The least clocks of a packet's way to the L2 cache, and packets that all blocks together read there in a clock.
const SENT: usize = 200;
const PACKETS_A_CLOCK: usize = 256;
/// The most fused multiply-adds in a time step's code: more compile for too long and exceed the instruction cache.
const MOST_CODE: usize = 1536;

/// The most recurrences that a launch computes.
pub const MOST_RECURRENCES: usize = 8;

const THREADS: [usize; 6] = [32, 64, 128, 256, 384, 512];
const LANES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Data bytes of a packet of h. A packet of floats has a phase in its lowest bit, and no epoch.
fn packet_data(problem: &Problem) -> usize {
    if problem.element == Element::Float { PACKET } else { PACKET - EPOCH }
}

/// All combinations of tiles, threads and lanes.
fn shapes(tiles: &[usize]) -> impl Iterator<Item = (usize, usize, usize)> {
    let blocks = tiles.iter().flat_map(|&tile| THREADS.map(|threads| (tile, threads)));
    blocks.flat_map(|(tile, threads)| LANES.map(|lanes| (tile, threads, lanes)))
}

impl Configuration {
    /// Returns all configurations that are worthwhile for a problem and fit its device, in no order.
    pub fn space(problem: &Problem) -> Vec<Self> {
        let mut kinds = vec![(Regime::Block, problem.hidden)];
        kinds.extend(problem.cluster_choices());
        let is_backward = problem.pass == Pass::Backward;
        if is_backward {
            kinds.extend(problem.scatter_choices());
        } else {
            kinds.extend(problem.grid_choices());
        }
        let on_tensor_cores = kinds.clone();
        if !is_backward {
            kinds.extend(problem.single_choices());
            kinds.extend(problem.wavefront_choices());
        }
        let maths = [
            (Math::Fma, problem.tile_choices(), kinds),
            (Math::TensorCores, problem.tensor_tile_choices(), on_tensor_cores),
        ];
        let mut space = Vec::new();
        for (math, tiles, kinds) in maths {
            for (batch_tile, threads, lanes) in shapes(&tiles) {
                for &(regime, units) in &kinds {
                    let shape = Self {
                        regime,
                        math,
                        units,
                        batch_tile,
                        threads,
                        lanes,
                        register_weights: 0,
                        input_register_weights: None,
                    };
                    let shapes = [Some(shape), shape.with_input(problem)].into_iter().flatten();
                    let shapes = shapes.filter_map(|shape| shape.with_registers(problem));
                    space.extend(shapes.filter(|shape| shape.fits(problem)));
                }
            }
        }
        space
    }

    /// Puts as many weights into registers as the budget allows.
    fn with_registers(self, problem: &Problem) -> Option<Self> {
        if !self.is_shared_out() {
            return None;
        }
        let registers = self.most_registers().checked_sub(self.other_registers(problem))?;
        let (fetched, a_register, whole) = match self.math {
            Math::Fma => (FETCHED, 1, 4 * self.matrices()),
            Math::TensorCores => {
                (self.fetched_registers(problem), 4 / problem.element.bytes(), tensor::fragment(problem))
            }
        };
        // R gets registers before W: nothing hides the time of reading R from shared memory.
        let (weights, of_input) = (self.weights(problem), self.input_weights(problem));
        let room = |registers: usize| registers * a_register / whole * whole;
        let kept = |weights: usize, registers: usize| {
            let all = weights <= room(registers);
            weights.min(room(if all { registers } else { registers.saturating_sub(fetched) }))
        };
        if self.has_input_warps() {
            let registers_of_input = self.most_registers().checked_sub(self.input_warp_registers(problem))?;
            let input_register_weights = Some(kept(of_input, registers_of_input));
            return Some(Self { register_weights: kept(weights, registers), input_register_weights, ..self });
        }
        let both = kept(weights + of_input, registers);
        let register_weights = weights.min(both);
        let input_register_weights = self.input_register_weights.map(|_| both - register_weights);
        Some(Self { register_weights, input_register_weights, ..self })
    }

    /// Returns true if the kernel can run, and few of its lanes lack work (a single warp may leave more of them idle).
    pub fn fits(&self, problem: &Problem) -> bool {
        let used = self.is_shared_out()
            && match self.math {
                Math::Fma => {
                    let owned = self.threads / self.lanes * self.group_units(problem);
                    (4 * self.own_rows(problem) >= 3 * owned || self.threads == THREADS[0])
                        && (self.lanes == 1 || 16 * self.depth(problem) >= 11 * self.padded(problem))
                }
                Math::TensorCores => {
                    problem.tensor_cores && problem.cell != Cell::CanonicalGru && self.tiles_are_used(problem)
                }
            };
        let resident = match self.regime {
            Regime::Block => true,
            Regime::Cluster | Regime::Scatter => self.is_a_cluster(problem),
            Regime::GridScatter => self.scatters(problem) && self.blocks(problem) <= problem.multiprocessors,
            _ => self.blocks(problem) * self.layers() <= problem.multiprocessors,
        };
        let in_flight = self.layers() == 1
            || (problem.cell != Cell::CanonicalGru && problem.directions == 1 && self.layers() <= problem.layers);
        let single =
            self.regime != Regime::GridSingle || (problem.cell == Cell::CanonicalGru && self.math == Math::Fma);
        let input = !self.multiplies_input() || self.may_multiply_input(problem);
        used && resident
            && in_flight
            && single
            && input
            && self.code(problem) <= MOST_CODE
            && self.other_registers(problem) + self.weight_registers(problem) <= self.most_registers()
            && (!self.has_input_warps()
                || self.input_warp_registers(problem) + self.input_register_weights.unwrap_or(0)
                    <= self.most_registers())
            && self.shared_bytes(problem) + self.bias_bytes(problem) <= problem.shared_bytes
    }

    /// Returns true if the math allows this number of lanes among this number of threads.
    fn is_shared_out(&self) -> bool {
        match self.math {
            Math::Fma => self.lanes <= 32,
            Math::TensorCores => self.lanes >= 4 && self.threads.is_multiple_of(8 * self.lanes),
        }
    }

    /// Fused multiply-adds in a step's code, or as many as take equally long to compile.
    fn code(&self, problem: &Problem) -> usize {
        match self.math {
            Math::Fma => (self.weights(problem) + self.input_weights(problem)) * self.batch_tile,
            Math::TensorCores => self.products(problem) * tensor::CODE,
        }
    }

    /// Registers that hold weights.
    fn weight_registers(&self, problem: &Problem) -> usize {
        match self.math {
            Math::Fma if self.has_input_warps() => self.register_weights,
            Math::Fma => self.register_weights + self.input_register_weights.unwrap_or(0),
            Math::TensorCores => self.register_weights * problem.element.bytes() / 4,
        }
    }

    /// The kernel's name.
    pub fn kernel(&self, problem: &Problem) -> &'static CStr {
        if problem.pass == Pass::Backward {
            return match self.regime {
                Regime::Block => c"back_block",
                Regime::Scatter => c"back_scatter",
                Regime::GridScatter => c"back_grid",
                _ => c"back_cluster",
            };
        }
        match (self.regime, problem.cell) {
            (Regime::Block, Cell::CanonicalGru) => c"canonical_block",
            (Regime::Block, _) => c"recurrence_block",
            (Regime::Cluster | Regime::Scatter, _) => c"recurrence_cluster",
            (Regime::Grid | Regime::GridSingle | Regime::GridScatter, _) => c"recurrence_grid",
            (Regime::Wavefront { .. }, _) => c"recurrence_wavefront",
        }
    }

    /// The compiler options for its source.
    pub fn options(&self, problem: &Problem) -> Vec<String> {
        let Self { units, batch_tile, threads, lanes, register_weights, .. } = self;
        let cell = match problem.cell {
            Cell::Lstm => "-DCELL_LSTM",
            Cell::Gru => "-DCELL_GRU",
            Cell::CanonicalGru => "-DCELL_CANONICAL_GRU",
            Cell::Tanh => "-DCELL_TANH",
            Cell::Relu => "-DCELL_RELU",
        };
        let element = problem.element.option();
        let numbers = [
            ("HIDDEN", problem.hidden),
            ("UNITS", *units),
            ("BATCH_TILE", *batch_tile),
            ("THREADS", *threads),
            ("LANES", *lanes),
            ("REGISTER_WEIGHTS", register_weights / self.matrices()),
        ];
        let numbers = numbers.map(|(name, number)| format!("-D{name}={number}"));
        let math = (self.math == Math::TensorCores).then(|| "-DTENSOR_CORES".into());
        let layers = (self.layers() > 1).then(|| format!("-DLAYERS={}", self.layers()));
        let single = (self.regime == Regime::GridSingle).then(|| "-DSINGLE_EXCHANGE".into());
        let save = (problem.pass == Pass::Forward).then(|| "-DSAVE".into());
        let first_look = (self.packets(problem) > 0).then(|| format!("-DFIRST_LOOK={}", self.first_look(problem)));
        let numbers = numbers.into_iter().chain(first_look).chain(self.input_options(problem));
        [cell.into(), element.into()]
            .into_iter()
            .chain(numbers)
            .chain(math)
            .chain(layers)
            .chain(single)
            .chain(save)
            .collect()
    }

    /// Clocks between sending a block's h and the first look for the others', rounded to 50. A look that is too early
    /// costs a round trip to the L2 cache, and delays the packets. On an H200 a step of LSTM with H = 1024 and one row
    /// took 1.34 µs with an immediate look and 1.20 µs with one after 400 clocks; with H = 256 on 32 blocks, 0.86 µs
    /// and (after 200 clocks) 0.81 µs.
    fn first_look(&self, problem: &Problem) -> usize {
        let blocks: usize = self.grid(problem).into_iter().map(|blocks| blocks as usize).product();
        let clocks = SENT + blocks * self.collected(problem) / PACKETS_A_CLOCK;
        (clocks + 25) / 50 * 50
    }

    /// Blocks that compute a tile of the batch together.
    pub fn blocks(&self, problem: &Problem) -> usize {
        problem.hidden.div_ceil(self.units)
    }

    /// Tiles of the batch.
    pub fn tiles(&self, problem: &Problem) -> usize {
        problem.batch.div_ceil(self.batch_tile)
    }

    /// Recurrences that a launch computes at the same time: all layers of a wavefront; else both directions of a layer,
    /// unless their blocks wait for each other and are too many.
    pub fn at_once(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::Block | Regime::Cluster | Regime::Scatter => problem.directions,
            Regime::Grid | Regime::GridSingle | Regime::GridScatter => {
                problem.directions.min(problem.multiprocessors / self.blocks(problem)).max(1)
            }
            Regime::Wavefront { layers } => layers,
        }
    }

    /// Groups of blocks of a recurrence; each has its own tiles, and all are resident with one block a multiprocessor.
    /// In R1 each block is a group. The device may let blocks of R1, and clusters, wait for others to end.
    pub fn groups(&self, problem: &Problem) -> usize {
        let blocks = self.blocks(problem) * self.at_once(problem);
        match self.regime {
            Regime::Block => self.tiles(problem),
            _ => self.tiles(problem).min(problem.multiprocessors / blocks).max(1),
        }
    }

    /// The grid of the launch, which is cooperative in R3.
    pub fn grid(&self, problem: &Problem) -> [u32; 3] {
        let [x, y] = match self.regime {
            Regime::Block => [self.tiles(problem), 1],
            _ => [self.blocks(problem), self.groups(problem)],
        };
        [x as u32, y as u32, self.at_once(problem) as u32]
    }

    /// Returns true if the blocks of a tile are a cluster.
    pub fn is_in_clusters(&self) -> bool {
        matches!(self.regime, Regime::Cluster | Regime::Scatter)
    }

    /// The cluster dimensions of the launch, in blocks.
    pub fn cluster(&self, problem: &Problem) -> [u32; 3] {
        if self.is_in_clusters() { [self.blocks(problem) as u32, 1, 1] } else { [1; 3] }
    }

    /// Dynamic shared memory of a block, in bytes.
    pub fn shared_bytes(&self, problem: &Problem) -> usize {
        let (factor, sums) = match self.math {
            Math::Fma => (size_of::<f32>(), 0),
            Math::TensorCores => (problem.element.bytes(), self.meeting_bytes(problem)),
        };
        let received = self.received_bytes(problem);
        let h = self.batch_tile * self.padded(problem) * factor;
        let weights = self.shared_weights(problem) * self.threads * problem.element.bytes();
        let own = (self.packets_a_block(problem) * packet_data(problem)).next_multiple_of(16);
        let exchange = match self.regime {
            Regime::Block => h,
            Regime::Cluster | Regime::Scatter => h + cluster::MBARRIERS + received,
            Regime::Grid => own,
            Regime::GridScatter => received,
            Regime::GridSingle => self.reset_bytes(problem),
            Regime::Wavefront { .. } => h + own,
        };
        h + exchange + sums + weights + self.input_bytes(problem)
    }

    /// Static shared memory of a block, in bytes, up to the start of dynamic shared memory: the biases of its units. 0
    /// with input warps, which add the biases to W x.
    fn bias_bytes(&self, problem: &Problem) -> usize {
        if self.has_input_warps() || problem.pass == Pass::Backward {
            return 0;
        }
        (problem.cell.gates() * self.units * size_of::<f32>()).next_multiple_of(LINE)
    }

    /// Bytes of the exchange memory of one direction; 0 in R1 and R2. It is all zero before the first launch.
    pub fn exchange_bytes(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::Block | Regime::Cluster | Regime::Scatter => 0,
            Regime::GridScatter => self.groups(problem) * self.scattered_bytes(problem),
            Regime::Grid | Regime::GridSingle | Regime::Wavefront { .. } => {
                let packets = 2 * self.layers() * self.packets(problem) * PACKET;
                self.groups(problem) * (EXCHANGE + packets.next_multiple_of(EXCHANGE))
            }
        }
    }

    /// Packets, or pieces of scattered sums, that a block gets for a tile at each step; 0 in R1 and R2.
    pub fn packets(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::Block | Regime::Cluster | Regime::Scatter => 0,
            Regime::GridScatter => self.sum_stores(problem),
            Regime::Grid | Regime::Wavefront { .. } => self.blocks(problem) * self.packets_a_block(problem),
            Regime::GridSingle => self.triple_packets(problem),
        }
    }

    /// Rounds in which a thread reads packets at each step, one after the other.
    pub fn rounds(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::GridSingle => self.single_rounds(problem),
            Regime::GridScatter => self.scattered_rounds(problem),
            _ => self.collected(problem).div_ceil(self.threads).div_ceil(self.most_at_once(problem)),
        }
    }

    /// The most packets that a thread reads at once: more where longer runs of a packet's values have one place.
    fn most_at_once(&self, problem: &Problem) -> usize {
        if matches!(self.regime, Regime::Wavefront { .. }) {
            return 4;
        }
        let values = packet_data(problem) / problem.element.bytes();
        match (self.units | problem.hidden | values).trailing_zeros() {
            0 => 4,
            1 => 6,
            _ => 8,
        }
    }

    fn packets_a_block(&self, problem: &Problem) -> usize {
        (self.units * self.batch_tile).div_ceil(packet_data(problem) / problem.element.bytes())
    }

    /// Threads of a block, input warps included.
    pub fn block_threads(&self) -> usize {
        if self.has_input_warps() { 2 * self.threads } else { self.threads }
    }

    /// The most registers that a thread may have.
    pub fn most_registers(&self) -> usize {
        (REGISTERS / self.block_threads() / 8 * 8).min(MOST_REGISTERS)
    }

    /// Estimates the registers that a thread needs beside its weights.
    fn other_registers(&self, problem: &Problem) -> usize {
        let gates = problem.cell.gates();
        let a_pair = match problem.pass {
            Pass::Inference => PAIR_REGISTERS + 2 * gates,
            Pass::Forward => PAIR_REGISTERS + 2 * gates + SAVED_REGISTERS,
            Pass::Backward => PAIR_REGISTERS + 2 * gates + BACK_REGISTERS,
        };
        match self.math {
            Math::Fma => {
                let pairs = self.group_units(problem) * self.batch_tile;
                let rounds = self.lanes.ilog2() as usize;
                let own = match self.is_scattered() {
                    true => self.own_pairs() * a_pair,
                    false => pairs.div_ceil(self.lanes) * a_pair,
                };
                let sums = pairs * self.pair_sums(problem);
                let more = self.neighbour_registers() + self.single_registers(problem) + self.input_registers(problem);
                BASE_REGISTERS + ROUND_REGISTERS * rounds + sums + 4 * self.batch_tile + own + more
            }
            Math::TensorCores if self.is_scattered() => self.scatter_registers(problem),
            Math::TensorCores => BASE_REGISTERS + self.tile_registers(problem) + self.own_pairs() * a_pair,
        }
    }

    /// Units, or columns that it scatters, that a group of lanes computes with fused multiply-adds.
    pub fn group_units(&self, problem: &Problem) -> usize {
        self.own_rows(problem).div_ceil(self.threads / self.lanes)
    }

    /// Pairs of a unit and a row that a thread owns, if threads share them out evenly.
    pub(super) fn own_pairs(&self) -> usize {
        (self.units * self.batch_tile).div_ceil(self.threads)
    }

    /// H, padded to an equal share for each lane; on tensor cores also so that rows do not collide in shared memory.
    pub fn padded(&self, problem: &Problem) -> usize {
        match self.math {
            Math::Fma => self.depth(problem).next_multiple_of(4 * self.lanes),
            Math::TensorCores => self.padded_chunks(problem),
        }
    }

    /// Weights of a thread, including the zeros that pad rows and columns.
    pub fn weights(&self, problem: &Problem) -> usize {
        match self.math {
            Math::Fma => {
                let a_matrix = self.padded(problem) / self.lanes * self.group_units(problem) * self.row_gates(problem);
                self.matrices() * a_matrix + self.column_weights(problem)
            }
            Math::TensorCores => self.fragments(problem) * tensor::fragment(problem),
        }
    }

    /// The thread's weights in shared memory.
    pub fn shared_weights(&self, problem: &Problem) -> usize {
        self.weights(problem).saturating_sub(self.register_weights)
    }
}
