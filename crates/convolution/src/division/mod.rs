//! Workspace Division at run time: the convolutions of a network run in segments of one arena, whose total size the
//! user gave. We report zero workspace to the program, so it allocates none. Convolutions of the legacy API and of the
//! graph API are layers of one network and share one total.
//!
//! A program that asks for the algorithms of all layers first is **collected**: its first convolution solves and
//! allocates. A program that meets its layers lazily, as every graph API program does, is **observed**: once layers
//! come back, a background thread solves for the layers seen so far and switches, without delaying an iteration. Layers
//! met later are handled the same way. Until then, and wherever a plan fails, calls run a fallback: an algorithm that
//! fits in the reported workspace. Graph API calls on one lane may also share a workspace, within the total, until
//! their layers have segments.
//!
//! Each API decides what its calls run: see `legacy::division` and `graph::division`.
//!
//! | file | contents |
//! | --- | --- |
//! | [`problem`] | problems, configurations and plans of layers, for both APIs |
//! | [`layers`] | telling layers apart |
//! | [`network`] | a device's network: its collected layers, and the segment of each call |
//! | [`planning`] | from layers to a division: tuning, solving |
//! | [`segments`] | the division in force: its arena, and the plan in each segment |
//! | [`report`] | reporting the division |

pub mod arena;
pub mod layers;
pub mod network;
mod planning;
pub mod problem;
mod report;
mod segments;
mod solved;
