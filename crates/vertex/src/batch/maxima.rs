//! The most that a batch may have, and the refusal of more.

use std::fmt::{self, Display, Formatter};

/// The most that a batch may have. Memory is made for it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maxima {
    /// Graphs.
    pub graphs: usize,
    /// Vertices of all graphs.
    pub vertices: usize,
    /// Slots of all vertices.
    pub children: usize,
    /// Levels of the highest graph.
    pub levels: usize,
}

impl Maxima {
    /// The most of each.
    pub const MOST: Self = Self { graphs: 1 << 24, vertices: 1 << 24, children: i32::MAX as usize, levels: 1 << 24 };

    /// Refuses numbers out of range.
    pub fn check(&self) -> Result<(), Refused> {
        let most = Self::MOST;
        let limits = [
            ("graphs", self.graphs, most.graphs, 1),
            ("vertices", self.vertices, most.vertices, 1),
            ("children", self.children, most.children, 0),
            ("levels", self.levels, most.levels, 1),
        ];
        for (what, number, most, least) in limits {
            if !(least..=most).contains(&number) {
                return Err(Refused(format!("a maximum of {number} {what}; {least} to {most} are accepted")));
            }
        }
        Ok(())
    }
}

/// A batch that cannot be made: why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl Display for Refused {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

pub(super) fn no_memory(count: usize) -> Refused {
    Refused(format!("no memory for {count} numbers of a batch"))
}
