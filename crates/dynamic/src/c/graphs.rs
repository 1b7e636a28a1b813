//! Makes, measures and destroys input graphs.

use std::ffi::c_longlong;
use std::ptr;

use cudnn_abi::*;
use guest::refusal::Refusal;
use vertex::graphs::{self, Graphs};

use super::given::{bad, check, numbers};
use super::objects::{GRAPHS, destroy as forget, find};
use super::types::*;

/// Makes input graphs, for `ucudnnCreateGraphs`.
pub unsafe fn create(
    graphs: *mut ucudnnGraphs_t,
    description: *const ucudnnGraphsDescription_t,
) -> Result<(), Refusal> {
    check(graphs, "graphs")?;
    check(description, "description")?;
    // SAFETY: neither null nor misaligned, and the caller promises a description.
    let given = unsafe { &*description };
    let size = |number: c_longlong, name: &str, most: usize| match usize::try_from(number) {
        Ok(size) if size <= most => Ok(size),
        _ => Err(bad(format!("{name} is {number}; 0 to {most} are accepted"))),
    };
    let count = size(given.graphs, "graphs", i32::MAX as usize)?;
    let refused = |why: graphs::Refused| match why.lacks_memory {
        true => Refusal::new(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, why),
        false => bad(why),
    };
    // SAFETY: the caller promises the arrays, whose lengths are in them.
    let made = unsafe {
        let first_vertex = numbers(given.firstVertex, count + 1, "firstVertex")?;
        let vertices = size(first_vertex[count], "the end of firstVertex", i32::MAX as usize)?;
        let first_child = numbers(given.firstChild, vertices + 1, "firstChild")?;
        let slots = size(first_child[vertices], "the end of firstChild", i32::MAX as usize)?;
        let children = numbers(given.children, slots, "children")?;
        let kinds = match given.kinds.is_null() {
            true => None,
            false => Some(numbers(given.kinds, vertices, "kinds")?),
        };
        let rows = match given.rows.is_null() {
            true => None,
            false => Some(numbers(given.rows, vertices, "rows")?),
        };
        Graphs::new(&graphs::Description { first_vertex, first_child, children, kinds, rows }).map_err(refused)?
    };
    // SAFETY: not null, and the caller promises a place for the graphs.
    unsafe { graphs.write(ptr::without_provenance_mut(GRAPHS.keep(made))) };
    Ok(())
}

/// Writes what a set of graphs has.
pub unsafe fn sizes(graphs: ucudnnGraphs_t, sizes: *mut ucudnnGraphBatchSizes_t) -> Result<(), Refusal> {
    let graphs = find(&GRAPHS, graphs.addr(), "graphs", "set of graphs")?;
    check(sizes, "sizes")?;
    let sum = |of: fn(&Graphs, usize) -> usize| (0..graphs.count()).map(|graph| of(&graphs, graph)).sum::<usize>();
    let (vertices, children, rows) = (sum(Graphs::vertices), sum(Graphs::slots), sum(Graphs::rows));
    let [graphs, vertices, children, levels, rows] =
        [graphs.count(), vertices, children, graphs.levels(), rows].map(|size| size as c_longlong);
    // SAFETY: not null, and the caller promises a place for the sizes.
    unsafe { sizes.write(ucudnnGraphBatchSizes_t { graphs, vertices, children, levels, rows }) };
    Ok(())
}

/// Destroys graphs.
pub fn destroy(graphs: ucudnnGraphs_t) -> Result<(), Refusal> {
    forget(&GRAPHS, graphs.addr(), "graphs", "set of graphs")
}
