//! The library's work while the loader maps it, before the program's own code runs.

use guest::{summary, writes};
use tuning::allowance;

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    // A panic would end the program.
    let _ = std::panic::catch_unwind(|| {
        writes::remember_standard_error();
        summary::begin(env!("CARGO_PKG_VERSION"), || allowance::of_process().so_far());
    });
}
