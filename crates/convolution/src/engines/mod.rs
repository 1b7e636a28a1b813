//! Convolutions by GPU kernels of our own, and kernels that copy tensors to other layouts.
//!
//! | file | contents |
//! | --- | --- |
//! | `alone` | one engine for a convolution, outside of plans |
//! | `engine`, `problem` | the trait of engines, and the problems that they compute |
//! | `backward_filter`, `implicit_gemm` | engines: filter gradients; convolutions and input gradients |
//! | `same`, `same_gradient`, `shifted`, `shifted_gradient`, `few_channels`, `rolling`, `rolling_gradient` | engines on warpgroups |
//! | `in_groups` | an engine for small groups of channels |
//! | `products` | an engine that is cublasLt: images of one place |
//! | `patch_products` | an engine that is a copy and cublasLt: filters as large as their strides |
//! | `toeplitz_images`, `toeplitz_images_gradient`, `toeplitz`, `toeplitz_gradient`, `depthwise`, `depthwise_gradient` | engines for filters of each channel |
//! | `by_channel` | such convolutions, and the blocks of the last two |
//! | `planes`, `image_rows` | what the others read of planes, and how those of many images go through them |
//! | `warpgroups`, `tiles`, `sum_up`, `turns` | shared by several engines |
//! | `transposes`, `samples`, `element_kernels` | copies |

mod alone;
mod backward_filter;
mod by_channel;
mod depthwise;
mod depthwise_gradient;
mod element_kernels;
mod engine;
mod few_channels;
mod image_rows;
mod implicit_gemm;
mod in_groups;
mod patch_products;
mod planes;
mod problem;
mod products;
mod rolling;
mod rolling_gradient;
mod same;
mod same_gradient;
mod samples;
mod shifted;
mod shifted_gradient;
mod sum_up;
#[cfg(test)]
mod tests;
mod tiles;
mod toeplitz;
mod toeplitz_gradient;
mod toeplitz_images;
mod toeplitz_images_gradient;
mod transposes;
mod turns;
mod warpgroups;

pub use alone::Alone;
pub use engine::{Numerics, Plan, Priority, Row};
pub use problem::{Convolution, Memory, Refusal};
pub use samples::{Move, Samples};
pub use transposes::{Destination, Transposes, Transposition};

use backward_filter::BackwardFilterGemm;
use cudnn_abi::*;
use depthwise::Depthwise;
use depthwise_gradient::DepthwiseGradient;
use few_channels::FewChannels;
use implicit_gemm::ImplicitGemm;
use in_groups::InGroups;
use parking_lot::Mutex;
use patch_products::PatchProducts;
use rolling::RollingConvolution;
use rolling_gradient::RollingGradient;
use same::SameConvolution;
use same_gradient::SameGradient;
use shifted::ShiftedConvolution;
use shifted_gradient::ShiftedGradient;
use toeplitz::Toeplitz;
use toeplitz_gradient::ToeplitzGradient;
use toeplitz_images::ToeplitzImages;
use toeplitz_images_gradient::ToeplitzImagesGradient;

/// Our engines. Of those with the same priority, the first that computes a problem is the fastest: with filters of
/// several places, `ShiftedConvolution` took 0.4 to 0.6 times as long as `SameConvolution` in all layers of ResNet-50.
pub const ENGINES: &[Row] = &[
    // Short sums of two-byte numbers are as exact on tensor cores as elsewhere, beside the rounding of the result. cuDNN
    // often chooses engines without tensor cores where there are few channels, in groups and with dilation.
    Row::of::<FewChannels>(7, Numerics::ShortSums),
    Row::of_library(8, Numerics::ShortSums, products::short_choices, products::plan),
    Row::of_library(9, Numerics::OnTensorCores, products::choices, products::plan),
    Row::of_library(10, Numerics::ExactFloats, products::choices, products::plan),
    Row::of::<PatchProducts>(12, Numerics::ShortSums),
    Row::of::<PatchProducts>(13, Numerics::OnTensorCores),
    Row::of::<PatchProducts>(14, Numerics::ExactFloats),
    Row::of::<ToeplitzImages>(25, Numerics::ShortSums),
    Row::of::<Toeplitz>(21, Numerics::ShortSums),
    Row::of::<Depthwise>(15, Numerics::ShortSums),
    Row::of::<Depthwise>(16, Numerics::ExactFloats),
    Row::of::<ToeplitzImagesGradient>(26, Numerics::ShortSums),
    Row::of::<ToeplitzGradient>(22, Numerics::ShortSums),
    Row::of::<DepthwiseGradient>(17, Numerics::ShortSums),
    Row::of::<DepthwiseGradient>(18, Numerics::ExactFloats),
    Row::of::<InGroups>(27, Numerics::ShortSums),
    Row::of::<RollingConvolution>(23, Numerics::OnTensorCores),
    Row::of::<ShiftedConvolution>(6, Numerics::OnTensorCores),
    Row::of::<SameConvolution>(4, Numerics::OnTensorCores),
    Row::of::<RollingGradient>(24, Numerics::OnTensorCores),
    Row::of::<ShiftedGradient>(11, Numerics::OnTensorCores),
    Row::of::<SameGradient>(5, Numerics::OnTensorCores),
    Row::of::<BackwardFilterGemm>(0, Numerics::OnTensorCores),
    Row::of::<BackwardFilterGemm>(20, Numerics::ShortSums),
    Row::of::<BackwardFilterGemm>(1, Numerics::ExactFloats),
    Row::of::<ImplicitGemm>(19, Numerics::ShortSums),
    Row::of::<ImplicitGemm>(2, Numerics::OnTensorCores),
    Row::of::<ImplicitGemm>(3, Numerics::ExactFloats),
];

/// The status for an engine whose GPU kernels are unavailable. Logs the reason, once while it stays the same.
pub fn unavailable(why: String) -> cudnnStatus_t {
    static LAST: Mutex<String> = Mutex::new(String::new());
    let mut last = LAST.lock();
    if *last != why {
        log::info!("an engine of the library is not used: {why}");
        *last = why;
    }
    CUDNN_STATUS_NOT_SUPPORTED
}
