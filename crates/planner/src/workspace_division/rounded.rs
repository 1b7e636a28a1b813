//! A division in rounded bytes, by dynamic programming, for networks that are too large for whole ones.
//!
//! All layers have some bytes beyond their least workspaces, which are cut into equal parts. Each layer takes whole parts,
//! at least as many bytes as it needs. So the result fits. It is the fastest division into such parts.

use super::fronts::{Counts, Front, Fronts};

/// The most parts.
const MOST_PARTS: usize = 1 << 13;
/// The most parts of all layers together. Each keeps four bytes.
const MOST_KEPT: usize = 1 << 22;
/// The most alternatives that are tried, of all parts of all layers: a tenth of a second.
const MOST_TRIED: usize = 1 << 27;

/// The fastest division into whole parts. `None` if it would take too long.
pub(super) fn fastest(fronts: &Fronts) -> Option<Counts> {
    let least = fronts.least();
    let spare = fronts.total - fronts.workspace(&least) as usize;
    let layers: usize = fronts.fronts.iter().map(|front| front.layers).sum();
    let tried: usize = fronts.fronts.iter().map(|front| front.layers.saturating_mul(front.points.len())).sum();
    let parts = MOST_PARTS.min(MOST_KEPT / layers.max(1)).min(MOST_TRIED / tried.max(1));
    if parts == 0 {
        return None;
    }
    let part = spare.div_ceil(parts).max(1);
    let cost = |front: &Front, point: usize| (front.points[point].workspace - front.points[0].workspace).div_ceil(part);
    // By the number of parts that the layers so far have together: their least time, and each layer's point.
    let mut times = vec![0_u64; parts + 1];
    let mut chosen: Vec<Vec<u32>> = Vec::new();
    for (_, front) in fronts.layers() {
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
    for ((at, front), points) in fronts.layers().rev().zip(chosen.iter().rev()) {
        let point = points[left] as usize;
        counts[at][point] += 1;
        left -= cost(front, point);
    }
    Some(counts)
}
