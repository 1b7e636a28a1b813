//! Execution plans: an engine configuration that is ready to run, and its execution.

use super::engines::{self, Choice};
use super::program::Program;
use super::tensor::Tensor;
use super::tensor_cores;
use super::variant_pack::Pack;
use super::*;
use crate::convolution::{self, Algorithm};
use crate::fault;
use crate::select;
use crate::tf32;

pub const KIND: Kind = Kind {
    attributes: &[
        Attribute::one(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, HANDLE)
            .answering(CUDNN_STATUS_NOT_INITIALIZED, BAD_PARAM)
            .null(Null::Unset)
            .or_null(),
        Attribute::one(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, DESCRIPTOR).answering(ATTRIBUTE_TYPE, NOT_SUPPORTED),
        Attribute::one(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, INTEGER).unsettable(NOT_SUPPORTED),
        Attribute::made(CUDNN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS, INTEGER, NOT_SUPPORTED)
            .unreadable(NOT_SUPPORTED),
        Attribute::one(CUDNN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS, INTEGER).unreadable(NOT_SUPPORTED),
        Attribute::made(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, TEXT, NOT_SUPPORTED).unreadable(NOT_SUPPORTED),
        Attribute::one(CUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE, DESCRIPTOR).unreadable(BAD_PARAM),
        device_properties::attribute(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP),
    ],
    finalize: |descriptor| {
        let configuration = descriptor.finalized(
            CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
            CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
            "the engine configuration",
            (CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED),
        )?;
        let plan = Plan::new(configuration)?;
        let size = Value::Integers(vec![plan.workspace as i64]);
        descriptor.put(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, size);
        descriptor.made = Some(Made::Plan(Arc::new(plan)));
        Ok(())
    },
    ..Kind::USUAL
};

/// A finalized execution plan.
#[derive(Debug)]
pub struct Plan {
    program: Arc<Program>,
    choice: Choice,
    /// The convolution's algorithm, if there is a convolution.
    algorithm: Option<Algorithm>,
    /// Bytes of workspace.
    workspace: usize,
}

impl Plan {
    fn new(configuration: &Descriptor) -> Result<Self> {
        let (graph, choice) = engine_configuration::read(configuration)?;
        let program = graph.program.clone()?;
        let (algorithm, workspace) = engines::workspace(&program, &choice)?;
        Ok(Self { program, choice, algorithm, workspace })
    }

    /// The plan of a finalized descriptor.
    pub fn of(descriptor: &Descriptor) -> Result<&Self> {
        match &descriptor.made {
            Some(Made::Plan(plan)) => Ok(plan),
            _ => Err(Error::new(CUDNN_STATUS_BAD_PARAM, "an execution plan that is finalized")),
        }
    }

    /// The bytes of workspace that an execution needs.
    pub fn workspace(&self) -> usize {
        self.workspace
    }

    /// Computes the graph on a pack's tensors. `function` is the caller's name, for faults, whose algorithm is the
    /// engine's global index. All checks come before the first write.
    ///
    /// # Safety
    /// The pack's addresses are null, or those of memory that holds the tensors of its ids and of a workspace of this
    /// plan's size, and nobody else uses this memory meanwhile.
    pub unsafe fn execute(&self, function: &str, pack: &Pack) -> Result {
        if pack.overrides {
            let reason = "the variant pack asks for other shapes than the graph's";
            return Err(Error::new(CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE, reason));
        }
        for tensor in &self.program.tensors {
            check_address(tensor, pack)?;
        }
        require(self.workspace == 0 || pack.workspace != 0, "a workspace, since the plan needs one")?;
        self.check_overlaps(pack)?;
        let run = fault::Run { algo: self.choice.engine as i32, batch: self.program.batch() };
        fault::check(function, Some(run))?;
        let address = |uid: i64| pack.address(uid).unwrap_or(0) as *mut u8;
        let output = address(self.program.output);
        // SAFETY: the caller promises valid memory, and the addresses were checked.
        unsafe {
            if let (Some(convolve), Some(algorithm)) = (&self.program.convolution, self.algorithm) {
                if let Some((from, copy)) = &convolve.residual
                    && address(*from) != output
                {
                    copy.run(&[address(*from).cast_const()], output);
                }
                let tensors = convolve.tensors.map(address);
                let rounds = tensor_cores::rounds(&self.program, self.choice.engine);
                let workspace = pack.workspace as *mut u8;
                let (alpha, beta) = (convolve.alpha, convolve.beta);
                let run = |[x, w, y]: [*mut u8; 3]| {
                    convolution::run(&convolve.problem, algorithm, alpha, beta, x, w, y, workspace, self.workspace)
                };
                let ran = if rounds { tf32::on_rounded(&convolve.problem, tensors, run) } else { run(tensors) };
                ran.map_err(|error| Error::new(CUDNN_STATUS_EXECUTION_FAILED, error.to_string()))?;
                select::ran_in(&convolve.problem, algorithm, if rounds { tf32::SHARE } else { 1.0 });
            }
            if let Some((ids, chain)) = &self.program.chain {
                let operands: Vec<*const u8> = ids.iter().map(|&uid| address(uid).cast_const()).collect();
                chain.run(&operands, output);
            }
        }
        Ok(())
    }

    /// The output overlaps no other tensor. The tensor that is first added to a convolution, or an operand of a chain
    /// alone, may be the output itself if it has the output's layout in memory.
    fn check_overlaps(&self, pack: &Pack) -> Result {
        let tensors = &self.program.tensors;
        let Some(output) = tensors.iter().find(|tensor| tensor.uid == self.program.output) else { return Ok(()) };
        let range = |tensor: &Tensor| {
            let start = pack.address(tensor.uid).unwrap_or(0);
            (start, start.saturating_add(tensor.bytes()))
        };
        let (start, end) = range(output);
        for tensor in tensors.iter().filter(|tensor| tensor.uid != output.uid) {
            let (other, other_end) = range(tensor);
            let in_place = other == start
                && (&tensor.dims, &tensor.strides, tensor.data_type)
                    == (&output.dims, &output.strides, output.data_type)
                && match &self.program.convolution {
                    Some(convolve) => convolve.residual.as_ref().is_some_and(|&(uid, _)| uid == tensor.uid),
                    None => true,
                };
            require(in_place || other >= end || other_end <= start, "the output overlaps no other tensor")?;
        }
        Ok(())
    }
}

fn check_address(tensor: &Tensor, pack: &Pack) -> Result {
    let uid = tensor.uid;
    let address = pack.address(uid);
    let missing = || Error::new(CUDNN_STATUS_BAD_PARAM, format!("the variant pack names no tensor {uid}"));
    let address = address.ok_or_else(missing)?;
    if address == 0 {
        return Err(Error::new(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, format!("tensor {uid} is null")));
    }
    if !address.is_multiple_of(tensor.alignment as usize) {
        let reason = format!("tensor {uid} is not aligned to {} bytes, as it was declared", tensor.alignment);
        return Err(Error::new(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, reason));
    }
    Ok(())
}
