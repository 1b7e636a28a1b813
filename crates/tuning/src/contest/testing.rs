//! A contestant for tests: its kernels are names.

use std::fmt;

use super::{Contestant, Times};
use crate::family::Family;

/// A subject of up to three calls. `F`: our kernels are forced. `W`: our side runs without kernels.
#[derive(Default)]
pub struct Toy<const F: bool, const W: bool> {
    /// The kernels to be tried for each call.
    pub choices: [Vec<&'static str>; 3],
}

impl<const F: bool, const W: bool> fmt::Display for Toy<F, W> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a toy")
    }
}

impl<const F: bool, const W: bool> Contestant for Toy<F, W> {
    type Kernel = &'static str;
    type Choice = &'static str;

    const FAMILY: Family = Family { name: "toy", version: "1" };
    const CALLS: usize = 3;
    const RUNS_WITHOUT: bool = W;
    const TIMES_AGAIN: bool = false;
    const KEEPS_FAILURES: bool = true;
    const FORCED: &'static str = "it is forced";

    fn is_forced(&self) -> bool {
        F
    }

    fn device(&self) -> i32 {
        0
    }

    fn units(&self) -> f64 {
        1.0
    }

    fn launches(&self) -> u64 {
        1
    }

    fn spec(&self, call: usize) -> String {
        format!("call {call}")
    }

    fn choices(&self, call: usize) -> &[&'static str] {
        &self.choices[call]
    }

    fn named(&self, call: usize, names: &[&str]) -> Vec<Option<&'static str>> {
        names.iter().map(|name| self.choices[call].iter().copied().find(|choice| choice == name)).collect()
    }

    fn name(&self, _call: usize, choice: Option<&&'static str>) -> String {
        choice.map_or("steps", |choice| choice).to_owned()
    }

    fn choice<'a>(kernel: &'a &'static str) -> &'a &'static str {
        unreachable!("{kernel}: tests of recalling load nothing")
    }

    fn is_compiled(&self, _call: usize, _choice: &&'static str) -> bool {
        true
    }

    fn compile(&self, _call: usize, _choice: &&'static str) -> Result<(), String> {
        Ok(())
    }

    fn load(&self, _call: usize, choice: &&'static str) -> Result<&'static str, String> {
        Ok(choice)
    }

    fn decided(&self, _names: &[String], _why: &str, _times: &Times) {}

    fn gave_up(&self, _why: &str) {}
}
