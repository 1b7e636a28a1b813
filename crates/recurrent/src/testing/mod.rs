//! A time step in double precision, which tests hold kernels against. Only tests use it.

pub mod reference_f64;
