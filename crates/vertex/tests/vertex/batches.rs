//! Merged batches against batches of one graph, the union of all.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use ucudnn_vertex::batch::{self, Batch, Block, Maxima, Policy};
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

/// Adds a graph of so many vertices with a slot each, which is empty, or has the vertex before in it, in turns. Every third
/// one pulls no row.
fn extend_by_pairs(to: &mut Arrays, count: usize) {
    for vertex in 0..count as i32 {
        to.children.push(if vertex % 2 == 0 { -1 } else { vertex - 1 });
        to.first_child.push(to.children.len() as i64);
        to.kinds.iter_mut().for_each(|kinds| kinds.push(0));
        to.rows.iter_mut().for_each(|rows| rows.push(if vertex % 3 == 1 { -1 } else { vertex }));
    }
    to.first_vertex.push(to.first_child.len() as i64 - 1);
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
        let parent = |edge: &i32| {
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

/// The arrays that a batch writes elsewhere.
#[derive(Debug, Default, PartialEq)]
struct Written {
    first_edge: Vec<i32>,
    child: Vec<i32>,
    parents_of: Vec<[i32; 2]>,
    parents: Vec<i32>,
    vertex: Vec<i32>,
    row: Vec<i32>,
    pulled: Vec<i32>,
    readers_end: Vec<i32>,
    readers: Vec<i32>,
}

impl Written {
    const POISON: i32 = -77;

    /// Those of a batch of these graphs.
    fn by(batch: &mut Batch, net: &Net, graphs: &Graphs, ids: &[i64]) -> Self {
        batch.plan(net, graphs, ids).unwrap();
        let poison = |count: usize| vec![Self::POISON; count];
        let (vertices, edges) = (batch.vertices(), batch.edges());
        let mut its = Self {
            first_edge: poison(vertices + 1),
            child: poison(edges),
            parents_of: vec![[Self::POISON; 2]; vertices],
            parents: poison(batch.edges_of_children()),
            vertex: poison(vertices),
            row: poison(vertices),
            pulled: poison(vertices),
            readers_end: poison(batch.pulled_rows()),
            readers: poison(batch.pulling_rows()),
        };
        let arrays = batch::Arrays {
            first_edge: &mut its.first_edge,
            child: &mut its.child,
            parents_of: &mut its.parents_of,
            parents: &mut its.parents,
            vertex: &mut its.vertex,
            row: Some(&mut its.row),
            pulled: &mut its.pulled,
            readers_end: &mut its.readers_end,
            readers: &mut its.readers,
        };
        batch.write(graphs, ids, arrays);
        its
    }

    /// Those that a batch has for the host.
    fn of(batch: &Batch) -> Self {
        let (rows, pulled_rows) = (|| 0..batch.vertices(), || 0..batch.pulled_rows());
        let number = |number: Option<usize>| number.map_or(-1, |number| number as i32);
        let mut first_edge: Vec<_> = rows().map(|row| batch.edges_of(row).start as i32).collect();
        first_edge.push(batch.edges() as i32);
        let mut its = Self {
            first_edge,
            child: (0..batch.edges()).map(|edge| number(batch.child(edge))).collect(),
            vertex: rows().map(|row| batch.vertex(row) as i32).collect(),
            row: rows().map(|vertex| batch.row(vertex) as i32).collect(),
            pulled: rows().map(|row| number(batch.pulled(row))).collect(),
            readers: pulled_rows().flat_map(|pulled| batch.readers(pulled)).copied().collect(),
            ..Self::default()
        };
        its.readers_end.extend(pulled_rows().scan(0, |end, pulled| {
            *end += batch.readers(pulled).len() as i32;
            Some(*end)
        }));
        // Parents are graph by graph, and in a graph by its sorted vertices, not by rows.
        its.parents_of = rows().map(|row| batch.parents_of(row)).collect();
        its.parents.resize(batch.edges_of_children(), Self::POISON);
        for row in rows() {
            let [first, end] = batch.parents_of(row).map(|place| place as usize);
            its.parents[first..end].copy_from_slice(batch.parents(row));
        }
        its
    }
}

/// The fewest steps in which a batch of up to 20 vertices can run, by trying all sets of done vertices. To run all ready
/// vertices of a kind is as good as to run some.
fn fewest_steps(batch: &Batch) -> usize {
    let count = batch.vertices();
    if count > 20 {
        return 0;
    }
    let kind = |row: usize| Found::of(batch, batch.vertex(row)).level_and_kind.1;
    let kinds: Vec<_> = (0..count).map(kind).collect();
    let children = |row: usize| batch.edges_of(row).filter_map(|edge| batch.child(edge));
    let needs: Vec<u32> = (0..count).map(|row| children(row).fold(0, |needs, child| needs | 1 << child)).collect();
    let (all, mut steps) = (u32::MAX >> (32 - count), 0);
    let mut reached = std::collections::BTreeSet::from([0_u32]);
    while !reached.contains(&all) {
        let run = |done: &u32, kind: usize| {
            let is_ready = |row: &usize| kinds[*row] == kind && needs[*row] & !done == 0;
            (0..count).filter(is_ready).fold(*done, |done, row| done | 1 << row)
        };
        let next = |done: &u32| (0..3).map(|kind| run(done, kind)).collect::<Vec<_>>();
        reached = reached.iter().flat_map(next).collect();
        steps += 1;
    }
    steps
}

/// Two kinds that take turns at different places: by height, each level runs both.
#[test]
fn steps_by_ratio_are_fewer_where_kinds_take_turns() {
    let text = "states 1\nparameters 1x1\npulls\npushes 1\n\
                function 1:\n%0 = gather 0, 0\n%1 = matmul P0, %0\nscatter 0, %1\npush 0, %1\n\
                function 2:\n%0 = gather 0, 0\n%1 = matmul P0, %0\n%2 = gather 1, 0\n%3 = add %1, %2\n\
                scatter 0, %3\npush 0, %3\n";
    let net = Net::new(text.parse().unwrap()).unwrap();
    assert_eq!(Policy::of(&net), Policy::Ratio);
    let mut arrays = Arrays { first_vertex: vec![0], first_child: vec![0], ..Arrays::default() };
    // Chains of these kinds, which have one slot and two.
    for kinds in [&[0, 0, 1, 1][..], &[0, 1, 1]] {
        let chain = kinds.iter().map(|kind| vec![-1; kind + 1]);
        for (vertex, mut slots) in chain.enumerate() {
            slots[0] = vertex as i32 - 1;
            arrays.children.extend(slots);
            arrays.first_child.push(arrays.children.len() as i64);
        }
        arrays.first_vertex.push(arrays.first_child.len() as i64 - 1);
    }
    let graphs = Graphs::new(&arrays.description()).unwrap();
    let maxima = Maxima { graphs: 2, vertices: 8, children: 16, levels: 4 };
    let blocks = |policy: Policy| {
        let mut batch = Batch::new(maxima, &net, policy).unwrap();
        batch.set(&net, &graphs, &[0, 1]).unwrap();
        batch.blocks().iter().map(|block| (block.kind, block.rows)).collect::<Vec<_>>()
    };
    assert_eq!(blocks(Policy::Height), [(0, 2), (0, 1), (1, 1), (1, 2), (1, 1)]);
    // None are fewer: two of each kind stand one above the other.
    assert_eq!(blocks(Policy::Ratio), [(0, 2), (0, 1), (1, 2), (1, 2)]);
}

proptest! {
    /// The union of many equal graphs has long runs.
    #[test]
    fn merging_is_levelling_the_union(
        case in cases(),
        times in prop_oneof![7 => Just(1), 1 => Just(24)],
        is_by_ratio: bool,
    ) {
        let case = Case { ids: case.ids.repeat(times), ..case };
        let policy = if is_by_ratio { Policy::Ratio } else { Policy::Height };
        let net = Net::new(case.declaration.clone()).unwrap();
        let merged = case.batch(&net, policy);
        let union = Graphs::new(&union(&case).description()).unwrap();
        let maxima = Maxima { graphs: 1, vertices: 100 * times, children: 400 * times, levels: 20 };
        let mut alone = Batch::new(maxima, &net, policy).unwrap();
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

    /// Whatever the batch held before, and wherever its arrays are written.
    #[test]
    fn a_batch_that_is_set_again_is_a_fresh_one(case in cases(), groups in 1..4_usize, is_by_ratio: bool) {
        let policy = if is_by_ratio { Policy::Ratio } else { Policy::Height };
        let net = Net::new(case.declaration.clone()).unwrap();
        let graphs = Graphs::new(&case.graphs.description()).unwrap();
        let maxima = Maxima { graphs: 1000, vertices: 5000, children: 20_000, levels: 1000 };
        let [mut used, mut fresh, mut host] = [(); 3].map(|()| {
            let mut made = Batch::new(maxima, &net, policy).unwrap();
            made.deal_to(groups).unwrap();
            made
        });
        let all: Vec<_> = (0..graphs.count() as i64).rev().collect();
        for ids in [&case.ids.repeat(3)[..], &all, &case.ids[..1]] {
            Written::by(&mut used, &net, &graphs, ids);
            host.set(&net, &graphs, ids).unwrap();
        }
        host.set(&net, &graphs, &case.ids).unwrap();
        let expected = Written::by(&mut fresh, &net, &graphs, &case.ids);
        prop_assert_eq!(&Written::by(&mut used, &net, &graphs, &case.ids), &expected);
        prop_assert_eq!(used.blocks(), fresh.blocks());
        for group in 0..groups {
            let dealt = |batch: &Batch| batch.blocks_of_group(group).collect::<Vec<_>>();
            prop_assert_eq!(dealt(&used), dealt(&fresh));
            prop_assert_eq!(dealt(&host), dealt(&fresh));
        }
        let all = [&expected.first_edge, &expected.child, &expected.parents, &expected.vertex, &expected.pulled];
        prop_assert!(all.into_iter().flatten().all(|number| *number != Written::POISON));
        prop_assert_eq!(Written::of(&host), expected);
    }

    #[test]
    fn steps_by_ratio_are_few_and_in_order(case in cases()) {
        let net = Net::new(case.declaration.clone()).unwrap();
        let [by_height, by_ratio] = [Policy::Height, Policy::Ratio].map(|policy| case.batch(&net, policy));
        let fewest = fewest_steps(&by_height);
        let (height, ratio) = (by_height.blocks().len(), by_ratio.blocks().len());
        prop_assert!(fewest <= ratio && ratio <= height, "{fewest}, by ratio {ratio}, by height {height}");
        let mut row = 0;
        for block in by_ratio.blocks() {
            prop_assert_eq!(block.row, row);
            row += block.rows;
            for edge in (block.row..row).flat_map(|row| by_ratio.edges_of(row)) {
                prop_assert!(by_ratio.child(edge).is_none_or(|child| child < block.row), "a child runs too late");
            }
        }
        prop_assert_eq!(row, by_ratio.vertices());
    }

    #[test]
    fn texts_are_read_as_they_were_written(case in cases()) {
        let text = case.declaration.to_string();
        prop_assert_eq!(text.parse::<Declaration>().unwrap(), case.declaration);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Beside a graph of more vertices than two bytes can count, numbers have four.
    #[test]
    fn graphs_beside_a_large_one_make_the_same_batches(case in cases(), is_by_ratio: bool) {
        let policy = if is_by_ratio { Policy::Ratio } else { Policy::Height };
        let net = Net::new(case.declaration.clone()).unwrap();
        let mut wide = case.graphs.clone();
        extend_by_pairs(&mut wide, 1 << 16);
        let maxima = Maxima { graphs: 1000, vertices: 5000, children: 20_000, levels: 1000 };
        let [expected, found] = [&case.graphs, &wide].map(|arrays| {
            let mut batch = Batch::new(maxima, &net, policy).unwrap();
            Written::by(&mut batch, &net, &Graphs::new(&arrays.description()).unwrap(), &case.ids)
        });
        prop_assert_eq!(found, expected);
    }
}

/// Two bytes count the vertices of the one graph, and the place behind the last, but not those of the other.
#[test]
fn graphs_about_two_bytes_make_the_same_batches_beside_a_larger_one() {
    let text = "states 1\nparameters\npulls 1\npushes 1\n\
                function 1:\n%0 = gather 0, 0\n%1 = pull 0\n%2 = add %0, %1\nscatter 0, %2\npush 0, %2\n";
    let net = Net::new(text.parse().unwrap()).unwrap();
    for count in [65_535, 65_536] {
        let mut alone = Arrays { first_vertex: vec![0], first_child: vec![0], rows: Some(vec![]), ..Arrays::default() };
        extend_by_pairs(&mut alone, count);
        let mut beside = alone.clone();
        extend_by_pairs(&mut beside, 1 << 17);
        let maxima = Maxima { graphs: 1, vertices: count, children: count, levels: 2 };
        let [found, expected] = [alone, beside].map(|arrays| {
            let mut batch = Batch::new(maxima, &net, Policy::of(&net)).unwrap();
            Written::by(&mut batch, &net, &Graphs::new(&arrays.description()).unwrap(), &[0])
        });
        assert!(found == expected, "{count}");
        // Vertices with an even number come first, then their parents.
        let evens = count.div_ceil(2) as i32;
        let child: Vec<_> = (0..count as i32).map(|edge| if edge < evens { -1 } else { edge - evens }).collect();
        assert!(found.child == child, "{count}");
        let pulled = |vertex: &i32| if *vertex % 3 == 1 { -1 } else { *vertex };
        assert!(found.pulled == found.vertex.iter().map(pulled).collect::<Vec<_>>(), "{count}");
    }
}

/// Users can write no operation that is not held against the oracle.
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Each block is dealt to the groups whole, and each graph to one group.
    #[test]
    fn groups_share_out_blocks_by_graphs(case in cases(), groups in 1..6_usize) {
        let net = Net::new(case.declaration.clone()).unwrap();
        let graphs = Graphs::new(&case.graphs.description()).unwrap();
        let maxima = Maxima { graphs: 1000, vertices: 5000, children: 20_000, levels: 1000 };
        for policy in [Policy::Height, Policy::Ratio] {
            let mut batch = Batch::new(maxima, &net, policy).unwrap();
            batch.deal_to(groups).unwrap();
            batch.set(&net, &graphs, &case.ids).unwrap();
            prop_assert_eq!(batch.groups(), groups);
            let dealt: Vec<Vec<Block>> = (0..groups).map(|group| batch.blocks_of_group(group).collect()).collect();
            for block in batch.blocks() {
                let parts = dealt.iter().flatten().filter(|part| (part.level, part.kind) == (block.level, block.kind));
                let mut next = Block { rows: 0, edges: 0, ..*block };
                for part in parts {
                    let first = |block: &Block| (block.row, block.edge, block.row_of_kind, block.edge_of_kind);
                    prop_assert_eq!(first(part), first(&next));
                    (next.row, next.edge) = (next.row + part.rows, next.edge + part.edges);
                    (next.row_of_kind, next.edge_of_kind) = (next.row_of_kind + part.rows, next.edge_of_kind + part.edges);
                }
                prop_assert_eq!((next.row, next.edge), (block.row + block.rows, block.edge + block.edges));
            }
            let mut first = 0;
            for id in &case.ids {
                let vertices = first..first + graphs.vertices(*id as usize);
                first = vertices.end;
                let group_of = |vertex: usize| {
                    let row = batch.row(vertex);
                    let has = |blocks: &Vec<Block>| blocks.iter().any(|its| (its.row..its.row + its.rows).contains(&row));
                    dealt.iter().position(has).unwrap()
                };
                let of_first = group_of(vertices.start);
                prop_assert!(vertices.map(group_of).all(|group| group == of_first));
            }
        }
    }
}
