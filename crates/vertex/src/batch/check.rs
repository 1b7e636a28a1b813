//! Refuses graphs that do not fit a net and its batch.

use super::maxima::{Maxima, Refused};
use super::{Batch, Sizes};
use crate::function::{Arity, Function, Net};
use crate::graphs::{Graph, Graphs};

impl Batch {
    /// Returns what the batch will have.
    pub(super) fn check(&mut self, net: &Net, graphs: &Graphs, ids: &[i64]) -> Result<Sizes, Refused> {
        let refused = |why: String| Err(Refused(why));
        if ids.is_empty() {
            return refused("a batch has at least one graph".into());
        }
        if let Some(place) = ids.iter().position(|id| !(0..graphs.count() as i64).contains(id)) {
            return refused(format!("id {place} is graph {} of {}; numbers begin with 0", ids[place], graphs.count()));
        }
        let mut sizes = Sizes { graphs: ids.len(), ..Sizes::default() };
        for id in ids {
            let graph = graphs.graph(*id as usize);
            sizes.vertices += graph.vertices;
            sizes.slots += graph.slots;
            sizes.parents += graph.edges;
            sizes.pulled_rows += graph.rows;
            sizes.readers += graph.readers;
            // The segments of a graph are sorted by level.
            sizes.levels = sizes.levels.max(graph.segments.last().map_or(0, |last| last.level as usize + 1));
        }
        let Sizes { levels, vertices, slots, .. } = sizes;
        let Maxima { graphs: most_graphs, vertices: most_vertices, children, levels: most_levels } = self.maxima;
        let counts = [
            ("graphs", ids.len(), most_graphs),
            ("vertices", vertices, most_vertices),
            ("children", slots, children),
            ("levels", levels, most_levels),
        ];
        if let Some((what, count, most)) = counts.into_iter().find(|(_, count, most)| count > most) {
            return refused(format!("the batch has {count} {what}; the net was made for at most {most}"));
        }
        self.kind_of_label.clear();
        for label in &graphs.labels {
            let functions = &net.declaration().functions;
            let kind = match label.kind {
                Some(kind) if usize::from(kind) < functions.len() => Some(usize::from(kind)),
                Some(_) => None,
                None => net.kind_of(label.slots as usize),
            };
            let fits = |kind: &usize| functions[*kind].children.takes(label.slots as usize);
            self.kind_of_label.push(kind.filter(fits).map_or(u32::MAX, |kind| kind as u32));
        }
        let takes_any = |function: &Function| function.children == Arity::Any;
        if self.kind_of_label.contains(&u32::MAX) || net.declaration().functions.iter().any(takes_any) {
            ids.iter().try_for_each(|id| self.check_kinds(net, graphs, *id as usize))?;
        }
        Ok(sizes)
    }

    /// Refuses a graph with a vertex that no function of the net takes.
    fn check_kinds(&self, net: &Net, graphs: &Graphs, id: usize) -> Result<(), Refused> {
        let functions = &net.declaration().functions;
        let Graph { segments, numbers, .. } = graphs.graph(id);
        let mut sorted = 0;
        for segment in segments {
            let (kind, label) = (self.kind_of_label[segment.label as usize], graphs.labels[segment.label as usize]);
            let why = match functions.get(kind as usize) {
                Some(function) if function.children == Arity::Any && segment.first_empty.is_some() => {
                    format!("an empty slot; function {kind}, for any number of children, has none")
                }
                Some(_) => String::new(),
                None => match label.kind.map(usize::from) {
                    Some(kind) if kind >= functions.len() => {
                        format!("the kind {kind}; the net has {} functions", functions.len())
                    }
                    Some(kind) => {
                        format!("{} slots; its function {kind} takes {}", label.slots, functions[kind].children)
                    }
                    None => {
                        let all: Vec<_> = functions.iter().map(|function| function.children.to_string()).collect();
                        format!("{} slots; the net's functions take {}", label.slots, all.join(", "))
                    }
                },
            };
            if !why.is_empty() {
                let place = sorted + segment.first_empty.filter(|_| kind != u32::MAX).unwrap_or(0) as usize;
                return Err(Refused(format!("graph {id}: vertex {} has {why}", numbers.vertex(place))));
            }
            sorted += segment.count as usize;
        }
        Ok(())
    }
}
