//! Names for the layers of reports and plans, from a network's file.

use std::collections::HashSet;
use std::path::Path;

use convolution::problem::any::AnyProblem;
use convolution::problem::graph;
use cudnn::Direction;

use crate::decisions::{Decision, Decisions, Policy};
use crate::network::{self, Network, Shapes};
use crate::output;
use crate::text;
use trust::Shown as _;

/// The most names in a message.
const MOST_NAMED: usize = 8;

/// Gives the decisions' layers the names in a network's file where their shapes agree. Tells which of the file's layers
/// have no kernel among the decisions, and which kernels have no layer in the file.
pub fn name<'a>(decisions: impl Iterator<Item = &'a mut Decisions>, file: &Path) -> Result<(), String> {
    let network = network::parse(file, &text::read(file)?, &Shapes::default())?;
    let mut matches = Matches::default();
    for decisions in decisions {
        name_layers(&network, decisions, &mut matches);
    }
    let mut without: Vec<&str> = network.layers.iter().map(|layer| layer.name.as_str()).collect();
    without.dedup();
    without.retain(|name| !matches.named.contains(*name));
    if !without.is_empty() {
        output::tell(&format!("{}: no kernel is of the layers {}", file.shown(), listed(&without)));
    }
    if !matches.unnamed.is_empty() {
        output::tell(&format!("{}: no layer is of the kernels {}", file.shown(), listed(&matches.unnamed)));
    }
    Ok(())
}

/// The first names of a list, and how many there are more.
fn listed(names: &[impl AsRef<str>]) -> String {
    let first: Vec<_> = names.iter().take(MOST_NAMED).map(AsRef::as_ref).collect();
    let more = names.len().checked_sub(MOST_NAMED).filter(|more| *more > 0);
    first.join(", ") + &more.map_or_else(String::new, |more| format!(" and {more} more"))
}

/// What the names of a network's file went to.
#[derive(Default)]
struct Matches {
    /// The layers that some kernel has.
    named: HashSet<String>,
    /// The kernels that no layer has, each once.
    unnamed: Vec<String>,
}

/// Names the decisions' layers; batch and types do not matter. A decision by problem counts for all layers that have the
/// problem.
fn name_layers(network: &Network, decisions: &mut Decisions, matches: &mut Matches) {
    let is_division = matches!(decisions.policy, Policy::Division(_));
    let shapes: Vec<_> = network.layers.iter().map(|layer| Shape::of(&layer.problem)).collect();
    let mut named = vec![0; network.layers.len()];
    let mut rows = Vec::new();
    for row in decisions.rows.drain(..) {
        let wanted = AnyProblem::from_spec(&row.spec).ok().map(|problem| Shape::of(&problem));
        let layers = network.layers.iter().enumerate();
        let mut alike = layers.filter(|(index, _)| wanted.as_ref() == Some(&shapes[*index]));
        let before = rows.len();
        if is_division {
            // A row is one layer, so each name is given out once per layer.
            if let Some((index, layer)) = alike.find(|(index, layer)| named[*index] < layer.count) {
                named[index] += row.count;
                rows.push(Decision { layer: layer.name.clone(), ..row.clone() });
            }
        } else {
            rows.extend(alike.map(|(_, layer)| Decision {
                layer: layer.name.clone(),
                count: layer.count,
                ..row.clone()
            }));
        }
        matches.named.extend(rows[before..].iter().map(|row| row.layer.clone()));
        if rows.len() == before {
            if !matches.unnamed.contains(&row.problem) {
                matches.unnamed.push(row.problem.clone());
            }
            rows.push(row);
        }
    }
    decisions.rows = rows;
}

/// The identity of a layer, whatever its batch and its types.
#[derive(PartialEq, Eq)]
struct Shape {
    direction: Direction,
    /// The extents of x, w and y, without the batch.
    tensors: [Vec<i64>; 3],
    /// Padding before and after, stride, and dilation.
    parameters: [Vec<i64>; 4],
}

impl Shape {
    fn of(problem: &AnyProblem) -> Self {
        let graph = problem.graph();
        let convolution = graph.convolution();
        let graph::Convolution { direction, x, w, y, pre_padding, post_padding, stride, dilation, .. } = convolution;
        let image = |place: &usize| graph.tensors[*place].dims[1..].to_vec();
        Self {
            direction: *direction,
            tensors: [image(x), graph.tensors[*w].dims.clone(), image(y)],
            parameters: [pre_padding, post_padding, stride, dilation].map(Vec::clone),
        }
    }
}
