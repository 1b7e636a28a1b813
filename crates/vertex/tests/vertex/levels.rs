//! Levels against the longest way, found by trying all.

use proptest::prelude::*;
use ucudnn_vertex::function::Arity;
use ucudnn_vertex::graphs::Graphs;

use super::case::{arrays, graphs};

/// The longest way down from a vertex, in edges.
fn height(slots: &[&[i32]], vertex: usize) -> usize {
    let children = slots[vertex].iter().filter_map(|child| usize::try_from(*child).ok());
    children.map(|child| 1 + height(slots, child)).max().unwrap_or(0)
}

proptest! {
    #[test]
    fn levels_are_the_longest_ways(choices in graphs(3, 1..9)) {
        let arrays = arrays(&choices, &[Arity::Exactly(2), Arity::Any, Arity::Exactly(0)]);
        let graphs = Graphs::new(&arrays.description()).unwrap();
        let mut most = 0;
        for graph in 0..graphs.count() {
            let slots = arrays.slots(graph);
            let heights: Vec<_> = (0..slots.len()).map(|vertex| height(&slots, vertex)).collect();
            most = heights.iter().fold(most, |most, height| most.max(height + 1));
            prop_assert_eq!(graphs.levels_of(graph), heights);
        }
        prop_assert_eq!(graphs.levels(), most);
    }

    #[test]
    fn a_circle_is_named(count in 1usize..40, first in 0usize..40, tail in 0usize..5) {
        // A circle of vertices, and a chain that hangs on it.
        let children: Vec<i32> = (0..count + tail)
            .map(|vertex| if vertex < count { (vertex + 1) % count } else { (vertex - count + first) % count } as i32)
            .collect();
        let first_child: Vec<_> = (0..=children.len() as i64).collect();
        let first_vertex = [0, children.len() as i64];
        let arrays = super::case::Arrays { first_vertex: first_vertex.into(), first_child, children, ..Default::default() };
        let refused = Graphs::new(&arrays.description()).unwrap_err().to_string();
        let way = refused.strip_prefix("graph 0: vertex 0 is its own descendant by 0 → ").unwrap();
        let ends = if count > 8 { "6 → 7 → … → 0".to_string() } else { "0".to_string() };
        prop_assert!(way.ends_with(&ends), "{refused}");
    }
}
