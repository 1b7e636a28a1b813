//! Plans as parts of CUDA graphs that a program builds itself, in place of executing them.
//!
//! A program's own plan that runs in what the program was told is cuDNN's concern. In place of one that needs more, a
//! graph is made of the ready configuration: that stays what it is, so that graphs can be updated at any time. One
//! micro-batch is the graph itself; more are children of it, one after the other.

use cudnn_abi::*;

use super::execute::Execution;
use super::operands::Operands;
use super::plan::Plan;
use crate::problem::graph::ExecutionPlan;
use cudnn::calls::backend;
use cudnn::graph::VariantPack;
use gpu::cuda_graph::{self, CudaGraph};

/// One of cuDNN's two functions that write a plan into a graph.
type Write = unsafe fn(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t, cudaGraph_t) -> cudnnStatus_t;

impl Execution<'_> {
    /// # Safety
    /// The arguments are those of `cudnnBackendPopulateCudaGraph`.
    pub unsafe fn populate(&self, graph: cudaGraph_t) -> cudnnStatus_t {
        let write = backend::cudnnBackendPopulateCudaGraph;
        // SAFETY: as ours.
        unsafe {
            self.write(write, graph, |ready, operands| {
                if cuda_graph::is_empty(graph) == Some(false) {
                    return Err(CUDNN_STATUS_BAD_PARAM);
                }
                let mut children = Vec::new();
                ready.for_each_micro_batch(operands, |plan, pack| {
                    let child = CudaGraph::new().ok_or(CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API)?;
                    self.write_micro_batch(write, plan, pack, child.raw())?;
                    children.push(child);
                    Ok(())
                })?;
                cuda_graph::chain(graph, &children).then_some(()).ok_or(CUDNN_STATUS_INTERNAL_ERROR)
            })
        }
    }

    /// # Safety
    /// The arguments are those of `cudnnBackendUpdateCudaGraph`.
    pub unsafe fn update(&self, graph: cudaGraph_t) -> cudnnStatus_t {
        let write = backend::cudnnBackendUpdateCudaGraph;
        // SAFETY: as ours.
        unsafe {
            self.write(write, graph, |ready, operands| {
                let children = cuda_graph::chained(graph).unwrap_or_default();
                if children.len() != ready.configuration().len() {
                    return Err(CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
                }
                let mut children = children.into_iter();
                ready.for_each_micro_batch(operands, |plan, pack| {
                    let child = children.next().ok_or(CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH)?;
                    self.write_micro_batch(write, plan, pack, child)
                })
            })
        }
    }

    /// Writes the plan as cuDNN does, or the ready configuration: its one micro-batch as cuDNN does, more of them by
    /// `divided`.
    ///
    /// # Safety
    /// As for [`Self::populate`].
    unsafe fn write(
        &self,
        write: Write,
        graph: cudaGraph_t,
        divided: impl FnOnce(&Plan, &Operands) -> Result<(), cudnnStatus_t>,
    ) -> cudnnStatus_t {
        if self.planned.own_fits() {
            // SAFETY: the program's own call.
            return unsafe { write(self.handle, self.plan, self.pack, graph) };
        }
        if graph.is_null() {
            return CUDNN_STATUS_BAD_PARAM;
        }
        let (Some(ready), Some(operands)) = (self.planned.page.known_ready(), self.operands()) else {
            return self.not_understood();
        };
        let written = match ready.configuration().is_undivided() {
            true => ready.for_each_micro_batch(&operands, |plan, pack| {
                // SAFETY: as ours.
                unsafe { self.write_micro_batch(write, plan, pack, graph) }
            }),
            false => divided(ready, &operands),
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
        // SAFETY: images of the program's tensors, and a workspace as large as the engine needs.
        match unsafe { write(self.handle, plan.raw(), pack.raw(), graph) } {
            CUDNN_STATUS_SUCCESS => Ok(()),
            status => Err(status),
        }
    }
}
