//! The recurrence's GPU kernels (`kernels/recurrent`) on the CPU: results against loops in double precision, under
//! thread orders that expose missing barriers and checks; and proof that these are exposed.

mod activations;
mod back;
mod case;
mod computes;
mod element;
mod phased;
mod reference;
mod schedules;
mod sources;
mod wavefront;
