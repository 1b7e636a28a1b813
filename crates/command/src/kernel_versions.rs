//! `ucudnn kernels`: the version of each family of GPU kernels, which says whether a family was seen right on a GPU.

use clap::Args;

use crate::Failure;
use crate::output;

/// Print the version of each family of GPU kernels
///
/// A version is a hash of the family's sources and of the code that launches them. docs/verified.toml has the versions
/// that `make gpu-truth` saw on a GPU.
#[derive(Args)]
pub struct Options {}

pub fn run(_: &Options) -> Result<(), Failure> {
    let versions = [
        ("convolution", kernels::convolution::VERSION.to_owned()),
        ("dynamic", dynamic::version()),
        ("norm", kernels::norm::VERSION.to_owned()),
        ("recurrent", kernels::recurrent::VERSION.to_owned()),
    ];
    output::print(&versions.map(|(family, version)| format!("{family} {version}\n")).concat())
}
