//! Kernels with a part left out: some schedule shows each as wrong results.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gpu::jit::Source;
use gpu::testing::emulated;
use gpu::{Device, Element};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use ucudnn_dynamic::{Executor, Fours, Options, Warpgroups, sources};
use vertex::function::{Declaration, Net};

use super::case::{Case, arrays, graphs};
use super::fours;
use super::levels::product_case;
use super::nets::{check_changed, options, tree_lstm_case};
use super::ready::ready;

/// A change of a kernel's text.
struct Mutation {
    file: &'static str,
    from: &'static str,
    /// The first occurrence that is replaced, and the step from each to the next.
    first: usize,
    each: usize,
    to: &'static str,
}

/// The text of a net's own kernels.
const NET: &str = "vertex_net.cu";

/// The text of products of levels.
const LEVELS: &str = "dynamic/level_products.cuh";

const MUTATIONS: [Mutation; 29] = [
    // The product begins before the tile is there; the next tile is made while the last one is read.
    Mutation { file: NET, from: "barrier();", first: 0, each: 2, to: "" },
    Mutation { file: NET, from: "barrier();", first: 1, each: 2, to: "" },
    // A level, and a whole batch, of a row less.
    Mutation::of(NET, "first_row < at.row_count", "first_row < at.row_count - 1"),
    Mutation::of(NET, "for_all(unsigned(at.row_count)", "for_all(unsigned(at.row_count - 1)"),
    // A parent less.
    Mutation::of(NET, "parent < ", "parent + 1 < "),
    // Passes of the second kind are left out where they run beside those of the first one.
    Mutation::of(NET, "blockIdx.z == 1", "blockIdx.z == 2"),
    // The last level's children.
    Mutation::of(NET, "[first_edge + 1]", "[first_edge]"),
    // Products of a level read the rows of another level.
    Mutation::of(LEVELS, "it.has_all_x ? first : 0", "0"),
    // A static batch's rows after the skipped ones: x starts at the first row instead.
    Mutation::of(LEVELS, "+ skipped) * it.depth", ") * it.depth"),
    // A matrix by depth is taken for one by columns; each of its strips is the first one.
    Mutation::of(LEVELS, "it.is_by_depth != 0", "false"),
    Mutation::of(LEVELS, "size_t(k + down)", "size_t(down)"),
    // A tile's shared memory is written while others read it, or before it has arrived.
    Mutation::of(LEVELS, "barrier(); // the strip is there", "//"),
    Mutation::of(LEVELS, "barrier(); // nobody reads the strips", "//"),
    Mutation::of(LEVELS, "barrier(); // all parts are there", "//"),
    Mutation::of(LEVELS, "barrier(); // nobody reads the parts", "//"),
    // Blocks of a cluster: another one's strips are overwritten, its parts are not waited for, or are those of the last tile;
    // a part begins too late, or is left out; rows go to another block.
    Mutation::of(LEVELS, "cluster_sync(); // no block reads", "barrier(); //"),
    Mutation::of(LEVELS, "while (!arrived.has_ended(parity)) spin.again();", ""),
    Mutation::of(LEVELS, "parity ^= 1", ""),
    Mutation::of(LEVELS, "min(part * of_part", "min((part + part) * of_part"),
    Mutation::of(LEVELS, "other < part_count * Tile::sharers", "other + 1 < part_count"),
    Mutation::of(LEVELS, "r * part_count / Rows", "r % part_count"),
    // A group of the depth is left out; rows of the tile are.
    Mutation::of(LEVELS, "+ of_group - 1) / of_group", ") / of_group"),
    Mutation::of(LEVELS, "first * 8 >= rows", "first * 8 + 8 >= rows"),
    Mutation::of("dynamic/outer_products.cuh", "barrier(); // the rows are there", "//"),
    // A slice has rows of the next one; its last rows are not in the sum; a slice is not added.
    Mutation::of("dynamic/outer_products.cuh", "row + down < end", "row + down < end + 1"),
    Mutation::of("dynamic/outer_products.cuh", "own.add_last();", ""),
    Mutation::of("dynamic/slices.cuh", "part < part_count", "part + 1 < part_count"),
    // Blocks do the work of other parts of a task. None writes where no part does.
    Mutation::of("dynamic/together.cuh", "blockIdx.x - first", "(blockIdx.x - first) / 2"),
    Mutation::of("common/tile_products.cuh", "barrier(); // the strip is there", "//"),
];

/// The text of products by warpgroups.
const WIDE: &str = "dynamic/warpgroup_products.cuh";

/// Mutations of products of many rows by warpgroups.
const OF_WIDE: [Mutation; 13] = [
    // A stage is multiplied before it is there, or filled while it is multiplied.
    Mutation::of("common/stage_ring.cuh", "while (!full[stage]", "while (false && !full[stage]"),
    Mutation::of("common/stage_ring.cuh", "while (!empty[stage]", "while (false && !empty[stage]"),
    Mutation::of(WIDE, "of_stage.template wait_for_groups<0>();", ""),
    // Parts take the place of stages that another warp multiplies, are added up before they are there, or are written again
    // while they are read.
    Mutation::of(WIDE, "barrier(); // no warp multiplies", "//"),
    Mutation::of(WIDE, "if (part_count > 1) barrier();", ""),
    Mutation::of(WIDE, "cluster_sync(); // all parts are there", "barrier(); //"),
    Mutation::of(WIDE, "cluster_sync(); // nobody reads", "//"),
    // A part less; a stage less; rows of another block.
    Mutation::of(WIDE, "other < part_count", "other + 1 < part_count"),
    Mutation::of(WIDE, "min(begin + of_part * WIDE_DEPTH", "min(begin + of_part * WIDE_DEPTH - 1"),
    Mutation::of(WIDE, "part * own_rows + number", "number"),
    // Products of the smaller parts are left out; lines of another block.
    Mutation::of(WIDE, "products_of_parts[product]", "products_of_parts[5]"),
    Mutation::of(WIDE, "row + LINE, all.rows", "row, all.rows"),
    Mutation::of(WIDE, "column + LINE, all.columns", "column, all.columns"),
];

impl Mutation {
    /// A change of each occurrence.
    const fn of(file: &'static str, from: &'static str, to: &'static str) -> Self {
        Self { file, from, first: 0, each: 1, to }
    }

    fn applied(&self, text: &str) -> String {
        let parts: Vec<_> = text.split(self.from).collect();
        let mut made = parts[0].to_owned();
        for (place, part) in parts[1..].iter().enumerate() {
            let is_replaced = place >= self.first && (place - self.first).is_multiple_of(self.each);
            made += if is_replaced { self.to } else { self.from };
            made += part;
        }
        made
    }

    fn change(&self, source: Source) -> Source {
        let mut changed = source;
        if changed.name == self.file {
            changed.text = self.applied(&changed.text).into();
        }
        for (name, text) in changed.headers.to_mut() {
            if *name == self.file {
                *text = self.applied(text).into();
            }
        }
        changed
    }
}

/// The text of loops over fours of elements.
const FOURS: &str = "dynamic/fours.cuh";

/// Mutations of code for four elements at once.
const OF_FOURS: [Mutation; 8] = [
    // Neighbours are all the first one, as they are read and as they are stored; the second parent's part is not added.
    Mutation::of(FOURS, "float_of(its.number[k])", "float_of(its.number[0])"),
    Mutation::of(FOURS, "number_of<Number>(four[k])", "number_of<Number>(four[0])"),
    Mutation::of(FOURS, "number[k] += other[k]", ""),
    // What is given in a second way takes the place of the first; an array that is not there is read.
    Mutation::of(FOURS, "sum += four;", "sum = four;"),
    Mutation::of(NET, "pulled < 0 ? Four{}", "false ? Four{}"),
    // Neighbours of a reduction have the first one's result.
    Mutation::of(NET, "x[k] > result[k]", "x[k] > result[0]"),
    Mutation::of(NET, "expf(x[k] - result[k]) / sum[k]", "expf(x[k] - result[k]) / sum[0]"),
    Mutation::of(NET, "edge + 1 == best[k]", "edge + 1 == best[0]"),
];

/// The text of the kernels for a path in one launch.
const PATH: &str = "vertex_path.cu";
const SHARED: &str = "dynamic/persistent.cuh";

/// Mutations of the kernels for paths.
const OF_PATHS: [Mutation; 14] = [
    // A packet of any launch is taken; launches do not count on; a packet is not waited for.
    Mutation::of("common/exchange.cuh", "arrived &= packets[i].has_epoch(epoch)", ""),
    Mutation::of(PATH, "path.epoch() = epoch", "path.epoch() += 0"),
    Mutation::of(
        SHARED,
        "collect(asked[j], packets + position + j * THREADS, first * PACKETS, ROW_GROUPS * PACKETS, epoch);",
        "",
    ),
    // Barriers: around the tile, after the parts, after products, after the threads' work on their own units.
    Mutation::of(SHARED, "barrier(); // the tile is there", "//"),
    Mutation::of(SHARED, "barrier(); // all parts are there", "//"),
    Mutation::of(SHARED, "barrier(); // the products are there", "//"),
    Mutation::of(SHARED, "barrier(); // y is there", "//"),
    Mutation::of(SHARED, "    barrier();\n}", "}"),
    // A sum lacks a part of its factors.
    Mutation::of(SHARED, "exact_parts[product]", "exact_parts[2]"),
    // Packets that are published before all own numbers are there.
    Mutation::of(SHARED, "element < OWN_ELEMENTS ? own(", "element + 1 < OWN_ELEMENTS ? own("),
    // What goes ahead is not read.
    Mutation::of(PATH, "read_ahead(count, ahead, read);", ""),
    // Parents before children; a level less; a unit less.
    Mutation::of(PATH, "path.step(number + 1)", "path.step(number)"),
    Mutation::of(PATH, "path.step(count - 2 - number)", "path.step(number)"),
    Mutation::of(SHARED, "return own()[0]", "return own()[0] - 1"),
];

/// Runs in which a mutation must show.
const RUNS: usize = 12;

/// One child of a test is enough; and in the first one, blocks and threads run in order, which hides some mutations.
fn looks_for_mutations(test: &str) -> bool {
    emulated::is_child(test) && std::env::var("HOSTDNN_SCHEDULE_SEED").as_deref() == Ok("1")
}

fn are_found(test: &str, mutations: &[Mutation]) {
    if !looks_for_mutations(test) {
        return;
    }
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &[9; 32]));
    // Narrow and wide levels, with the passes of each in kernels of their own and together. Of the wide ones, static
    // batches are set to fewer trees at first, or to these; and of the others some have several parts of outer products.
    let mut cases: Vec<Case> = [6, 500, 200, 20].map(|most| tree_lstm_case(&mut runner, 0, 12, most)).into();
    // Rows that are no quads have no fused kernel. Blocks share out the depth of few rows, and of more than a launch has blocks
    // for.
    cases.extend([product_case(203, 5), product_case(203, 100)]);
    let options = Options { warpgroups: Warpgroups::Never, ..options(Element::Float, false) };
    assert_found(mutations, &cases, options);
}

fn of_fours_are_found(test: &str, mutations: &[Mutation]) {
    if !looks_for_mutations(test) {
        return;
    }
    let options = Options { fours: Fours::Always, ..options(Element::Float, false) };
    assert_found(mutations, &fours::cases(), options);
}

#[test]
fn a_mutation_of_fours_is_found() {
    of_fours_are_found("mutations::a_mutation_of_fours_is_found", &OF_FOURS[1..2]);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn mutations_of_fours_are_found() {
    of_fours_are_found("mutations::mutations_of_fours_are_found", &OF_FOURS);
}

fn of_wide_are_found(test: &str, mutations: &[Mutation]) {
    if !looks_for_mutations(test) {
        return;
    }
    // Blocks share out the depth; all blocks of lines have rows; a block has several tiles, whose stages go round.
    let cases = [product_case(100, 5), product_case(133, 130), product_case(31, 4000)];
    let options = Options { warpgroups: Warpgroups::Always, ..options(Element::Float, false) };
    assert_found(mutations, &cases, options);
}

#[test]
fn a_mutation_of_products_by_warpgroups_is_found() {
    of_wide_are_found("mutations::a_mutation_of_products_by_warpgroups_is_found", &OF_WIDE[7..8]);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn mutations_of_products_by_warpgroups_are_found() {
    of_wide_are_found("mutations::mutations_of_products_by_warpgroups_are_found", &OF_WIDE);
}

#[test]
fn a_mutation_is_found() {
    are_found("mutations::a_mutation_is_found", &MUTATIONS[..1]);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn mutations_of_nets_are_found() {
    are_found("mutations::mutations_of_nets_are_found", &MUTATIONS[..7]);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn mutations_of_products_are_found() {
    are_found("mutations::mutations_of_products_are_found", &MUTATIONS[7..]);
}

fn of_paths_are_found(test: &str, mutations: &[Mutation]) {
    if !looks_for_mutations(test) {
        return;
    }
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32]));
    // Levels of more than a tile of rows, and products of edges.
    let tree = tree_lstm_case(&mut runner, 0, 6, 30);
    let [(_, text), ..] = ready(5, 6);
    let declaration: Declaration = text.parse().unwrap();
    let arities: Vec<_> = declaration.functions.iter().map(|function| function.children).collect();
    let graphs = arrays(&graphs(12, 1..9).new_tree(&mut runner).unwrap().current(), &arities);
    let ids = (0..graphs.first_vertex.len() as i64 - 1).collect();
    let sums = Case { declaration, graphs, ids, seed: 1 };
    let options = Options { executor: Executor::Persistent { groups: 1 }, ..options(Element::Float, false) };
    assert_found(mutations, &[tree, sums], options);
}

#[test]
fn a_mutation_of_paths_is_found() {
    of_paths_are_found("mutations::a_mutation_of_paths_is_found", &OF_PATHS[3..4]);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn mutations_of_paths_are_found() {
    of_paths_are_found("mutations::mutations_of_paths_are_found", &OF_PATHS);
}

/// A read of a packet's struct, in place of the words that were waited for. NVRTC may move it in front of the last read of
/// these, and a launch then takes values of the one before. No schedule shows that, so no such kernel may compile.
const STALE: Mutation = Mutation::of(SHARED, "value_of(packet, k + i)", "packet.packet.value[k + i]");

#[test]
fn a_path_that_reads_a_packets_struct_does_not_compile() {
    if !emulated::is_child("mutations::a_path_that_reads_a_packets_struct_does_not_compile") {
        return;
    }
    let [(_, text), ..] = ready(5, 6);
    let net = Net::new(text.parse().unwrap()).unwrap();
    let options = Options { executor: Executor::Persistent { groups: 1 }, ..options(Element::Float, false) };
    let path = sources(&net, options, [6, 96 << 10]).swap_remove(2).swap_remove(0);
    let load = |source: &Source| Device::Host.load(source).map(drop).map_err(|why| why.to_string());
    if emulated::compiled(load(&path)).is_none() {
        return;
    }
    let why = load(&STALE.change(path)).expect_err("no member of a packet");
    assert!(why.contains("packet"), "{why}");
}

/// Each mutation of kernels shows in some run, static or not.
fn assert_found(mutations: &[Mutation], cases: &[Case], options: Options) {
    let is_wrong = |mutation: &Mutation| {
        let is_there = Cell::new(false);
        let change = |source: Source| {
            let changed = mutation.change(source.clone());
            is_there.set(is_there.get() || changed.text != source.text || changed.headers != source.headers);
            changed
        };
        for run in 0..RUNS {
            for (number, case) in cases.iter().enumerate() {
                for is_static in [false, true] {
                    let tf32 = run % 2 == 1;
                    let options = Options { tf32, is_static, ..options };
                    if run == 0 {
                        let net = Net::new(case.declaration.clone()).unwrap();
                        let made = ucudnn_dynamic::Net::changed(&net, Device::Host, options, &change);
                        let Some(made) = emulated::compiled(made.map_err(|why| why.to_string())) else { return true };
                        if !made.load_all() {
                            return false; // it does not compile
                        }
                    }
                    let run = AssertUnwindSafe(|| check_changed(case, number, options, &change));
                    match catch_unwind(run) {
                        Ok(Some(())) => {}
                        Ok(None) => return true, // no compiler
                        Err(_) => return is_there.get(),
                    }
                }
            }
        }
        false
    };
    let missed = mutations.iter().filter(|mutation| !is_wrong(mutation));
    let missed: Vec<_> =
        missed.map(|mutation| format!("{}: {} -> {}", mutation.file, mutation.from, mutation.to)).collect();
    assert!(missed.is_empty(), "not found: {missed:#?}");
}
