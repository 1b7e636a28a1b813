//! CUDA graphs: those that a program hands over, and children of them. Where there is no driver there are none, and
//! every question is answered with none.

use cudarc::driver::sys::{self, CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH};
use cudnn_abi::cudaGraph_t;

use super::cuda::ok;

/// A graph of our own, destroyed with its owner.
pub struct CudaGraph(sys::CUgraph);

impl CudaGraph {
    /// An empty graph.
    pub fn new() -> Option<Self> {
        let mut graph = std::ptr::null_mut();
        // SAFETY: writes one graph.
        ok(|| unsafe { sys::cuGraphCreate(&mut graph, 0) }).then_some(Self(graph))
    }

    /// The graph, valid as long as `self`.
    pub fn raw(&self) -> cudaGraph_t {
        self.0.cast()
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        ok(|| unsafe { sys::cuGraphDestroy(self.0) });
    }
}

/// Whether a graph has no nodes yet.
///
/// # Safety
/// A live graph.
pub unsafe fn is_empty(graph: cudaGraph_t) -> Option<bool> {
    let mut count = 0;
    // SAFETY: as ours; counts the nodes where there is no place for them.
    ok(|| unsafe { sys::cuGraphGetNodes(graph.cast(), std::ptr::null_mut(), &mut count) }).then_some(count == 0)
}

/// Adds copies of `children` to an empty graph, each to run after the one before. All of them, or none.
///
/// # Safety
/// A live graph, which no other thread uses.
pub unsafe fn chain(graph: cudaGraph_t, children: &[CudaGraph]) -> bool {
    let mut nodes: Vec<sys::CUgraphNode> = Vec::with_capacity(children.len());
    for child in children {
        let mut node = std::ptr::null_mut();
        let before = nodes.last().map_or(&[][..], std::slice::from_ref);
        // SAFETY: as ours; live graphs, and nodes of the graph.
        if !ok(|| unsafe {
            sys::cuGraphAddChildGraphNode(&mut node, graph.cast(), before.as_ptr(), before.len(), child.0)
        }) {
            for node in nodes {
                // SAFETY: added above.
                ok(|| unsafe { sys::cuGraphDestroyNode(node) });
            }
            return false;
        }
        nodes.push(node);
    }
    true
}

/// The children of a graph that [`chain`] has filled, or of a copy of it, in the order in which they run. `None` for any
/// other graph.
///
/// # Safety
/// A live graph, which no other thread uses, and which outlives what is returned.
pub unsafe fn chained(graph: cudaGraph_t) -> Option<Vec<cudaGraph_t>> {
    let mut count = 0;
    // SAFETY: as for `is_empty`.
    if !ok(|| unsafe { sys::cuGraphGetNodes(graph.cast(), std::ptr::null_mut(), &mut count) }) {
        return None;
    }
    let mut node = only(|nodes, count| {
        // SAFETY: as ours; writes at most as many nodes as `count` says.
        unsafe { sys::cuGraphGetRootNodes(graph.cast(), nodes, count) }
    });
    let mut children = Vec::with_capacity(count);
    while let Some(this) = node {
        children.push(child(this)?);
        node = only(|nodes, count| {
            // SAFETY: as above.
            unsafe { sys::cuGraphNodeGetDependentNodes(this, nodes, count) }
        });
    }
    // Fewer where it is no chain.
    (children.len() == count).then_some(children)
}

/// The one node of a list; `None` where there are more, or none.
fn only(list: impl Fn(*mut sys::CUgraphNode, *mut usize) -> sys::CUresult) -> Option<sys::CUgraphNode> {
    let (mut node, mut count) = (std::ptr::null_mut(), 0);
    (ok(|| list(std::ptr::null_mut(), &mut count)) && count == 1 && ok(|| list(&mut node, &mut count))).then_some(node)
}

/// The graph of a child node.
fn child(node: sys::CUgraphNode) -> Option<cudaGraph_t> {
    let (mut kind, mut graph) = (CU_GRAPH_NODE_TYPE_GRAPH, std::ptr::null_mut());
    // SAFETY: a node of a live graph; writes one number.
    let known = ok(|| unsafe { sys::cuGraphNodeGetType(node, &mut kind) }) && kind == CU_GRAPH_NODE_TYPE_GRAPH;
    // SAFETY: as above; writes one graph, which stays the node's.
    (known && ok(|| unsafe { sys::cuGraphChildGraphNodeGetGraph(node, &mut graph) })).then_some(graph.cast())
}
