//! Predicts the time of a time step, and ranks the configurations that are worth compiling.
//!
//! `step = max(products + element-wise + max(exchange, W x within) + delay, input warps)`, in clocks of the
//! multiprocessor. The products take the longer of their arithmetic and their reads, and then a reduction. W x within a
//! step is computed while h is on its way, and counts only as far as it takes longer. Input warps delay the other warps
//! by a part of their products, and a step takes at least as long as they do.

use super::configuration::{Cell, Configuration, Element, Math, Problem, Regime};

/// The model's constants for a device. Until it is measured, these are an H200's, fitted to `h200.csv`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// The fraction of the peak of fused multiply-adds that the products' loop reaches.
    pub efficiency: f64,
    /// Multiply-adds of a multiprocessor's tensor cores in a clock, for numbers of 2 bytes (TF32: half as many). And
    /// the clocks between two products of tiles that add to the same sums.
    pub tensor: f64,
    pub tensor_latency: f64,
    /// Clocks of one round of the reduction over lanes.
    pub shuffle: f64,
    /// Clocks of the gates' functions: for one pair of a unit and a row, and for each gate of 16 more pairs of a block.
    pub elementwise: f64,
    pub more_pairs: f64,
    /// Clocks between the last h and the first product in R1, or between products and their sums on tensor cores: a
    /// barrier and shared memory.
    pub block_exchange: f64,
    /// Clocks of the exchange in R2: a store's way to another block of the cluster.
    pub cluster_exchange: f64,
    /// Bytes that a multiprocessor gets from others of its cluster in a clock, in stores of 16 bytes.
    pub cluster_bytes: f64,
    /// Clocks of the exchange in R3: two barriers, and a packet's way through the L2 cache.
    pub grid_exchange: f64,
    /// Bytes that a multiprocessor reads from the L2 cache in a clock.
    pub l2_bytes: f64,
    /// Clocks of each further round of reading packets: a read of the L2 cache.
    pub l2_latency: f64,
    /// Clocks in which a multiprocessor adds a packet of partial sums to others.
    pub packet: f64,
    /// Clocks of a step's other work beside W x while h is on its way, or beside W x by input warps.
    pub meanwhile: f64,
    /// The fraction of the input warps' products that the other warps wait for.
    pub beside: f64,
    /// Clocks that one more launch takes.
    pub launch: f64,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            efficiency: 0.76,
            tensor: 1900.0,
            tensor_latency: 18.0,
            shuffle: 27.0,
            elementwise: 70.0,
            more_pairs: 0.78,
            block_exchange: 280.0,
            cluster_exchange: 400.0,
            cluster_bytes: 24.0,
            grid_exchange: 1000.0,
            l2_bytes: 22.0,
            l2_latency: 680.0,
            packet: 0.8,
            meanwhile: 450.0,
            beside: 0.5,
            launch: 6200.0,
        }
    }
}

/// Fused multiply-adds of a quarter of a multiprocessor in a clock, the most that a single warp gets; bytes that a
/// multiprocessor reads from its shared memory in a clock; values that it shuffles between lanes in a clock.
const FMAS: f64 = 32.0;
const SHARED_BYTES: f64 = 128.0;
const SHUFFLES: f64 = 32.0;
/// Rounds of shuffles that bring the gates of a pair together on one lane.
const GATHERING: f64 = 1.0;
/// The least bytes of shared memory traffic of a warp that reads 16 bytes a lane, however many lanes read the same.
const LEAST_READ: usize = 256;
/// Multiply-adds of a product of tiles (TF32: half as many, in the same time), and bytes of a row of h in a chunk.
const PRODUCT: usize = 16 * 8 * 16;
const CHUNK_BYTES: usize = 64;

impl Model {
    /// The constants by name, for reading and setting.
    pub fn constants(&mut self) -> [(&'static str, &mut f64); 16] {
        let Self { efficiency, tensor, tensor_latency, shuffle, elementwise, more_pairs, .. } = self;
        let Self { block_exchange, cluster_exchange, cluster_bytes, grid_exchange, .. } = self;
        let Self { l2_bytes, l2_latency, packet, meanwhile, beside, launch, .. } = self;
        [
            ("efficiency", efficiency),
            ("tensor", tensor),
            ("tensor_latency", tensor_latency),
            ("shuffle", shuffle),
            ("elementwise", elementwise),
            ("more_pairs", more_pairs),
            ("block_exchange", block_exchange),
            ("cluster_exchange", cluster_exchange),
            ("cluster_bytes", cluster_bytes),
            ("grid_exchange", grid_exchange),
            ("l2_bytes", l2_bytes),
            ("l2_latency", l2_latency),
            ("packet", packet),
            ("meanwhile", meanwhile),
            ("beside", beside),
            ("launch", launch),
        ]
    }

    /// Clocks of one time step of a tile.
    pub fn step(&self, problem: &Problem, configuration: &Configuration) -> f64 {
        let (gates, tile) = (problem.cell.gates(), configuration.batch_tile);
        let products = match configuration.math {
            Math::Fma => self.products(problem, configuration),
            Math::TensorCores => self.tensor_products(problem, configuration),
        };
        // If all blocks compute the new h, each has the last gate of all units.
        let functions = match configuration.regime {
            Regime::GridSingle => (gates - 1) * configuration.units + problem.hidden,
            _ => gates * configuration.units,
        };
        let elementwise = self.elementwise + self.more_pairs * (functions * tile) as f64 / 16.0;
        let on_the_way = self.exchanges(problem, configuration).max(self.input_within(problem, configuration));
        let [beside, least] = self.input_beside(problem, configuration);
        (products + elementwise + on_the_way + beside).max(least)
    }

    /// The clocks that W x by input warps adds to a step, and the least clocks of a step with them.
    fn input_beside(&self, problem: &Problem, configuration: &Configuration) -> [f64; 2] {
        if !configuration.has_input_warps() {
            return [0.0; 2];
        }
        let shared_weights = configuration.shared_input_weights(problem);
        let math = self.multiplying(problem, configuration, configuration.input_weights(problem), shared_weights);
        let weight_bytes = configuration.threads * shared_weights * problem.element.bytes();
        [self.beside * math, self.meanwhile + math.max(weight_bytes as f64 / SHARED_BYTES)]
    }

    /// Clocks of W x within a step, and of the other work, until h arrives; 0 where W x is computed ahead or by input
    /// warps.
    fn input_within(&self, problem: &Problem, configuration: &Configuration) -> f64 {
        if !configuration.multiplies_input() || configuration.has_input_warps() {
            return 0.0;
        }
        let shared_weights = configuration.shared_input_weights(problem);
        let math = self.multiplying(problem, configuration, configuration.input_weights(problem), shared_weights);
        let x_bytes = row_bytes(configuration, configuration.padded_input(problem));
        let weight_bytes = configuration.threads * shared_weights * problem.element.bytes();
        let half = math.max((x_bytes + weight_bytes) as f64 / SHARED_BYTES) / 2.0;
        // Blocks of a grid look for h after half of W x.
        let look = if configuration.regime == Regime::Grid { self.l2_latency } else { 0.0 };
        self.meanwhile + half + half.max(look)
    }

    /// Clocks of fused multiply-adds with `weights` weights a thread, `shared` of them from shared memory: weights of 2
    /// bytes from there become floats each time. Multiplied padding takes time too.
    fn multiplying(&self, problem: &Problem, configuration: &Configuration, weights: usize, shared: usize) -> f64 {
        let Configuration { batch_tile: tile, threads, .. } = *configuration;
        let converted = if problem.element == Element::Float { 0 } else { shared };
        (threads * (weights * tile + converted)) as f64 / (FMAS * (threads / 32).min(4) as f64 * self.efficiency)
    }

    /// Clocks of the exchanges of a step.
    fn exchanges(&self, problem: &Problem, configuration: &Configuration) -> f64 {
        let collected = configuration.collected(problem) as f64;
        let again = (configuration.rounds(problem).max(1) - 1) as f64;
        let packet = configuration.packet_bytes(problem);
        let through_l2 = self.grid_exchange + packet as f64 * collected / self.l2_bytes + self.l2_latency * again;
        let is_single = configuration.regime == Regime::GridSingle;
        let exchange = match configuration.regime {
            Regime::Block => self.block_exchange,
            // A store of fewer bytes takes as long.
            Regime::Cluster | Regime::Scatter => {
                self.cluster_exchange + (16 * configuration.stores(problem)) as f64 / self.cluster_bytes
            }
            Regime::Grid | Regime::GridScatter | Regime::Wavefront { .. } => through_l2,
            Regime::GridSingle => through_l2 + self.packet * collected,
        };
        // Canonical GRU has two products a step, each with an exchange.
        let exchanges = if problem.cell == Cell::CanonicalGru && !is_single { 2.0 } else { 1.0 };
        exchanges * exchange
    }

    /// Clocks of the products with fused multiply-adds, and of their reduction.
    fn products(&self, problem: &Problem, configuration: &Configuration) -> f64 {
        let Configuration { batch_tile: tile, threads, lanes, .. } = *configuration;
        let (weights, shared) = (configuration.weights(problem), configuration.shared_weights(problem));
        let math = self.multiplying(problem, configuration, weights, shared);
        let h_bytes = row_bytes(configuration, configuration.matrices() * configuration.padded(problem));
        let shared = (h_bytes + weight_bytes(problem, configuration)) as f64 / SHARED_BYTES;
        let pairs = configuration.group_units(problem) * tile;
        let rounds = lanes.ilog2() as f64 + if lanes > 1 && pairs < lanes { GATHERING } else { 0.0 };
        let values = threads * configuration.row_gates(problem) * (pairs - pairs.div_ceil(lanes)).max(1);
        let reduction = if lanes > 1 { (self.shuffle * rounds).max(values as f64 / SHUFFLES) } else { 0.0 };
        math.max(shared) + reduction + self.second_product(problem, configuration)
    }

    /// Clocks of the product with columns, which follows the one with rows: a barrier, and a reduction.
    fn second_product(&self, problem: &Problem, configuration: &Configuration) -> f64 {
        match configuration.regime {
            Regime::GridSingle => {
                self.block_exchange + self.shuffle * f64::from(configuration.column_lanes(problem).ilog2())
            }
            _ => 0.0,
        }
    }

    /// Clocks of the products on tensor cores, and of adding up their parts in shared memory: written, then read.
    fn tensor_products(&self, problem: &Problem, configuration: &Configuration) -> f64 {
        let warps = configuration.threads / 32;
        let products = warps.div_ceil(4) * 4 * configuration.products(problem);
        let depth = 2 * configuration.chunks(problem);
        let math = (products * PRODUCT) as f64 / self.tensor;
        let h_bytes = warps * configuration.chunks(problem) * configuration.batch_tile * CHUNK_BYTES;
        let shared = (h_bytes + weight_bytes(problem, configuration)) as f64 / SHARED_BYTES;
        let sums = 2 * configuration.sums_bytes(problem);
        // Sums that are scattered do not meet, and nobody waits for a barrier in between.
        let meeting = if configuration.is_scattered() { 0.0 } else { self.block_exchange };
        math.max(shared).max(depth as f64 * self.tensor_latency) + meeting + sums as f64 / SHARED_BYTES
    }

    /// Clocks of one time step of the whole batch, of all layers and directions.
    pub fn clocks(&self, problem: &Problem, configuration: &Configuration) -> f64 {
        let passes = problem.layers.div_ceil(configuration.layers());
        let launches = passes * problem.directions.div_ceil(configuration.at_once(problem));
        let launched = self.launched(problem, configuration) + self.launch / problem.steps as f64;
        let layers = if configuration.multiplies_input() { 0 } else { passes };
        let width = |layer| if layer == 0 { problem.input } else { problem.directions * problem.hidden };
        launched * launches as f64 + (0..layers).map(|layer| self.input(problem, width(layer))).sum::<f64>()
    }

    /// Clocks of one time step of a layer's input products, if computed ahead, for inputs of `width` elements.
    fn input(&self, problem: &Problem, width: usize) -> f64 {
        let Problem { element, hidden, batch, directions, .. } = *problem;
        let weights = problem.cell.gates() * hidden * width * directions;
        let rate = if element == Element::Float { 4.0 * FMAS * self.efficiency } else { self.tensor };
        let launches = directions as f64 * self.launch / problem.steps as f64;
        (batch * weights) as f64 / (rate * problem.multiprocessors as f64) + launches
    }

    /// Clocks of one time step of one launch. Tiles that wait for others to end count as more steps.
    fn launched(&self, problem: &Problem, configuration: &Configuration) -> f64 {
        let tiles = match configuration.regime {
            Regime::Block => configuration.tiles(problem) * configuration.at_once(problem),
            _ => configuration.tiles(problem),
        };
        let at_once = match configuration.regime {
            Regime::Block => problem.multiprocessors * self.blocks_a_multiprocessor(problem, configuration),
            Regime::Cluster | Regime::Scatter => {
                let resident = resident_clusters(problem.multiprocessors, configuration.blocks(problem));
                configuration.groups(problem).min(resident / configuration.at_once(problem))
            }
            _ => configuration.groups(problem),
        };
        let rounds = tiles.div_ceil(at_once.max(1));
        // Blocks of one multiprocessor take turns.
        let sharing = match configuration.regime {
            Regime::Block => tiles.min(at_once).div_ceil(problem.multiprocessors) as f64,
            // The layers of a wavefront begin one after the other, which takes `layers - 1` more steps.
            _ => 1.0 + (configuration.layers() - 1) as f64 / problem.steps as f64,
        };
        self.step(problem, configuration) * rounds as f64 * sharing
    }

    fn blocks_a_multiprocessor(&self, problem: &Problem, configuration: &Configuration) -> usize {
        (problem.shared_bytes / configuration.shared_bytes(problem).max(1)).min(512 / configuration.threads).max(1)
    }

    /// Returns the best `count` configurations, best first; the first is the model's choice. As far as `count` and the
    /// space allow, each of these is there both with and without: a wavefront; a single exchange a step; clusters (not
    /// every device of an architecture with clusters can hold them); scattered sums; W x within the steps. Empty where
    /// nothing fits.
    pub fn ranked(&self, problem: &Problem, count: usize) -> Vec<Configuration> {
        let mut space = Configuration::space(problem);
        space.sort_by(|a, b| self.clocks(problem, a).total_cmp(&self.clocks(problem, b)));
        if count >= space.len() {
            return space;
        }
        let kinds: [fn(&Configuration) -> bool; 5] = [
            |one| one.layers() > 1,
            |one| one.regime == Regime::GridSingle,
            |one| one.is_in_clusters(),
            |one| one.is_scattered(),
            |one| one.multiplies_input(),
        ];
        let others = kinds.iter().filter_map(|is_it| space.iter().position(|one| is_it(one) != is_it(&space[0])));
        let mut chosen: Vec<usize> = Vec::new();
        for index in [0].into_iter().chain(others).chain(0..space.len()) {
            if chosen.len() < count && !chosen.contains(&index) {
                chosen.push(index);
            }
        }
        chosen.sort_unstable();
        chosen.into_iter().map(|index| space[index]).collect()
    }
}

/// The clusters of this many blocks that are resident at once, with a block on each multiprocessor. A cluster lies within a
/// GPC, where it can use 16 multiprocessors, and some multiprocessors are in no whole GPC: an H100's 132 hold 30
/// clusters of 4 blocks, 15 of 8 and 7 of 16 (`cudaOccupancyMaxActiveClusters`).
fn resident_clusters(multiprocessors: usize, blocks: usize) -> usize {
    const GPC: usize = 16;
    let usable = multiprocessors * 10 / 11;
    usable / GPC * (GPC / blocks) + usable % GPC / blocks
}

/// Bytes that all warps of a block read of a tile's rows, each of `elements` elements.
fn row_bytes(configuration: &Configuration, elements: usize) -> usize {
    let Configuration { batch_tile: tile, threads, lanes, .. } = *configuration;
    (threads / 32) * tile * elements / (4 * lanes) * LEAST_READ.max(16 * lanes)
}

/// Bytes of weights that a block reads from shared memory at each step.
fn weight_bytes(problem: &Problem, configuration: &Configuration) -> usize {
    configuration.threads * configuration.shared_weights(problem) * problem.element.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lstm(hidden: usize, batch: usize) -> Problem {
        Problem { tensor_cores: false, ..Problem::on_an_h200(Cell::Lstm, Element::Float, hidden, batch) }
    }

    fn first(problem: &Problem) -> Configuration {
        Model::default().ranked(problem, 1)[0]
    }

    /// Each size gets the regime that was designed for it, and input warps where these are possible.
    #[test]
    fn layers_are_where_they_have_room() {
        for batch in [1, 10, 20] {
            assert_eq!(first(&Problem { input: 0, ..lstm(64, batch) }).regime, Regime::Block);
            assert!(first(&lstm(64, batch)).has_input_warps());
            assert_ne!(first(&lstm(512, batch)).regime, Regime::Block);
            assert_eq!(first(&lstm(1024, batch)).regime, Regime::Grid);
        }
        assert_eq!(first(&lstm(1024, 1)).grid(&lstm(1024, 1)), [128, 1, 1]);
    }

    #[test]
    fn best_first_and_as_many_as_asked_for() {
        let (problem, model) = (lstm(256, 10), Model::default());
        let all = model.ranked(&problem, usize::MAX);
        assert_eq!(all.len(), Configuration::space(&problem).len());
        assert!(all.is_sorted_by(|a, b| model.clocks(&problem, a) <= model.clocks(&problem, b)));
        assert_eq!(model.ranked(&problem, 1), all[..1]);
        // Too large for a cluster, and no W x within the steps.
        let wide = Problem { input: 0, ..lstm(1024, 10) };
        assert_eq!(model.ranked(&wide, 5), model.ranked(&wide, usize::MAX)[..5]);
        assert!(model.ranked(&lstm(4096, 1), 5).is_empty());
    }

    /// If a device can hold none of the clusters, another candidate is there.
    #[test]
    fn not_all_that_is_tried_is_a_cluster() {
        let model = Model::default();
        for (hidden, batch, layers) in [(128, 1, 1), (256, 1, 1), (256, 20, 1), (256, 1, 3)] {
            let problem = Problem { layers, ..lstm(hidden, batch) };
            let ranked = model.ranked(&problem, 5);
            let is_a_cluster = |one: &&Configuration| one.regime == Regime::Cluster;
            let clusters = ranked.iter().filter(is_a_cluster).count();
            assert!(ranked.len() == 5 && (1..5).contains(&clusters), "{hidden} {batch} {layers}: {ranked:?}");
            assert!(ranked.is_sorted_by(|a, b| model.clocks(&problem, a) <= model.clocks(&problem, b)));
            assert!(layers == 1 || ranked.iter().any(|one| one.layers() > 1), "{ranked:?}");
        }
    }

    #[test]
    fn an_h100_s_clusters_are_resident() {
        let measured = [(4, 30), (5, 22), (7, 15), (8, 15), (10, 7), (16, 7)];
        for (blocks, clusters) in measured {
            assert_eq!(resident_clusters(132, blocks), clusters, "{blocks}");
        }
    }

    /// Rows that are computed one after the other take longer.
    #[test]
    fn more_rows_take_no_less() {
        let model = Model::default();
        for hidden in [64, 256, 1024] {
            let best = |batch| model.clocks(&lstm(hidden, batch), &first(&lstm(hidden, batch)));
            let times: Vec<_> = [1, 4, 20, 64, 200].map(best).into();
            assert!(times.is_sorted(), "{hidden}: {times:?}");
        }
    }

    /// Blocks of both directions share the device, or one direction waits for the other.
    #[test]
    fn two_directions_take_more_than_one() {
        let model = Model::default();
        for (hidden, batch, least, most) in
            [(64, 1, 1.0, 1.001), (512, 20, 1.1, 2.0), (1024, 1, 1.3, 1.9), (1536, 1, 2.0, 2.0)]
        {
            let one = Problem { input: 0, ..lstm(hidden, batch) };
            let two = Problem { directions: 2, ..one };
            // Without the launches of the input's products.
            let clocks = |problem| model.clocks(&problem, &first(&problem)) - model.input(&problem, 0);
            let [first, second] = [one, two].map(clocks);
            assert!((least..=most).contains(&(second / first)), "{hidden}: {first} {second}");
        }
        let layers = Problem { layers: 3, ..lstm(512, 4) };
        let configuration = first(&lstm(512, 4));
        let one = Model { launch: 0.0, ..model }.input(&layers, 512);
        let layered = 3.0 * model.clocks(&lstm(512, 4), &configuration);
        assert!((model.clocks(&layers, &configuration) - layered).abs() < 1e-6 * layered);
        assert!((one - 4.0 * 4.0 * 512.0 * 512.0 / (128.0 * model.efficiency * 132.0)).abs() < 1e-6 * one);
    }

    /// Several layers at once save steps, launches and products, but begin one after the other.
    #[test]
    fn wavefronts_are_ranked_beside_layers_one_after_the_other() {
        let model = Model::default();
        let problem = Problem { layers: 3, input: 0, ..lstm(256, 1) };
        let best = first(&problem);
        assert_eq!(best.regime, Regime::Wavefront { layers: 3 });
        // Without the launches of the input's products and of the recurrence.
        let clocks = |steps| {
            let problem = Problem { steps, ..problem };
            model.clocks(&problem, &best) - 2.0 * model.launch / steps as f64
        };
        assert!((clocks(2) / clocks(100) - 2.0 / 1.02).abs() < 1e-6);
        for count in [2, 5] {
            let ranked = model.ranked(&problem, count);
            assert!(ranked.len() == count && ranked[0] == best);
            assert!(ranked.iter().any(|one| one.layers() == 1), "{ranked:?}");
        }
        assert_eq!(model.ranked(&problem, 1), [best]);
    }

    /// A single exchange pays with few blocks; many blocks send too much. Where both may win, both are candidates.
    #[test]
    fn canonical_gru_exchanges_once_or_twice() {
        let problem = |hidden| Problem::on_an_h200(Cell::CanonicalGru, Element::Float, hidden, 1);
        for (hidden, regime) in
            [(64, Regime::Block), (160, Regime::GridSingle), (256, Regime::Grid), (1024, Regime::Grid)]
        {
            assert_eq!(first(&problem(hidden)).regime, regime, "{hidden}");
        }
        for hidden in [160, 256] {
            let ranked = Model::default().ranked(&problem(hidden), 3);
            let singles = ranked.iter().filter(|one| one.regime == Regime::GridSingle).count();
            assert!((1..3).contains(&singles), "{ranked:?}");
        }
        // Every block reads the packets of all blocks for all units, at once or in rounds.
        let clocks = |text: &str, model: &Model| model.step(&problem(160), &text.parse().unwrap());
        let model = Model::default();
        let slow = Model { packet: model.packet + 0.1, l2_latency: 900.0, ..model };
        let more = |text: &str| clocks(text, &slow) - clocks(text, &model);
        assert!((more("grid-single u32 b1 t128 l4 r0") - 0.1 * f64::from(6 * 5 * 11)).abs() < 1e-9);
        assert!(
            (more("grid-single u10 b1 t32 l4 r0") - 0.1 * f64::from(17 * 16 * 4) - 3.0 * (900.0 - model.l2_latency))
                .abs()
                < 1e-9
        );
        assert_eq!(more("grid u32 b1 t128 l4 r0"), 0.0);
    }

    /// Each part of the formula shows where it is the one that differs.
    #[test]
    fn parts_of_a_step() {
        let (model, problem) = (Model::default(), lstm(1024, 8));
        let step = |text: &str| model.step(&problem, &text.parse().unwrap());
        // Weights in registers, or in shared memory, where 8 warps read 512 bytes at a time.
        let in_registers = step("grid u8 b1 t256 l32 r128");
        let in_shared = step("grid u8 b1 t256 l32 r0");
        let (h, weights) = (8 * 8 * 512 / 128, 128 * 256 * 4 / 128);
        let math = 128.0 * 256.0 / (128.0 * model.efficiency);
        assert!((in_shared - in_registers - (f64::from(h + weights) - math)).abs() < 1e-6);
        let Model { shuffle, elementwise, more_pairs, grid_exchange, l2_bytes, .. } = model;
        let exchange = grid_exchange + 16.0 * 128.0 * 2.0 / l2_bytes;
        let expected = math + shuffle * 6.0 + elementwise + more_pairs * 2.0 + exchange;
        assert!((in_registers - expected).abs() < 1e-6, "{in_registers} {expected}");
        // W x within a step counts as far as it takes longer than the exchange.
        let within = step("grid u8 b1 t256 l32 r128 w0");
        let half = f64::from(h + weights) / 2.0;
        let longer = model.meanwhile + half + half.max(model.l2_latency) - exchange;
        assert!(longer > 0.0 && (within - in_registers - longer).abs() < 1e-6, "{within} {in_registers} {longer}");
        // In a cluster only the exchange differs: for each row, stores of 4 units.
        let problem = lstm(256, 8);
        let [cluster, grid] = ["cluster", "grid"].map(|regime| format!("{regime} u16 b4 t128 l16 r64"));
        let [cluster, grid] = [cluster, grid].map(|text| model.step(&problem, &text.parse().unwrap()));
        let sent = model.cluster_exchange + 16.0 * 4.0 * 64.0 / model.cluster_bytes;
        let packets = grid_exchange + 16.0 * 16.0 * 16.0 / l2_bytes;
        assert!((cluster - sent - (grid - packets)).abs() < 1e-6, "{cluster} {grid}");
    }
}
