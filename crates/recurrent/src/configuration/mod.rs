//! What the recurrence's kernels can be compiled for: the space of configurations for a problem, and what each takes.
//! Nothing here knows a device: twins of the constants in `kernels/exchange.cuh` and `kernels/rnn/{share.cuh, states.cuh,
//! block.cu, canonical_block.cu, handed.cuh, hand_over.cuh, grid_steps.cuh}`, and below of those that each file names.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `cluster` | blocks that write into each other's memory |
//! | `input` | where the layer's input is multiplied |
//! | `problem` | what a configuration is for |
//! | `single` | canonical GRU with a single exchange a step |
//! | `tensor` | how tensor cores share out the products, and what that takes |
//! | `text` | configurations as text |
//! | `wavefront` | layers that run at the same time |

mod cluster;
mod input;
mod problem;
mod single;
mod tensor;
#[cfg(test)]
mod tests;
mod text;
mod wavefront;

use std::ffi::CStr;

pub use problem::{Cell, Element, Problem};

/// How blocks share out the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Regime {
    /// A block computes all units of some rows of the batch: R1.
    Block,
    /// Blocks of a cluster compute some units each, and send them to each other at each step; more clusters have other rows
    /// of the batch: R2.
    Cluster,
    /// Blocks of the whole grid compute some units each, and exchange them at each step: R3.
    Grid,
    /// As R3, of canonical GRU, with one exchange a step where that has two: all blocks compute all units' new h.
    GridSingle,
    /// As R3, of so many layers one above the other, each a step behind the one below it.
    Wavefront { layers: usize },
}

/// What multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Math {
    /// Fused multiply-adds in float.
    Fma,
    /// Products of tiles: 16 rows of all gates' weights, and 8 rows of the batch. Floats are rounded to TF32.
    TensorCores,
}

/// What a kernel is compiled for, beside its problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    pub regime: Regime,
    pub math: Math,
    /// Hidden units of a block.
    pub units: usize,
    /// Rows of the batch that a block computes at once.
    pub batch_tile: usize,
    /// Of a block; in a cluster where W x is computed within each step, as many more compute that.
    pub threads: usize,
    /// Threads that share a dot product: within a warp; on tensor cores 4 of each of some warps.
    pub lanes: usize,
    /// Weights that a thread keeps in registers; it keeps the rest in shared memory.
    pub register_weights: usize,
    /// Likewise of W, where W x is computed within each step. `None`: that of all steps is computed ahead.
    pub input_register_weights: Option<usize>,
}

/// Registers of a multiprocessor, and the most of a thread.
const REGISTERS: usize = 65_536;
const MOST_REGISTERS: usize = 255;
/// Registers that a thread needs whatever it computes, those for each round of the reduction over lanes, and those for
/// each pair of a unit and a row that it owns. The compiler needs fewer where it is pressed, and not always finds them.
const BASE_REGISTERS: usize = 66;
const ROUND_REGISTERS: usize = 3;
/// Registers for weights that are under way from shared memory.
const FETCHED: usize = 12;
const PAIR_REGISTERS: usize = 9;
/// Packets have as many bytes, of which so many are data.
const PACKET: usize = 16;
const PACKET_DATA: usize = 12;
/// The most of them that a thread asks for at once.
const MOST_AT_ONCE: usize = 4;
/// Where dynamic shared memory begins, behind static: at a multiple of so many bytes.
const LINE: usize = 128;
/// What an exchange begins with, and what its groups are multiples of.
const EXCHANGE: usize = 128;
/// Clocks that a packet is under way to the L2 cache at least, and packets that all blocks together read there in a clock.
const SENT: usize = 200;
const PACKETS_A_CLOCK: usize = 256;
/// More fused multiply-adds than these in a time step's code compile for too long, and run past the instruction cache.
const MOST_CODE: usize = 1536;

/// The most recurrences that a launch computes.
pub const MOST_RECURRENCES: usize = 8;

const THREADS: [usize; 6] = [32, 64, 128, 256, 384, 512];
const LANES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Tiles, threads and lanes.
fn shapes(tiles: &[usize]) -> impl Iterator<Item = (usize, usize, usize)> {
    let blocks = tiles.iter().flat_map(|&tile| THREADS.map(|threads| (tile, threads)));
    blocks.flat_map(|(tile, threads)| LANES.map(|lanes| (tile, threads, lanes)))
}

impl Configuration {
    /// All that are worth a thought for a problem and fit its device, in no order.
    pub fn space(problem: &Problem) -> Vec<Self> {
        let mut kinds = vec![(Regime::Block, problem.hidden)];
        kinds.extend(problem.cluster_choices());
        kinds.extend(problem.grid_choices());
        let on_tensor_cores = kinds.clone();
        kinds.extend(problem.single_choices());
        kinds.extend(problem.wavefront_choices());
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

    /// With as many weights in registers as there is room for.
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
        // R before W: nothing hides what it takes to read R.
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

    /// Whether a kernel of this kind runs, and leaves few lanes without work where there is enough for more than a warp.
    pub fn fits(&self, problem: &Problem) -> bool {
        let used = self.is_shared_out()
            && match self.math {
                Math::Fma => {
                    let owned = self.threads / self.lanes * self.group_units();
                    (4 * self.units >= 3 * owned || self.threads == THREADS[0])
                        && (self.lanes == 1 || 16 * problem.hidden >= 11 * self.padded(problem))
                }
                Math::TensorCores => {
                    problem.tensor_cores && problem.cell != Cell::CanonicalGru && self.tiles_are_used(problem)
                }
            };
        let resident = match self.regime {
            Regime::Block => true,
            Regime::Cluster => self.is_a_cluster(problem),
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

    /// Whether so many lanes share out so many threads.
    fn is_shared_out(&self) -> bool {
        match self.math {
            Math::Fma => self.lanes <= 32,
            Math::TensorCores => self.lanes >= 4 && self.threads.is_multiple_of(8 * self.lanes),
        }
    }

    /// Fused multiply-adds in a step's code, and what takes as long to compile.
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
        match (self.regime, problem.cell) {
            (Regime::Block, Cell::CanonicalGru) => c"canonical_block",
            (Regime::Block, _) => c"recurrence_block",
            (Regime::Cluster, _) => c"recurrence_cluster",
            (Regime::Grid | Regime::GridSingle, _) => c"recurrence_grid",
            (Regime::Wavefront { .. }, _) => c"recurrence_wavefront",
        }
    }

    /// What its source is compiled with.
    pub fn options(&self, problem: &Problem) -> Vec<String> {
        let Self { units, batch_tile, threads, lanes, register_weights, .. } = self;
        let cell = match problem.cell {
            Cell::Lstm => "-DCELL_LSTM",
            Cell::Gru => "-DCELL_GRU",
            Cell::CanonicalGru => "-DCELL_CANONICAL_GRU",
            Cell::Tanh => "-DCELL_TANH",
            Cell::Relu => "-DCELL_RELU",
        };
        let element = match problem.element {
            Element::Float => "-DELEMENT_FLOAT",
            Element::Half => "-DELEMENT_HALF",
            Element::Bfloat16 => "-DELEMENT_BFLOAT16",
        };
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
        let first_look = (self.packets(problem) > 0).then(|| format!("-DFIRST_LOOK={}", self.first_look(problem)));
        let numbers = numbers.into_iter().chain(first_look).chain(self.input_options(problem));
        [cell.into(), element.into()].into_iter().chain(numbers).chain(math).chain(layers).chain(single).collect()
    }

    /// Clocks from a block's sending of h to its first look for the others', in whole 50. A look that comes too early costs a
    /// way to the L2 cache and back, and delays what it looks for: on an H200 a step of LSTM with H = 1024 and one row took
    /// 1.34 µs with a look at once, and 1.20 µs with one after 400 clocks; with H = 256 on 32 blocks 0.86 µs, and 0.81 µs
    /// after 200.
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
            Regime::Block | Regime::Cluster => problem.directions,
            Regime::Grid | Regime::GridSingle => {
                problem.directions.min(problem.multiprocessors / self.blocks(problem)).max(1)
            }
            Regime::Wavefront { layers } => layers,
        }
    }

    /// Groups of blocks that have tiles of their own at the same time, in each recurrence, all of them resident with one
    /// block a multiprocessor. In R1 each block is one, and blocks wait for each other as the device likes, as clusters do.
    pub fn groups(&self, problem: &Problem) -> usize {
        let blocks = self.blocks(problem) * self.at_once(problem);
        match self.regime {
            Regime::Block => self.tiles(problem),
            _ => self.tiles(problem).min(problem.multiprocessors / blocks).max(1),
        }
    }

    /// The launch's grid, which is cooperative in R3.
    pub fn grid(&self, problem: &Problem) -> [u32; 3] {
        let [x, y] = match self.regime {
            Regime::Block => [self.tiles(problem), 1],
            _ => [self.blocks(problem), self.groups(problem)],
        };
        [x as u32, y as u32, self.at_once(problem) as u32]
    }

    /// Blocks of the launch's clusters, as its grid is written.
    pub fn cluster(&self, problem: &Problem) -> [u32; 3] {
        if self.regime == Regime::Cluster { [self.blocks(problem) as u32, 1, 1] } else { [1; 3] }
    }

    /// Dynamic shared memory of a block, in bytes.
    pub fn shared_bytes(&self, problem: &Problem) -> usize {
        let (factor, sums) = match self.math {
            Math::Fma => (size_of::<f32>(), 0),
            Math::TensorCores => (problem.element.bytes(), self.meeting_bytes(problem)),
        };
        let h = self.batch_tile * self.padded(problem) * factor;
        let weights = self.shared_weights(problem) * self.threads * problem.element.bytes();
        let own = (self.packets_a_block(problem) * PACKET_DATA).next_multiple_of(16);
        let exchange = match self.regime {
            Regime::Block => h,
            Regime::Cluster => h + cluster::MBARRIERS,
            Regime::Grid => own,
            Regime::GridSingle => self.reset_bytes(problem),
            Regime::Wavefront { .. } => h + own,
        };
        h + exchange + sums + weights + self.input_bytes(problem)
    }

    /// Static shared memory of a block, which holds its units' biases, up to where dynamic shared memory begins. In bytes.
    /// None where warps of their own add them to W x.
    fn bias_bytes(&self, problem: &Problem) -> usize {
        if self.has_input_warps() {
            return 0;
        }
        (problem.cell.gates() * self.units * size_of::<f32>()).next_multiple_of(LINE)
    }

    /// Memory for the exchange between blocks, of one direction, all zero before the first launch; none in R1 and R2. In bytes.
    pub fn exchange_bytes(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::Block | Regime::Cluster => 0,
            Regime::Grid | Regime::GridSingle | Regime::Wavefront { .. } => {
                let packets = 2 * self.layers() * self.packets(problem) * PACKET;
                self.groups(problem) * (EXCHANGE + packets.next_multiple_of(EXCHANGE))
            }
        }
    }

    /// Packets that a layer's blocks exchange of a tile at each step; none in R1 and R2.
    pub fn packets(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::Block | Regime::Cluster => 0,
            Regime::Grid | Regime::Wavefront { .. } => self.blocks(problem) * self.packets_a_block(problem),
            Regime::GridSingle => self.triple_packets(problem),
        }
    }

    /// Times that a thread asks for packets at each step, one after the other.
    pub fn rounds(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::GridSingle => self.single_rounds(problem),
            _ => self.collected(problem).div_ceil(self.threads).div_ceil(MOST_AT_ONCE),
        }
    }

    fn packets_a_block(&self, problem: &Problem) -> usize {
        (self.units * self.batch_tile).div_ceil(PACKET_DATA / problem.element.bytes())
    }

    /// Of a block, with those that multiply the layer's input.
    pub fn block_threads(&self) -> usize {
        if self.has_input_warps() { 2 * self.threads } else { self.threads }
    }

    /// The most registers that a thread may have.
    pub fn most_registers(&self) -> usize {
        (REGISTERS / self.block_threads() / 8 * 8).min(MOST_REGISTERS)
    }

    /// An estimate of what a thread needs beside its weights.
    fn other_registers(&self, problem: &Problem) -> usize {
        let gates = problem.cell.gates();
        let a_pair = PAIR_REGISTERS + 2 * gates;
        match self.math {
            Math::Fma => {
                let pairs = self.group_units() * self.batch_tile;
                let rounds = self.lanes.ilog2() as usize;
                let own = pairs.div_ceil(self.lanes) * a_pair;
                let sums = pairs * self.pair_sums(problem);
                let more = self.neighbour_registers() + self.single_registers(problem) + self.input_registers(problem);
                BASE_REGISTERS + ROUND_REGISTERS * rounds + sums + 4 * self.batch_tile + own + more
            }
            Math::TensorCores => {
                BASE_REGISTERS
                    + self.tile_registers(problem)
                    + (self.units * self.batch_tile).div_ceil(self.threads) * a_pair
            }
        }
    }

    /// Units that a group of lanes computes with fused multiply-adds.
    pub fn group_units(&self) -> usize {
        self.units.div_ceil(self.threads / self.lanes)
    }

    /// H, with what is added so that each lane has as much of it; on tensor cores, so that rows do not collide in shared
    /// memory either.
    pub fn padded(&self, problem: &Problem) -> usize {
        match self.math {
            Math::Fma => problem.hidden.next_multiple_of(4 * self.lanes),
            Math::TensorCores => self.padded_chunks(problem),
        }
    }

    /// Weights of a thread, those that are 0 beside rows or columns included.
    pub fn weights(&self, problem: &Problem) -> usize {
        match self.math {
            Math::Fma => {
                let a_matrix = self.padded(problem) / self.lanes * self.group_units() * self.row_gates(problem);
                self.matrices() * a_matrix + self.column_weights(problem)
            }
            Math::TensorCores => self.fragments(problem) * tensor::fragment(problem),
        }
    }

    /// Those of them in shared memory.
    pub fn shared_weights(&self, problem: &Problem) -> usize {
        self.weights(problem).saturating_sub(self.register_weights)
    }
}
