//! Workspace Division at run time: the convolutions of a network run in segments of one arena, of a
//! total size that the user gave. The program is told that they need no workspace, and allocates none. Convolutions of
//! the legacy API and of the graph API are layers of one network: the total is for both.
//!
//! Programs that ask for the algorithms of all layers first are **collected**: the first convolution
//! solves and allocates. Programs that meet their layers lazily, as all do by the graph API, are **observed**: once
//! layers come back, a thread of ours solves over what was seen and switches, at no iteration's cost; so are layers
//! met later. Until then, and wherever a plan fails, calls run what is ready: an algorithm that needs
//! no more than the program was told. Or, by the graph API, on one lane and as far as the total goes, in a workspace
//! that all of its layers share which have no segment yet.
//!
//! What calls of either API run is theirs: `legacy::division` and `graph::division`.
//!
//! | file | what it does |
//! | --- | --- |
//! | [`kernel`] | what layers of both APIs have in common |
//! | [`layers`] | tells layers apart |
//! | [`network`] | a device's network: what is collected, and where a call runs |
//! | [`planning`] | from layers to a division: tuning, solving |
//! | [`segments`] | the division in force: its arena, and what runs in each segment |
//! | [`report`] | says what was divided |

pub mod arena;
pub mod kernel;
pub mod layers;
pub mod network;
mod planning;
mod report;
mod segments;
