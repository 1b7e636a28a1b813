//! The attributes that scripts set and read, by kind of descriptor.
//!
//! Omitted, because hostdnn does not support them: ragged offsets, overridden shapes, kernel caches, intermediates,
//! plans made from their JSON text.

use cudnn_abi::*;

/// One attribute: the type of its elements when read (cuDNN 9.19 accepts another type for two attributes), and the kind
/// of its descriptors.
#[derive(Clone, Copy)]
pub struct Attribute {
    pub name: cudnnBackendAttributeName_t,
    pub get: cudnnBackendAttributeType_t,
    pub inner: Option<cudnnBackendDescriptorType_t>,
}

const fn plain(name: cudnnBackendAttributeName_t, elements: cudnnBackendAttributeType_t) -> Attribute {
    Attribute { name, get: elements, inner: None }
}

const fn inner(name: cudnnBackendAttributeName_t, kind: cudnnBackendDescriptorType_t) -> Attribute {
    Attribute { name, get: CUDNN_TYPE_BACKEND_DESCRIPTOR, inner: Some(kind) }
}

use CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR as CONVOLUTION;
use CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR as DEVICEPROP;
use CUDNN_BACKEND_ENGINE_DESCRIPTOR as ENGINE;
use CUDNN_BACKEND_ENGINECFG_DESCRIPTOR as ENGINECFG;
use CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR as KNOB_CHOICE;
use CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR as KNOB_INFO;
use CUDNN_BACKEND_LAYOUT_INFO_DESCRIPTOR as LAYOUT_INFO;
use CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR as OPERATIONGRAPH;
use CUDNN_BACKEND_POINTWISE_DESCRIPTOR as POINTWISE;
use CUDNN_BACKEND_TENSOR_DESCRIPTOR as TENSOR;

/// Any operation, as an element of an operation graph.
pub const OPERATION: cudnnBackendDescriptorType_t = -1;

/// Whether a descriptor of this kind may be passed for the kind `wanted`. cuDNN does not check, and reads any
/// descriptor as the wanted kind.
pub fn fits(kind: cudnnBackendDescriptorType_t, wanted: cudnnBackendDescriptorType_t) -> bool {
    match wanted {
        OPERATION => matches!(kind, 10..=14 | 19 | 20 | 22 | 23 | 25..=31 | 33 | 35..=37 | 39..=43),
        _ => kind == wanted,
    }
}

/// The attributes of one kind; empty for kinds that scripts do not make.
pub fn attributes(kind: cudnnBackendDescriptorType_t) -> &'static [Attribute] {
    match kind {
        CUDNN_BACKEND_TENSOR_DESCRIPTOR => {
            const {
                &[
                    plain(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE),
                    plain(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_TENSOR_VECTOR_COUNT, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN),
                    plain(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN),
                    Attribute {
                        name: CUDNN_ATTR_TENSOR_REORDERING_MODE,
                        get: CUDNN_TYPE_INT64, // it writes only the lower half
                        inner: None,
                    },
                ]
            }
        }
        CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR => {
            const {
                &[
                    plain(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE),
                    Attribute { name: CUDNN_ATTR_CONVOLUTION_CONV_MODE, get: CUDNN_TYPE_DATA_TYPE, inner: None },
                    plain(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64),
                ]
            }
        }
        CUDNN_BACKEND_POINTWISE_DESCRIPTOR => {
            const {
                &[
                    plain(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE),
                    plain(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE),
                    plain(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION),
                    plain(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE),
                    plain(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE),
                    plain(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE),
                    plain(CUDNN_ATTR_POINTWISE_ELU_ALPHA, CUDNN_TYPE_DOUBLE),
                    plain(CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, CUDNN_TYPE_DOUBLE),
                    plain(CUDNN_ATTR_POINTWISE_SWISH_BETA, CUDNN_TYPE_DOUBLE),
                    plain(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64),
                ]
            }
        }
        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => {
            const {
                &[
                    plain(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_DOUBLE),
                    plain(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_DOUBLE),
                    inner(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CONVOLUTION),
                    inner(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, TENSOR),
                    inner(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, TENSOR),
                    inner(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, TENSOR),
                ]
            }
        }
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => {
            const {
                &[
                    plain(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_DOUBLE),
                    plain(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_DOUBLE),
                    inner(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CONVOLUTION),
                    inner(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, TENSOR),
                    inner(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, TENSOR),
                    inner(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, TENSOR),
                ]
            }
        }
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR => {
            const {
                &[
                    plain(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_DOUBLE),
                    plain(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_DOUBLE),
                    inner(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CONVOLUTION),
                    inner(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, TENSOR),
                    inner(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, TENSOR),
                    inner(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, TENSOR),
                ]
            }
        }
        CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR => {
            const {
                &[
                    plain(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_DOUBLE),
                    plain(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_DOUBLE),
                    inner(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, POINTWISE),
                    inner(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, TENSOR),
                    inner(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, TENSOR),
                    inner(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, TENSOR),
                    inner(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, TENSOR),
                    inner(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, TENSOR),
                    inner(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, TENSOR),
                ]
            }
        }
        CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => {
            const {
                &[
                    plain(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE),
                    inner(CUDNN_ATTR_OPERATIONGRAPH_OPS, OPERATION),
                    plain(CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, CUDNN_TYPE_BOOLEAN),
                ]
            }
        }
        CUDNN_BACKEND_ENGINE_DESCRIPTOR => {
            const {
                &[
                    inner(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, OPERATIONGRAPH),
                    inner(CUDNN_ATTR_ENGINE_DEVICEPROP, DEVICEPROP),
                    plain(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE),
                    plain(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE),
                    inner(CUDNN_ATTR_ENGINE_KNOB_INFO, KNOB_INFO),
                    inner(CUDNN_ATTR_ENGINE_LAYOUT_INFO, LAYOUT_INFO),
                    plain(CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, CUDNN_TYPE_INT32),
                ]
            }
        }
        CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => {
            const {
                &[
                    inner(CUDNN_ATTR_ENGINECFG_ENGINE, ENGINE),
                    inner(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, KNOB_CHOICE),
                    plain(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, CUDNN_TYPE_INT32),
                ]
            }
        }
        CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR => {
            const {
                &[
                    inner(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, OPERATIONGRAPH),
                    inner(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, DEVICEPROP),
                    plain(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE),
                    plain(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32),
                    inner(CUDNN_ATTR_ENGINEHEUR_RESULTS, ENGINECFG),
                ]
            }
        }
        CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR => {
            const {
                &[
                    plain(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE),
                    plain(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64),
                ]
            }
        }
        CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR => {
            const {
                &[
                    plain(CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE),
                    plain(CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_KNOB_INFO_STRIDE, CUDNN_TYPE_INT64),
                ]
            }
        }
        CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => {
            const {
                &[
                    plain(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE),
                    inner(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, DEVICEPROP),
                    inner(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, ENGINECFG),
                    plain(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64),
                ]
            }
        }
        CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR => {
            const {
                &[
                    plain(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64),
                    plain(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR),
                    plain(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR),
                ]
            }
        }
        _ => &[],
    }
}

/// The attribute of this name, if the kind has one.
pub fn attribute(kind: cudnnBackendDescriptorType_t, name: cudnnBackendAttributeName_t) -> Option<&'static Attribute> {
    attributes(kind).iter().find(|attribute| attribute.name == name)
}
