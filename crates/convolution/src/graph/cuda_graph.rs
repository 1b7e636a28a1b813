//! Puts plans into CUDA graphs that a program builds itself, in place of executing them.
//!
//! If the program's own plan fits the reported workspace, cuDNN writes that plan. Otherwise the graph gets the fallback
//! configuration, which never changes, so graphs can be updated at any time. One micro-batch is the graph itself;
//! several are its children, one after the other.

use cudnn_abi::*;

use super::execute::Execution;
use crate::plans::graph::operands::Operands;
use crate::plans::graph::plan::Plan;
use crate::problem::graph::ExecutionPlan;
use cudnn::calls;
use cudnn::graph::VariantPack;
use gpu::cuda_graph::{self, CudaGraph};

/// One of cuDNN's two functions that write a plan into a graph.
type Write = unsafe fn(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t, cudaGraph_t) -> cudnnStatus_t;

impl Execution<'_> {
    /// Answers `cudnnBackendPopulateCudaGraph`.
    ///
    /// # Safety
    /// The graph is a live one of CUDA's, or null.
    pub unsafe fn populate(&self, graph: cudaGraph_t) -> cudnnStatus_t {
        let write = calls::cudnnBackendPopulateCudaGraph;
        // SAFETY: the graph is live, and each child graph is our own.
        unsafe {
            self.write(write, graph, |fallback, operands| {
                if cuda_graph::is_empty(graph) == Some(false) {
                    return Err(CUDNN_STATUS_BAD_PARAM);
                }
                let mut children = Vec::new();
                fallback.for_each_micro_batch(operands, |plan, pack| {
                    let child = CudaGraph::new().ok_or(CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API)?;
                    self.write_micro_batch(write, plan, pack, child.raw())?;
                    children.push(child);
                    Ok(())
                })?;
                cuda_graph::chain(graph, &children).then_some(()).ok_or(CUDNN_STATUS_INTERNAL_ERROR)
            })
        }
    }

    /// Answers `cudnnBackendUpdateCudaGraph`.
    ///
    /// # Safety
    /// The graph is a live one of CUDA's, or null.
    pub unsafe fn update(&self, graph: cudaGraph_t) -> cudnnStatus_t {
        let write = calls::cudnnBackendUpdateCudaGraph;
        // SAFETY: the graph is live, and the children belong to `graph`, which outlives them.
        unsafe {
            self.write(write, graph, |fallback, operands| {
                let children = cuda_graph::chained(graph).unwrap_or_default();
                if children.len() != fallback.configuration().len() {
                    return Err(CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
                }
                let mut children = children.into_iter();
                fallback.for_each_micro_batch(operands, |plan, pack| {
                    let child = children.next().ok_or(CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH)?;
                    self.write_micro_batch(write, plan, pack, child)
                })
            })
        }
    }

    /// Writes the program's own plan, or the fallback configuration: one micro-batch by `write`, several by `divided`.
    ///
    /// # Safety
    /// As for [`Self::populate`].
    unsafe fn write(
        &self,
        write: Write,
        graph: cudaGraph_t,
        divided: impl FnOnce(&Plan, &Operands) -> Result<(), cudnnStatus_t>,
    ) -> cudnnStatus_t {
        if self.planned.requested_fits() {
            // SAFETY: this is the program's own call, unchanged.
            return unsafe { write(self.handle, self.plan, self.pack, graph) };
        }
        if graph.is_null() {
            return CUDNN_STATUS_BAD_PARAM;
        }
        let (Some(fallback), Some(operands)) = (self.planned.state.known_fallback(), self.operands()) else {
            return self.not_understood();
        };
        let written = match fallback.configuration().is_undivided() {
            true => fallback.for_each_micro_batch(&operands, |plan, pack| {
                // SAFETY: the graph is live.
                unsafe { self.write_micro_batch(write, plan, pack, graph) }
            }),
            false => divided(fallback, &operands),
        };
        written.err().unwrap_or(CUDNN_STATUS_SUCCESS)
    }

    /// # Safety
    /// As for [`Self::populate`].
    unsafe fn write_micro_batch(
        &self,
        write: Write,
        plan: &ExecutionPlan,
        pack: &VariantPack,
        graph: cudaGraph_t,
    ) -> Result<(), cudnnStatus_t> {
        // SAFETY: the pack names images of the program's tensors, and a workspace as large as the engine needs.
        match unsafe { write(self.handle, plan.raw(), pack.raw(), graph) } {
            CUDNN_STATUS_SUCCESS => Ok(()),
            status => Err(status),
        }
    }
}
