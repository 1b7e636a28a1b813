//! Faults on demand, in a process of their own: a process has one list of armed faults.

use super::call::*;
use super::sizes::sizes;
use crate::child::is_child;
use cudnn_abi::*;
use hostdnn::abi::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::ffi::CString;

#[test]
fn calls_fail_as_they_are_told() {
    if !is_child("batch_norm::faults::calls_fail_as_they_are_told", &[]) {
        return;
    }
    let mut p = Problem::fused(CUDNN_BATCHNORM_OPS_BN, &[2, 8, 3, 4], &mut StdRng::seed_from_u64(1));
    let arm = |faults: &str| {
        let faults = CString::new(faults).unwrap();
        // SAFETY: the argument is a C string.
        assert_eq!(unsafe { hostdnnFail(faults.as_ptr()) }, CUDNN_STATUS_SUCCESS);
    };
    p.running[1].fill(&[0.5; 8]);
    type Call = fn(&mut Problem) -> cudnnStatus_t;
    let calls: [(&str, Call); 5] = [
        ("ForwardTraining", Problem::train),
        ("ForwardTrainingEx", Problem::train_ex),
        ("ForwardInference", Problem::infer),
        ("Backward", Problem::differentiate),
        ("BackwardEx", Problem::differentiate_ex),
    ];
    for (name, call) in calls {
        arm(&format!("cudnnBatchNormalization{name}:1=4003,cudnnBatchNormalization{name}:2=panic"));
        assert_eq!(call(&mut p), CUDNN_STATUS_ALLOC_FAILED, "{name}");
        assert_eq!(call(&mut p), CUDNN_STATUS_INTERNAL_ERROR, "{name}");
        if name == "ForwardTraining" {
            assert!(p.is_untouched(), "{name} wrote");
        }
        assert_eq!(call(&mut p), CUDNN_STATUS_SUCCESS, "{name}");
    }
    let size = "cudnnGetBatchNormalization";
    arm(&format!(
        "{size}ForwardTrainingExWorkspaceSize,{size}BackwardExWorkspaceSize,{size}TrainingExReserveSpaceSize,\
         cudnnDeriveBNTensorDescriptor"
    ));
    assert_eq!(sizes(&p), [(CUDNN_STATUS_EXECUTION_FAILED, -1); 3]);
    // SAFETY: the descriptors are live.
    let derive = || unsafe { cudnnDeriveBNTensorDescriptor(p.scale.desc, p.x.desc, CUDNN_BATCHNORM_SPATIAL) };
    assert_eq!([derive(), derive()], [CUDNN_STATUS_EXECUTION_FAILED, CUDNN_STATUS_SUCCESS]);
    arm("");
}
