//! Kernels with a part left out: some schedule shows each as wrong results.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gpu::Element;
use gpu::jit::Source;
use gpu::testing::emulated;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::case::Case;
use super::nets::{check_changed, options, tree_lstm_case};

/// What is left out or put in its place, and how the text is called that it stands in.
struct Mutation {
    file: &'static str,
    from: &'static str,
    /// The first one that is replaced, and from there on each so many.
    first: usize,
    each: usize,
    to: &'static str,
}

/// The text of a net's own kernels.
const NET: &str = "vertex_net.cu";

const MUTATIONS: [Mutation; 10] = [
    // The product begins before the tile is there; the next tile is made while the last one is read.
    Mutation { file: NET, from: "barrier();", first: 0, each: 2, to: "" },
    Mutation { file: NET, from: "barrier();", first: 1, each: 2, to: "" },
    // A level, and a whole batch, of a row less.
    Mutation { file: NET, from: "first_row < at.row_count", first: 0, each: 1, to: "first_row < at.row_count - 1" },
    Mutation {
        file: NET,
        from: "for_all(unsigned(at.row_count)",
        first: 0,
        each: 1,
        to: "for_all(unsigned(at.row_count - 1)",
    },
    // A parent less.
    Mutation { file: NET, from: "parent < ", first: 0, each: 1, to: "parent + 1 < " },
    // The last level's children.
    Mutation { file: NET, from: "[first_edge + 1]", first: 0, each: 1, to: "[first_edge]" },
    // Lazy products of a static batch take what lies behind its rows; and those of a level, of the level before.
    Mutation {
        file: "dynamic/products.cu",
        from: "KERNEL(clear_tails, Tails) {",
        first: 0,
        each: 1,
        to: "KERNEL(clear_tails, Tails) { return;",
    },
    Mutation { file: "dynamic/products.cu", from: "it.has_all_x ? first * it.depth : 0", first: 0, each: 1, to: "0" },
    // A tile's shared memory is written while others read it, or before it has arrived.
    Mutation {
        file: "dynamic/products.cu",
        from: "barrier(); // nobody reads the shared memory",
        first: 0,
        each: 1,
        to: "//",
    },
    Mutation {
        file: "common/tile_products.cuh",
        from: "barrier(); // the strip is there",
        first: 0,
        each: 1,
        to: "//",
    },
];

impl Mutation {
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

/// Runs in which a mutation must show.
const RUNS: usize = 12;

#[test]
fn mutations_are_found() {
    if !emulated::is_child("mutations::mutations_are_found") {
        return;
    }
    // One child is enough; and in the first one, blocks and threads run in order, which hides some.
    if std::env::var("HOSTDNN_SCHEDULE_SEED").as_deref() != Ok("1") {
        return;
    }
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &[9; 32]));
    // Narrow and wide levels, with the passes of each in kernels of their own and together.
    let cases: Vec<Case> =
        [(0, 12, 6), (1, 12, 500)].map(|(number, h, most)| tree_lstm_case(&mut runner, number, h, most)).into();
    let is_wrong = |mutation: &Mutation| {
        let is_there = Cell::new(false);
        let change = |source: Source| {
            let changed = mutation.change(source.clone());
            is_there.set(is_there.get() || changed.text != source.text || changed.headers != source.headers);
            changed
        };
        for _ in 0..RUNS {
            for (number, case) in cases.iter().enumerate() {
                for is_static in [false, true] {
                    let options = options(Element::Float, is_static);
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
    let all = MUTATIONS.iter().filter(|mutation| !is_wrong(mutation));
    let missed: Vec<_> =
        all.map(|mutation| format!("{}: {} -> {}", mutation.file, mutation.from, mutation.to)).collect();
    assert!(missed.is_empty(), "not found: {missed:#?}");
}
