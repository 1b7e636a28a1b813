//! The recurrence's kernels (`kernels/rnn`) on the CPU: what they compute, against loops in double precision, under orders
//! of threads in which what lacks a barrier or a check shows; and that it does show.

mod activations;
mod case;
mod computes;
mod element;
mod reference;
mod schedules;
mod sources;
mod wavefront;
