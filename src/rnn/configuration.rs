//! What the recurrence's kernels can be compiled for: the space of configurations for a problem, and what each takes.
//! Nothing here knows a device: twins of the constants in `kernels/rnn/{share.cuh, block.cu, grid.cu}`.

use std::ffi::CStr;
use std::fmt;
use std::str::FromStr;

/// How h, c and the gates go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

impl Cell {
    /// Matrix products with h that a unit needs.
    pub fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
            Self::Tanh | Self::Relu => 1,
        }
    }
}

/// What weights, states and outputs are stored as. Arithmetic is in float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    Float,
    Half,
    Bfloat16,
}

impl Element {
    pub fn bytes(self) -> usize {
        if self == Self::Float { 4 } else { 2 }
    }
}

/// What kernels are made for: a network's recurrences, on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    pub cell: Cell,
    pub element: Element,
    pub hidden: usize,
    pub batch: usize,
    pub layers: usize,
    /// 1, or 2 that run over the same input from its two ends.
    pub directions: usize,
    /// Time steps, or about as many: launches take their time however few they do.
    pub steps: usize,
    /// Of the device.
    pub multiprocessors: usize,
    /// Bytes of shared memory that a block may have.
    pub shared_bytes: usize,
}

/// How blocks share out the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Regime {
    /// A block computes all units of some rows of the batch: R1.
    Block,
    /// Blocks of the whole grid compute some units each, and exchange them at each step: R3.
    Grid,
}

/// What a kernel is compiled for, beside its problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    pub regime: Regime,
    /// Hidden units of a block.
    pub units: usize,
    /// Rows of the batch that a block computes at once.
    pub batch_tile: usize,
    /// Of a block.
    pub threads: usize,
    /// Threads that share a dot product.
    pub lanes: usize,
    /// Weights that a thread keeps in registers; it keeps the rest in shared memory.
    pub register_weights: usize,
}

/// Registers of a multiprocessor, and the most of a thread.
const REGISTERS: usize = 65_536;
const MOST_REGISTERS: usize = 255;
/// Registers that a thread needs whatever it computes, those for each round of the reduction over lanes, and those for
/// each pair of a unit and a row that it owns. The compiler needs fewer where it is pressed, and not always finds them.
const BASE_REGISTERS: usize = 52;
const ROUND_REGISTERS: usize = 3;
/// Registers for weights that are under way from shared memory.
const FETCHED: usize = 12;
const PAIR_REGISTERS: usize = 9;
/// Packets have as many bytes, of which so many are data.
const PACKET: usize = 16;
const PACKET_DATA: usize = 12;
/// What an exchange begins with, and what its groups are multiples of.
const EXCHANGE: usize = 128;
/// More fused multiply-adds than these in a time step's code compile for too long, and run past the instruction cache.
const MOST_CODE: usize = 1536;

/// The most rows of a tile.
const MOST_ROWS: usize = 16;

const THREADS: [usize; 6] = [32, 64, 128, 256, 384, 512];
const LANES: [usize; 6] = [1, 2, 4, 8, 16, 32];

impl Configuration {
    /// All that are worth a thought for a problem and fit its device, in no order.
    pub fn space(problem: &Problem) -> Vec<Self> {
        let shapes = problem.tile_choices().into_iter().flat_map(|tile| THREADS.map(|threads| (tile, threads)));
        let shapes = shapes.flat_map(|(tile, threads)| LANES.map(|lanes| (tile, threads, lanes)));
        let all = shapes.flat_map(|(batch_tile, threads, lanes)| {
            let blocks = [(Regime::Block, problem.hidden)].into_iter();
            let grids = problem.unit_choices().into_iter().map(|units| (Regime::Grid, units));
            blocks.chain(grids).filter_map(move |(regime, units)| {
                let shape = Self { regime, units, batch_tile, threads, lanes, register_weights: 0 };
                shape.with_registers(problem).filter(|shape| shape.fits(problem))
            })
        });
        all.collect()
    }

    /// With as many weights in registers as there is room for.
    fn with_registers(self, problem: &Problem) -> Option<Self> {
        let (room, weights) =
            (self.most_registers().checked_sub(self.other_registers(problem))?, self.weights(problem));
        let register_weights = if weights <= room { weights } else { room.saturating_sub(FETCHED) / 4 * 4 };
        Some(Self { register_weights, ..self })
    }

    /// Whether a kernel of this kind runs, and leaves few lanes without work where there is enough for more than a warp.
    pub fn fits(&self, problem: &Problem) -> bool {
        let groups = self.threads / self.lanes;
        let owned = groups * self.group_units();
        let used = (4 * self.units >= 3 * owned || self.threads == THREADS[0])
            && (self.lanes == 1 || 16 * problem.hidden >= 11 * self.padded(problem));
        let resident = self.regime == Regime::Block || self.blocks(problem) <= problem.multiprocessors;
        used && resident
            && self.weights(problem) * self.batch_tile <= MOST_CODE
            && self.other_registers(problem) + self.register_weights <= self.most_registers()
            && self.shared_bytes(problem) <= problem.shared_bytes
    }

    /// The kernel's name.
    pub fn kernel(&self) -> &'static CStr {
        match self.regime {
            Regime::Block => c"recurrence_block",
            Regime::Grid => c"recurrence_grid",
        }
    }

    /// What its source is compiled with.
    pub fn options(&self, problem: &Problem) -> Vec<String> {
        let Self { units, batch_tile, threads, lanes, register_weights, .. } = self;
        let cell = match problem.cell {
            Cell::Lstm => "-DCELL_LSTM",
            Cell::Gru => "-DCELL_GRU",
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
            ("REGISTER_WEIGHTS", *register_weights),
        ];
        let numbers = numbers.map(|(name, number)| format!("-D{name}={number}"));
        [cell.into(), element.into()].into_iter().chain(numbers).collect()
    }

    /// Blocks that compute a tile of the batch together.
    pub fn blocks(&self, problem: &Problem) -> usize {
        problem.hidden.div_ceil(self.units)
    }

    /// Tiles of the batch.
    pub fn tiles(&self, problem: &Problem) -> usize {
        problem.batch.div_ceil(self.batch_tile)
    }

    /// Recurrences that a launch computes at the same time: both directions of a layer, unless their blocks wait for each
    /// other and are too many.
    pub fn at_once(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::Block => problem.directions,
            Regime::Grid => problem.directions.min(problem.multiprocessors / self.blocks(problem)).max(1),
        }
    }

    /// Groups of blocks that have tiles of their own at the same time, in each recurrence, all of them resident with one
    /// block a multiprocessor. In R1 each block is one, and blocks wait for each other as the device likes.
    pub fn groups(&self, problem: &Problem) -> usize {
        let blocks = self.blocks(problem) * self.at_once(problem);
        match self.regime {
            Regime::Block => self.tiles(problem),
            Regime::Grid => self.tiles(problem).min(problem.multiprocessors / blocks).max(1),
        }
    }

    /// The launch's grid, which is cooperative in R3.
    pub fn grid(&self, problem: &Problem) -> [u32; 3] {
        let [x, y] = match self.regime {
            Regime::Block => [self.tiles(problem), 1],
            Regime::Grid => [self.blocks(problem), self.groups(problem)],
        };
        [x as u32, y as u32, self.at_once(problem) as u32]
    }

    /// Dynamic shared memory of a block, in bytes.
    pub fn shared_bytes(&self, problem: &Problem) -> usize {
        let h = self.batch_tile * self.padded(problem) * size_of::<f32>();
        let weights = self.shared_weights(problem) * self.threads * problem.element.bytes();
        match self.regime {
            Regime::Block => 2 * h + weights,
            Regime::Grid => h + (self.packets_a_block(problem) * PACKET_DATA).next_multiple_of(16) + weights,
        }
    }

    /// Memory for the exchange between blocks of one recurrence, all zero before the first launch; none in R1. In bytes.
    pub fn exchange_bytes(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::Block => 0,
            Regime::Grid => {
                let packets = 2 * self.packets(problem) * PACKET;
                self.groups(problem) * (EXCHANGE + packets.next_multiple_of(EXCHANGE))
            }
        }
    }

    /// Packets that a tile's blocks exchange at each step; none in R1.
    pub fn packets(&self, problem: &Problem) -> usize {
        match self.regime {
            Regime::Block => 0,
            Regime::Grid => self.blocks(problem) * self.packets_a_block(problem),
        }
    }

    fn packets_a_block(&self, problem: &Problem) -> usize {
        (self.units * self.batch_tile).div_ceil(PACKET_DATA / problem.element.bytes())
    }

    /// The most registers that a thread may have.
    pub fn most_registers(&self) -> usize {
        (REGISTERS / self.threads / 8 * 8).min(MOST_REGISTERS)
    }

    /// An estimate of what a thread needs beside its weights.
    fn other_registers(&self, problem: &Problem) -> usize {
        let gates = problem.cell.gates();
        let pairs = self.group_units() * self.batch_tile;
        let own = pairs.div_ceil(self.lanes) * (PAIR_REGISTERS + 2 * gates);
        let rounds = self.lanes.ilog2() as usize;
        BASE_REGISTERS + ROUND_REGISTERS * rounds + pairs * gates + 4 * self.batch_tile + own
    }

    /// Units that a group of lanes computes.
    pub fn group_units(&self) -> usize {
        self.units.div_ceil(self.threads / self.lanes)
    }

    /// H, with what is added so that each lane has as much of it.
    pub fn padded(&self, problem: &Problem) -> usize {
        problem.hidden.next_multiple_of(4 * self.lanes)
    }

    /// Weights of a thread.
    pub fn weights(&self, problem: &Problem) -> usize {
        self.padded(problem) / self.lanes * self.group_units() * problem.cell.gates()
    }

    /// Those of them in shared memory.
    pub fn shared_weights(&self, problem: &Problem) -> usize {
        self.weights(problem).saturating_sub(self.register_weights)
    }
}

impl Problem {
    /// Units of a block with which 1, 2, 4, … tiles are computed at the same time, and with which fewer blocks exchange.
    fn unit_choices(&self) -> Vec<usize> {
        let groups = (0..).map(|power| 1 << power).take_while(|groups| 2 * groups <= self.multiprocessors);
        let mut choices: Vec<_> = groups
            .map(|groups| self.hidden.div_ceil(self.multiprocessors / groups))
            .filter(|&units| units < self.hidden)
            .collect();
        choices.dedup();
        choices
    }

    /// Rows of a tile: powers of two, and equal parts of the batch.
    fn tile_choices(&self) -> Vec<usize> {
        let parts = [1, 2, 3, 4].map(|parts| self.batch.div_ceil(parts));
        let powers = [1, 2, 4, 8].into_iter().filter(|&tile| tile <= self.batch);
        let mut choices: Vec<_> = powers.chain(parts).filter(|tile| (1..=MOST_ROWS).contains(tile)).collect();
        choices.sort_unstable();
        choices.dedup();
        choices
    }

    /// Bytes that an exchange takes at most, with whichever configuration.
    pub fn most_exchange_bytes(&self) -> usize {
        let bytes = Configuration::space(self).into_iter().map(|configuration| configuration.exchange_bytes(self));
        bytes.max().unwrap_or(0)
    }
}

impl fmt::Display for Configuration {
    /// Such as `grid u8 b4 t256 l32 r128`: regime, units, batch tile, threads, lanes, weights in registers.
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let Self { units, batch_tile, threads, lanes, register_weights, .. } = self;
        let regime = if self.regime == Regime::Block { "block" } else { "grid" };
        write!(formatter, "{regime} u{units} b{batch_tile} t{threads} l{lanes} r{register_weights}")
    }
}

impl FromStr for Configuration {
    type Err = String;

    /// What [`fmt::Display`] writes.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no configuration, such as \"grid u8 b4 t256 l32 r128\"");
        let words: Vec<_> = text.split(' ').collect();
        let [regime, numbers @ ..] = &words[..] else { return Err(bad()) };
        let regime = match *regime {
            "block" => Regime::Block,
            "grid" => Regime::Grid,
            _ => return Err(bad()),
        };
        let number = |word: &&str, letter| word.strip_prefix(letter)?.parse::<usize>().ok();
        let read = numbers.iter().zip(['u', 'b', 't', 'l', 'r']).map(|(word, letter)| number(word, letter));
        let numbers = read.collect::<Option<Vec<_>>>().filter(|read| read.len() == numbers.len()).ok_or_else(bad)?;
        let &[units, batch_tile, threads, lanes, register_weights] = &numbers[..] else { return Err(bad()) };
        let read = Self { regime, units, batch_tile, threads, lanes, register_weights };
        let sound = [units, batch_tile, threads, lanes].iter().all(|&number| (1..=1 << 20).contains(&number))
            && lanes.is_power_of_two()
            && lanes <= 32
            && threads.is_multiple_of(32)
            && threads <= 1024
            && register_weights.is_multiple_of(4);
        if sound { Ok(read) } else { Err(bad()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An H200.
    fn problem(cell: Cell, element: Element, hidden: usize, batch: usize) -> Problem {
        let (layers, directions, steps, multiprocessors) = (1, 1, 100, 132);
        Problem { cell, element, hidden, batch, layers, directions, steps, multiprocessors, shared_bytes: 227 << 10 }
    }

    /// All blocks are resident.
    #[test]
    fn both_directions_run_at_once_where_they_fit() {
        let one = problem(Cell::Lstm, Element::Float, 512, 8);
        let two = Problem { directions: 2, ..one };
        let configuration: Configuration = "grid u8 b4 t256 l32 r64".parse().unwrap();
        assert_eq!((configuration.grid(&one), configuration.grid(&two)), ([64, 2, 1], [64, 1, 2]));
        assert_eq!(configuration.exchange_bytes(&one), 2 * configuration.exchange_bytes(&two));
        let wide: Configuration = "grid u4 b4 t256 l32 r64".parse().unwrap();
        assert_eq!((wide.grid(&two), wide.at_once(&two)), ([128, 1, 1], 1));
        let block: Configuration = "block u512 b1 t256 l32 r64".parse().unwrap();
        assert_eq!(block.grid(&two), [8, 1, 2]);
        for configuration in Configuration::space(&two).iter().filter(|it| it.regime == Regime::Grid) {
            assert!(configuration.grid(&two).into_iter().product::<u32>() <= 132, "{configuration}");
        }
    }

    #[test]
    fn the_space_is_sound() {
        for (cell, element) in
            [(Cell::Lstm, Element::Float), (Cell::Gru, Element::Half), (Cell::Tanh, Element::Bfloat16)]
        {
            for hidden in [1, 2, 17, 64, 96, 100, 128, 250, 256, 512, 1000, 1024, 1536] {
                for batch in [1, 3, 20, 64] {
                    let problem = problem(cell, element, hidden, batch);
                    let space = Configuration::space(&problem);
                    assert!(!space.is_empty(), "nothing fits {problem:?}");
                    for (i, configuration) in space.iter().enumerate() {
                        assert!(configuration.fits(&problem) && !space[..i].contains(configuration), "{configuration}");
                        assert_eq!(configuration.to_string().parse(), Ok(*configuration));
                        let owned = configuration.threads / configuration.lanes * configuration.group_units();
                        assert!(
                            owned >= configuration.units
                                && configuration.blocks(&problem) * configuration.units >= hidden
                        );
                        let [x, y, z] = configuration.grid(&problem);
                        assert!(configuration.regime == Regime::Block || (x * y) as usize <= 132 && z == 1);
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_on_chip_is_not_offered() {
        assert!(Configuration::space(&problem(Cell::Lstm, Element::Float, 2048, 1)).is_empty());
        assert!(!Configuration::space(&problem(Cell::Lstm, Element::Half, 2048, 1)).is_empty());
        assert!(!Configuration::space(&problem(Cell::Tanh, Element::Float, 2048, 1)).is_empty());
        // All of a GPU that is a quarter as large holds a quarter of the weights.
        let small = Problem { multiprocessors: 32, ..problem(Cell::Lstm, Element::Float, 1024, 1) };
        assert!(Configuration::space(&small).is_empty());
        assert!(!Configuration::space(&Problem { hidden: 512, ..small }).is_empty());
    }

    #[test]
    fn memory_is_counted() {
        let problem = problem(Cell::Lstm, Element::Float, 1024, 20);
        let configuration: Configuration = "grid u8 b4 t256 l32 r96".parse().unwrap();
        assert!(configuration.fits(&problem));
        // 8 chunks of 4 elements, of 4 gates of 1 unit; 32 of them in shared memory.
        assert_eq!((configuration.weights(&problem), configuration.shared_weights(&problem)), (128, 32));
        let own = 11 * 12 + 12;
        assert_eq!(configuration.shared_bytes(&problem), 4 * 1024 * 4 + own + 32 * 256 * 4);
        assert_eq!(configuration.exchange_bytes(&problem), 128 + 2 * 128 * 11 * 16);
        assert_eq!(configuration.grid(&problem), [128, 1, 1]);
        let block: Configuration = "block u1024 b1 t256 l32 r0".parse().unwrap();
        assert_eq!((block.exchange_bytes(&problem), block.fits(&problem)), (0, false));
        assert_eq!(block.grid(&problem), [20, 1, 1]);
    }

    #[test]
    fn text_that_is_no_configuration() {
        let all = [
            "",
            "grid",
            "tree u8 b4 t256 l32 r128",
            "grid u8 b4 t256 l32",
            "grid u8 b4 t256 l32 r128 x1",
            "grid u8 b4 t256 l3 r128",
            "grid u8 b4 t250 l32 r128",
            "grid u0 b4 t256 l32 r128",
            "grid u-8 b4 t256 l32 r128",
            "grid b4 u8 t256 l32 r128",
            "grid u8 b4 t256 l64 r128",
            "grid u8 b4 t256 l32 r127",
        ];
        for text in all {
            let error = text.parse::<Configuration>().unwrap_err();
            assert!(error.contains(text) && error.contains("such as"), "{error}");
        }
    }
}
