use super::{
    Configuration, MicroConfiguration,
    division::{Cost, Division, configuration, usable},
};

/// Workspace Reuse: the fastest configuration of `batch` images within `limit` bytes of workspace, by the measured
/// times in `micro`. `None` if there is none.
///
/// T(0) = 0, T(b) = min over b_μ ≤ b of T_μ(b_μ) + T(b − b_μ), as in section III.A of the paper. Here the workspace is
/// exact too: among equally fast configurations the one with the least workspace wins. The empty mini-batch has the
/// empty configuration.
pub fn workspace_reuse<A: Clone>(
    batch: usize,
    micro: &[MicroConfiguration<A>],
    limit: usize,
) -> Option<Configuration<A>> {
    // the fastest comes last, as workspace grows
    let mut fastest = None;
    for_each_desirable(batch, micro, limit, |division| fastest = Some(division.parts(division.whole())));
    fastest.map(|parts| configuration(&parts, micro))
}

/// The desirable set: the configurations of `batch` images that no other beats in both time and workspace, one of each
/// equal pair. Workspace ascends and time descends.
///
/// The last configuration within a limit is [`workspace_reuse`]'s answer under that limit.
pub fn desirable_set<A: Clone>(batch: usize, micro: &[MicroConfiguration<A>]) -> Vec<Configuration<A>> {
    let mut set = Vec::new();
    for_each_desirable(batch, micro, usize::MAX, |division| {
        set.push(configuration(&division.parts(division.whole()), micro));
    });
    set
}

/// Calls `visit` with the division at each point of the Pareto front within `limit`, workspace ascending.
///
/// A configuration's workspace equals that of one of its parts. So micro-configurations join the programme in the order
/// of their workspace, and each workspace that lowers the whole mini-batch's time gives a point of the front.
/// Each joins in O(B), so the front costs no more than its last point.
fn for_each_desirable<A>(
    batch: usize,
    micro: &[MicroConfiguration<A>],
    limit: usize,
    mut visit: impl FnMut(&Division),
) {
    let mut usable = usable(batch, micro, limit);
    usable.sort_by_key(|part| part.workspace);
    let mut division = Division::of(batch);
    let whole = division.whole();
    if whole == 0 {
        visit(&division);
        return;
    }
    let mut fastest = None;
    for same in usable.chunk_by(|a, b| a.workspace == b.workspace) {
        for part in same {
            division.add(part.size, part.time, part.index);
        }
        let Cost { time, .. } = division.least(whole);
        if division.least(whole).is_reachable() && fastest.is_none_or(|fastest| time < fastest) {
            fastest = Some(time);
            visit(&division);
        }
    }
}
