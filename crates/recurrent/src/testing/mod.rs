//! A time step in double precision, which tests hold kernels against. The feature `testing` has it.

pub mod reference_f64;
