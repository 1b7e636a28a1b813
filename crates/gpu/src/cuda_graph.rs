//! CUDA graphs: the program's graphs, and child graphs that we add. Without a driver every call reports failure.

use cudarc::driver::sys::{self, CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH};
use cudnn_abi::cudaGraph_t;

use super::cuda::ok;

/// A graph of our own, destroyed with its owner.
pub struct CudaGraph(sys::CUgraph);

impl CudaGraph {
    /// Creates an empty graph.
    pub fn new() -> Option<Self> {
        let mut graph = std::ptr::null_mut();
        // SAFETY: writes one graph to a live variable.
        ok(|| unsafe { sys::cuGraphCreate(&mut graph, 0) }).then_some(Self(graph))
    }

    /// The graph, valid as long as `self`.
    pub fn raw(&self) -> cudaGraph_t {
        self.0.cast()
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        // SAFETY: `new` made the graph, and only this drop destroys it.
        ok(|| unsafe { sys::cuGraphDestroy(self.0) });
    }
}

/// Returns whether a graph has no nodes. `None` on failure.
///
/// # Safety
/// `graph` is live.
pub unsafe fn is_empty(graph: cudaGraph_t) -> Option<bool> {
    let mut count = 0;
    // SAFETY: the caller promises a live graph; a null array asks for the number of nodes only.
    ok(|| unsafe { sys::cuGraphGetNodes(graph.cast(), std::ptr::null_mut(), &mut count) }).then_some(count == 0)
}

/// Adds copies of `children` to an empty graph, each to run after the previous one. Adds all of them or none.
///
/// # Safety
/// `graph` is live, and no other thread uses it.
pub unsafe fn chain(graph: cudaGraph_t, children: &[CudaGraph]) -> bool {
    let mut nodes: Vec<sys::CUgraphNode> = Vec::with_capacity(children.len());
    for child in children {
        let mut node = std::ptr::null_mut();
        let before = nodes.last().map_or(&[][..], std::slice::from_ref);
        // SAFETY: the caller promises a live graph; the children are live, and `before` holds nodes of the graph.
        if !ok(|| unsafe {
            sys::cuGraphAddChildGraphNode(&mut node, graph.cast(), before.as_ptr(), before.len(), child.0)
        }) {
            for node in nodes {
                // SAFETY: the node was added to the graph above.
                ok(|| unsafe { sys::cuGraphDestroyNode(node) });
            }
            return false;
        }
        nodes.push(node);
    }
    true
}

/// The children of a graph that [`chain`] has filled, or of its copy, in execution order. `None` for any other graph.
///
/// # Safety
/// `graph` is live, no other thread uses it, and it outlives the returned graphs.
pub unsafe fn chained(graph: cudaGraph_t) -> Option<Vec<cudaGraph_t>> {
    let mut count = 0;
    // SAFETY: the caller promises a live graph; a null array asks for the number of nodes only.
    if !ok(|| unsafe { sys::cuGraphGetNodes(graph.cast(), std::ptr::null_mut(), &mut count) }) {
        return None;
    }
    let mut node = only(|nodes, count| {
        // SAFETY: the caller promises a live graph; `only` passes an array of at least `count` nodes, or null.
        unsafe { sys::cuGraphGetRootNodes(graph.cast(), nodes, count) }
    });
    let mut children = Vec::with_capacity(count);
    while let Some(this) = node {
        children.push(child(this)?);
        node = only(|nodes, count| {
            // SAFETY: `this` is a node of the live graph; `only` passes an array of at least `count` nodes, or null.
            unsafe { sys::cuGraphNodeGetDependentNodes(this, nodes, count) }
        });
    }
    // A graph that is no chain has nodes that the walk did not reach.
    (children.len() == count).then_some(children)
}

/// The only node of a list. `None` for an empty list or a longer one.
fn only(list: impl Fn(*mut sys::CUgraphNode, *mut usize) -> sys::CUresult) -> Option<sys::CUgraphNode> {
    let (mut node, mut count) = (std::ptr::null_mut(), 0);
    (ok(|| list(std::ptr::null_mut(), &mut count)) && count == 1 && ok(|| list(&mut node, &mut count))).then_some(node)
}

/// The graph of a child node.
fn child(node: sys::CUgraphNode) -> Option<cudaGraph_t> {
    let (mut kind, mut graph) = (CU_GRAPH_NODE_TYPE_GRAPH, std::ptr::null_mut());
    // SAFETY: the node belongs to a live graph; writes one number.
    let known = ok(|| unsafe { sys::cuGraphNodeGetType(node, &mut kind) }) && kind == CU_GRAPH_NODE_TYPE_GRAPH;
    // SAFETY: the node is a child graph node of a live graph; writes one graph, which the node keeps.
    (known && ok(|| unsafe { sys::cuGraphChildGraphNodeGetGraph(node, &mut graph) })).then_some(graph.cast())
}
