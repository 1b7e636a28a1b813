//! Sharing out turns, such as the images of a channel, between blocks.

/// The number of parts that share out `turns` soonest. Each part has `blocks` blocks, and a device runs `at_once` of
/// all blocks at once. A block's begin and end take about as long as a turn.
pub fn parts_of_turns(turns: usize, blocks: usize, at_once: usize, most: usize) -> usize {
    let time = |parts: &usize| (blocks.saturating_mul(*parts)).div_ceil(at_once) * (turns.div_ceil(*parts) + 1);
    (1..=turns.min(most)).min_by_key(time).unwrap_or(1)
}
