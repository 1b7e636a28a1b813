//! A division in rounded bytes, by dynamic programming, for networks that are too large for whole ones.
//!
//! What a layer takes beyond its least workspace is rounded up to whole parts of what all layers may take beyond theirs.
//! So the result fits, and it is the fastest in rounded numbers.

use super::fronts::{Counts, Front, Fronts};

/// The most parts.
const MOST_PARTS: usize = 1 << 13;
/// The most parts of all layers: what is remembered, some megabytes.
const MOST_KEPT: usize = 1 << 22;
/// The most alternatives that are tried, of all parts of all layers: a tenth of a second.
const MOST_TRIED: usize = 1 << 27;

/// The fastest division in rounded numbers.
pub(super) fn fastest(fronts: &Fronts) -> Counts {
    let least = fronts.least();
    let spare = fronts.total - fronts.workspace(&least) as usize;
    let layers: usize = fronts.fronts.iter().map(|front| front.layers).sum();
    let tried: usize = fronts.fronts.iter().map(|front| front.layers.saturating_mul(front.points.len())).sum();
    let parts = MOST_PARTS.min(MOST_KEPT / layers.max(1)).min(MOST_TRIED / tried.max(1)).max(1);
    let part = spare.div_ceil(parts).max(1);
    let cost = |front: &Front, point: usize| (front.points[point].workspace - front.points[0].workspace).div_ceil(part);
    let all =
        || fronts.fronts.iter().enumerate().flat_map(|(at, front)| std::iter::repeat_n((at, front), front.layers));
    // By the number of parts that the layers so far have together: their least time, and each layer's point.
    let mut times = vec![0_u64; parts + 1];
    let mut chosen: Vec<Vec<u32>> = Vec::new();
    for (_, front) in all() {
        let (mut next, mut points) = (vec![u64::MAX; parts + 1], vec![0; parts + 1]);
        for (index, point) in front.points.iter().enumerate() {
            let cost = cost(front, index);
            for taken in cost..=parts {
                let time = times[taken - cost].saturating_add(point.time);
                if time < next[taken] {
                    (next[taken], points[taken]) = (time, index as u32);
                }
            }
        }
        times = next;
        chosen.push(points);
    }
    let mut counts: Counts = fronts.fronts.iter().map(|front| vec![0; front.points.len()]).collect();
    let mut left = parts;
    for ((at, front), points) in all().zip(&chosen).collect::<Vec<_>>().into_iter().rev() {
        let point = points[left] as usize;
        counts[at][point] += 1;
        left -= cost(front, point);
    }
    counts
}
