//! cuDNN's graph (backend) API from inside: descriptors of our own, and the words of its errors.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `descriptor` | a backend descriptor that we own; reading any |
//! | `names` | the attributes of the three directions' operations that stand for the same thing |
//! | `refusal` | why cuDNN refuses something, in words |
//! | `target` | the device that a graph is to run on, which need not be there |
//! | `variant_pack` | the memory of one execution |

pub mod descriptor;
mod names;
mod refusal;
mod target;
mod variant_pack;

pub use descriptor::Owned;
pub use names::ConvolutionNames;
pub use refusal::refusal;
pub use target::Target;
pub use variant_pack::VariantPack;
