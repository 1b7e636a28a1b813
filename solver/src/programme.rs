//! A checked programme, to which GLPK has no objection.

use std::ops::Range;

use crate::abi;

/// The largest number in a programme. GLPK treats numbers beyond the range of doubles as infinite.
const LARGEST: f64 = 1e15;
/// The most choices and groups: GLPK ends the process when memory runs out.
const MOST_CHOICES: usize = 1 << 20;
const MOST_RESOURCES: usize = 8;

/// An [`abi::Programme`] with its own arrays and a feasible start.
#[derive(Debug)]
pub struct Programme {
    /// The choices of each group, in order, none empty.
    pub groups: Vec<Range<usize>>,
    pub layers: Vec<f64>,
    pub costs: Vec<f64>,
    pub most: Vec<f64>,
    /// One row per resource.
    pub needs: Vec<Vec<f64>>,
    pub capacities: Vec<f64>,
    pub start: Vec<f64>,
    pub seconds: f64,
}

impl Programme {
    /// Copies and checks a programme; only the memory behind the pointers remains unchecked.
    ///
    /// # Safety
    /// Each pointer is null or points to the numbers that [`abi::Programme`] describes, unchanged during the call.
    pub unsafe fn read(raw: &abi::Programme, start: *const f64) -> Result<Self, String> {
        let abi::Programme { groups, choices, resources, seconds, .. } = *raw;
        if !(1..=MOST_CHOICES).contains(&choices) || !(1..=choices).contains(&groups) {
            return Err(format!("{groups} groups of {choices} choices: 1 to {MOST_CHOICES} are accepted"));
        }
        if resources > MOST_RESOURCES {
            return Err(format!("{resources} resources: at most {MOST_RESOURCES} are accepted"));
        }
        if seconds.is_nan() || seconds < 0.0 {
            return Err(format!("{seconds} seconds"));
        }
        // SAFETY: the caller promises each array's length, and that it does not change.
        let programme = unsafe {
            let needs = array("needs", raw.needs, resources * choices)?;
            Self {
                groups: ranges(&array("group_choices", raw.group_choices, groups)?, choices)?,
                layers: array("layers", raw.layers, groups)?,
                costs: array("costs", raw.costs, choices)?,
                most: array("most", raw.most, choices)?,
                needs: needs.chunks(choices).map(<[_]>::to_vec).collect(),
                capacities: array("capacities", raw.capacities, resources)?,
                start: array("counts", start, choices)?,
                seconds,
            }
        };
        programme.check_numbers()?;
        programme.check_start()?;
        Ok(programme)
    }

    fn check_numbers(&self) -> Result<(), String> {
        let finite =
            |name: &str, numbers: &[f64]| match numbers.iter().find(|number| number.is_nan() || number.abs() > LARGEST)
            {
                Some(number) => Err(format!("{number:?} in {name}: at most {LARGEST:e} is accepted")),
                None => Ok(()),
            };
        finite("costs", &self.costs)?;
        finite("capacities", &self.capacities)?;
        self.needs.iter().try_for_each(|row| finite("needs", row))?;
        let counts = |name: &str, numbers: &[f64]| {
            finite(name, numbers)?;
            match numbers.iter().find(|number| **number < 0.0 || number.fract() != 0.0) {
                Some(number) => Err(format!("{number:?} in {name}: it counts layers")),
                None => Ok(()),
            }
        };
        counts("layers", &self.layers)?;
        counts("most", &self.most)?;
        counts("counts", &self.start)
    }

    /// Checks the start, because GLPK does not.
    fn check_start(&self) -> Result<(), String> {
        if self.start.iter().zip(&self.most).any(|(count, most)| count > most) {
            return Err("the start has more than the most layers of a choice".to_owned());
        }
        let sum = |range: &Range<usize>| self.start[range.clone()].iter().sum::<f64>();
        if self.groups.iter().zip(&self.layers).any(|(range, &layers)| sum(range) != layers) {
            return Err("the start has not as many layers as a group".to_owned());
        }
        let needed = |row: &[f64]| row.iter().zip(&self.start).map(|(need, count)| need * count).sum::<f64>();
        if self.needs.iter().zip(&self.capacities).any(|(row, &capacity)| needed(row) > capacity) {
            return Err("the start needs more than the capacity of a resource".to_owned());
        }
        Ok(())
    }
}

/// A copy of an array.
///
/// # Safety
/// `numbers` is null or points to `count` numbers that stay unchanged during the call.
unsafe fn array<T: Copy>(name: &str, numbers: *const T, count: usize) -> Result<Vec<T>, String> {
    match numbers {
        _ if count == 0 => Ok(Vec::new()),
        numbers if numbers.is_null() || !numbers.is_aligned() => Err(format!("{name} is null or not aligned")),
        // SAFETY: not null and aligned; the caller promises `count` numbers.
        numbers => Ok(unsafe { std::slice::from_raw_parts(numbers, count) }.to_vec()),
    }
}

fn ranges(group_choices: &[usize], choices: usize) -> Result<Vec<Range<usize>>, String> {
    let mut begin = 0;
    let mut next = |&count: &usize| {
        let range = begin..count.checked_add(begin).filter(|&end| end > begin && end <= choices)?;
        begin = range.end;
        Some(range)
    };
    let ranges: Option<Vec<_>> = group_choices.iter().map(&mut next).collect();
    let wrong = || format!("the groups' choices are not 1 or more each and {choices} together");
    ranges.filter(|_| begin == choices).ok_or_else(wrong)
}
