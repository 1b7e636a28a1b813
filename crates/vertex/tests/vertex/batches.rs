//! Merged batches against batches of one graph that is the union of theirs.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use ucudnn_vertex::batch::{Batch, Block, Maxima};
use ucudnn_vertex::function::{Declaration, Net, USER_OPERATIONS};
use ucudnn_vertex::graphs::Graphs;

use super::case::{Arrays, Case, cases};

/// One graph of all graphs of a batch.
fn union(case: &Case) -> Arrays {
    let graphs = &case.graphs;
    let mut union = Arrays { first_vertex: vec![0], first_child: vec![0], ..Arrays::default() };
    let (mut kinds, mut rows) = (vec![], vec![]);
    let (mut vertices, mut first_row) = (0, 0);
    for id in &case.ids {
        let graph = *id as usize;
        let slots = graphs.slots(graph);
        let mut next_row = first_row;
        for (vertex, slots) in slots.iter().enumerate() {
            union.children.extend(slots.iter().map(|child| if *child < 0 { *child } else { vertices + child }));
            union.first_child.push(union.children.len() as i64);
            let place = graphs.first_vertex[graph] as usize + vertex;
            kinds.push(graphs.kinds.as_ref().map(|kinds| kinds[place]));
            let row = graphs.rows.as_ref().map_or(vertex as i32, |rows| rows[place]);
            rows.push(if row < 0 { row } else { first_row + row });
            next_row = next_row.max(first_row + row + 1);
        }
        first_row = next_row;
        vertices += slots.len() as i32;
    }
    union.first_vertex.push(vertices.into());
    (union.kinds, union.rows) = (kinds.into_iter().collect(), Some(rows));
    union
}

/// What a batch knows of a vertex, without the numbers of rows and edges.
#[derive(Debug, PartialEq)]
struct Found {
    level_and_kind: (usize, usize),
    children: Vec<Option<usize>>,
    /// Each with the slot.
    parents: Vec<(usize, usize)>,
    pulled: Option<usize>,
}

impl Found {
    fn of(batch: &Batch, vertex: usize) -> Self {
        let row = batch.row(vertex);
        assert_eq!(batch.vertex(row), vertex);
        let is_in = |block: &&Block| (block.row..block.row + block.rows).contains(&row);
        let block = batch.blocks().iter().find(is_in).unwrap();
        let edges = batch.edges_of(row);
        assert!(block.edge <= edges.start && edges.end <= block.edge + block.edges);
        let parent = |edge: &u32| {
            let edge = *edge as usize;
            let row = (0..batch.vertices()).find(|row| batch.edges_of(*row).contains(&edge)).unwrap();
            (batch.vertex(row), edge - batch.edges_of(row).start)
        };
        Self {
            level_and_kind: (block.level, block.kind),
            children: edges.map(|edge| batch.child(edge).map(|row| batch.vertex(row))).collect(),
            parents: batch.parents(row).iter().map(parent).collect(),
            pulled: batch.pulled(row),
        }
    }
}

proptest! {
    #[test]
    fn merging_is_levelling_the_union(case in cases()) {
        let net = Net::new(case.declaration.clone()).unwrap();
        let merged = case.batch(&net);
        let union = Graphs::new(&union(&case).description()).unwrap();
        let maxima = Maxima { graphs: 1, vertices: 100, children: 400, levels: 20 };
        let mut alone = Batch::new(maxima, case.declaration.functions.len()).unwrap();
        alone.set(&net, &union, &[0]).unwrap();
        prop_assert_eq!(merged.blocks(), alone.blocks());
        let counts = |batch: &Batch| (batch.levels(), batch.vertices(), batch.edges(), batch.pulled_rows());
        prop_assert_eq!(counts(&merged), counts(&alone));
        // Within a block, rows may have another order.
        for vertex in 0..merged.vertices() {
            prop_assert_eq!(Found::of(&merged, vertex), Found::of(&alone, vertex));
        }
        for pulled in 0..merged.pulled_rows() {
            let readers = |batch: &Batch| -> Vec<_> {
                batch.readers(pulled).iter().map(|row| batch.vertex(*row as usize)).collect()
            };
            prop_assert_eq!(readers(&merged), readers(&alone));
        }
        for kind in 0..case.declaration.functions.len() {
            let of_kind = |batch: &Batch| (batch.of_kind(kind), batch.blocks_of(kind).to_vec());
            prop_assert_eq!(of_kind(&merged), of_kind(&alone));
        }
    }

    #[test]
    fn texts_are_read_as_they_were_written(case in cases()) {
        let text = case.declaration.to_string();
        prop_assert_eq!(text.parse::<Declaration>().unwrap(), case.declaration);
    }
}

/// What is held against the oracle is all that users can write.
#[test]
fn random_cases_have_all_operations() {
    let mut runner = TestRunner::deterministic();
    let mut found = [0; USER_OPERATIONS];
    for _ in 0..500 {
        let case = cases().new_tree(&mut runner).unwrap().current();
        let operations = case.declaration.functions.iter().flat_map(|function| &function.operations);
        operations.for_each(|operation| found[operation.op as usize] += 1);
    }
    assert!(found.iter().all(|count| *count >= 20), "{found:?}");
}
