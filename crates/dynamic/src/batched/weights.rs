//! The weights that a run loads from the device's memory (Khorasani et al., MICRO 2018, table I), by its launches: each
//! loads a product's matrix once, if the L2 cache keeps it meanwhile. Each group of a path's blocks loads all matrices.

use vertex::batch::Batch;
use vertex::passes::{Pass, Work};
use vertex::stages::Stage;

use super::net::{Net, OneWay};
use crate::report::{self, Weights};

impl Net {
    /// Reports what was chosen for a static batch, and the weights that its runs load.
    pub(super) fn report(&self, batch: &Batch, configuration: Option<usize>) {
        report::batch(|| {
            let groups = configuration.map_or(0, |number| self.configurations[number]);
            let of_way = |way: &OneWay| match configuration.and_then(|number| way.path(number)) {
                Some(path) => groups * path.emitted.weights,
                None => self.by_levels(way, batch),
            };
            Weights {
                graphs: batch.graphs(),
                vertices: batch.vertices(),
                blocks: batch.blocks().iter().filter(|block| block.level > 0).count(),
                groups,
                on_path: self.ways().map(of_way).sum(),
                by_levels: self.ways().map(|way| self.by_levels(way, batch)).sum(),
                of_whole_batches: self.ways().map(|way| self.of_whole_batches(way)).sum(),
            }
        });
    }

    /// The bytes that launches for each level and kind load on the path.
    fn by_levels(&self, way: &OneWay, batch: &Batch) -> usize {
        let of_kind = |kind: usize| self.bytes_of(&way.passes[kind].stages[Stage::Path as usize]);
        batch.blocks().iter().map(|block| of_kind(block.kind)).sum()
    }

    /// The bytes that the products of whole batches load.
    fn of_whole_batches(&self, way: &OneWay) -> usize {
        let stages = [Stage::Eager, Stage::Lazy].map(|stage| stage as usize);
        way.passes.iter().flat_map(|passes| stages.map(|stage| self.bytes_of(&passes.stages[stage]))).sum()
    }

    fn bytes_of(&self, passes: &[Pass]) -> usize {
        let elements = passes.iter().map(|pass| match pass.work {
            Work::Product { x, y, .. } => x.width * y.width,
            _ => 0,
        });
        elements.sum::<usize>() * self.element.bytes()
    }
}
