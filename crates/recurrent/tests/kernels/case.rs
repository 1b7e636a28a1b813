//! A recurrence on random data: its memory, and its run.

use std::ffi::c_void;
use std::ptr;

use hostdnn::Error;
use hostdnn::emulator::{Launch, Module};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::element::{Numbers, bits};
use super::reference::{self, Expected};
use ucudnn_recurrent::configuration::{Cell, Configuration, Problem};
use ucudnn_recurrent::testing::reference_f64::{Arithmetic, Distance, Rounded};

/// The layout of x's and y's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// [steps][batch]
    TimeMajor,
    /// [batch][steps]
    BatchMajor,
    /// [steps][batch], with different lengths, some of them 0.
    Padded,
    /// Each step has the rows that last so long, longest first.
    Packed,
}

/// One case: a problem, its configuration, and its data's layout.
#[derive(Clone, Debug)]
pub struct Case {
    pub problem: Problem,
    pub configuration: Configuration,
    pub steps: usize,
    pub reverse: bool,
    pub layout: Layout,
    /// True if there are h0, c0, biases, hy and cy; otherwise all of them are null.
    pub has_states: bool,
    /// True if weights are aligned for vectors; otherwise they begin one element further.
    pub is_aligned: bool,
}

/// y's elements behind each row, which nobody may write.
const GAP: usize = 3;
/// The value of y behind a row's end: exact in all types.
const FILL: f64 = -7.0;

/// The kernels' structs, in `kernels/recurrent/recurrence.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Recurrence {
    pub input: *const f32,
    weights: *const u8,
    x: *const u8,
    pub input_weights: *const u8,
    input_biases: *const u8,
    recurrent_biases: *const u8,
    h0: *const u8,
    c0: *const u8,
    pub y: *mut u8,
    hy: *mut u8,
    cy: *mut u8,
    gates: *mut u8,
    cells: *mut u8,
    lengths: *const i32,
    starts: *const i32,
    y_stride: i64,
    time_stride: i64,
    batch_stride: i64,
    fill: [u8; 4],
    steps: i32,
    batch: i32,
    reverse: i32,
    exchange: *mut c_void,
}

#[repr(C)]
struct Recurrences {
    of: [Recurrence; 8],
}

/// The input.
pub struct Data {
    /// For each batch row, the row of x at each step.
    pub rows: Vec<Vec<usize>>,
    pub lengths: Vec<usize>,
    pub input: Vec<f32>,
    /// x and W, for kernels whose `input` is not W x.
    x: Numbers,
    input_weights: Numbers,
    pub weights: Numbers,
    /// The biases of W and of R.
    pub biases: [Numbers; 2],
    pub h0: Numbers,
    pub c0: Numbers,
    starts: Vec<i32>,
    row_count: usize,
}

impl Data {
    pub fn lengths_in_memory(&self) -> Vec<i32> {
        self.lengths.iter().map(|&length| length as i32).collect()
    }
}

/// The results.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    y: Numbers,
    hy: Numbers,
    cy: Numbers,
}

/// The exchange's memory, as the kernels align it.
#[repr(C, align(128))]
#[derive(Clone)]
struct Line([u8; 128]);

/// Memory that carries over from one launch of a kernel to the next.
pub struct Exchange(Vec<Line>);

impl Exchange {
    pub fn of(problem: &Problem, configuration: &Configuration) -> Self {
        Self(vec![Line([0; 128]); configuration.exchange_bytes(problem).div_ceil(128)])
    }

    pub fn as_mut_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }
}

/// The launch of a configuration's kernel; the seed determines the order of threads.
pub fn launch(problem: &Problem, configuration: &Configuration, seed: Option<u64>) -> Launch {
    Launch {
        grid: configuration.grid(problem),
        block: [configuration.block_threads() as u32, 1, 1],
        cluster: configuration.cluster(problem),
        shared_bytes: configuration.shared_bytes(problem),
        seed,
    }
}

impl Case {
    pub fn data(&self, seed: u64) -> Data {
        let Problem { cell, element, hidden, batch, .. } = self.problem;
        let mut random = StdRng::seed_from_u64(seed);
        // Sums of uniform numbers: bounded, and spread over the whole range.
        let mut numbers = |count: usize, scale: f64| -> Vec<f64> {
            (0..count).map(|_| scale * (0..4).map(|_| random.random_range(-1.0..1.0)).sum::<f64>()).collect()
        };
        let lengths: Vec<usize> = match self.layout {
            Layout::TimeMajor | Layout::BatchMajor => vec![self.steps; batch],
            // Neighbours differ, the first is the longest, some are 0.
            Layout::Padded => (0..batch).map(|row| (self.steps + row * 3) % (self.steps + 1)).collect(),
            Layout::Packed => (0..batch).map(|row| (self.steps - row * self.steps / batch).max(1)).collect(),
        };
        let going_on = |step: usize| lengths.iter().filter(|&&length| length > step).count();
        let starts: Vec<_> = (0..self.steps).map(|step| (0..step).map(going_on).sum::<usize>()).collect();
        let row = |step: usize, row: usize| match self.layout {
            Layout::TimeMajor | Layout::Padded => step * batch + row,
            Layout::BatchMajor => row * self.steps + step,
            Layout::Packed => starts[step] + row,
        };
        let rows: Vec<Vec<_>> = (0..batch).map(|of| (0..self.steps).map(|step| row(step, of)).collect()).collect();
        let row_count = if self.layout == Layout::Packed { lengths.iter().sum() } else { batch * self.steps };
        let gates = cell.gates();
        let input = numbers(row_count * gates * hidden, 0.7).into_iter().map(|value| value as f32).collect();
        let skipped = usize::from(!self.is_aligned);
        let weights = numbers(skipped + gates * hidden * hidden, 1.0 / (hidden as f64).sqrt());
        let mut states = |count| Numbers::of(element, numbers(count, 0.4));
        let biases = [states(gates * hidden), states(gates * hidden)];
        let (h0, c0) = (states(batch * hidden), states(batch * hidden));
        let width = self.problem.input;
        let mut x = numbers(skipped + row_count * width, 0.7);
        // Rows behind a sequence's end are never read.
        let is_read = |place: usize| {
            let of = |(row, places): (usize, &Vec<usize>)| places[..lengths[row]].contains(&place);
            let rows: &Vec<Vec<usize>> = &rows;
            rows.iter().enumerate().any(of)
        };
        for place in (0..row_count).filter(|&place| !is_read(place)) {
            x[skipped + place * width..][..width].fill(f64::NAN);
        }
        let input_weights = numbers(skipped + gates * hidden * width, 1.0 / (width.max(1) as f64).sqrt());
        let [x, input_weights] = [x, input_weights].map(|numbers| Numbers::of(element, numbers));
        let starts = starts.into_iter().map(|start| start as i32).collect();
        let weights = Numbers::of(element, weights);
        Data { rows, lengths, input, x, input_weights, weights, biases, h0, c0, starts, row_count }
    }

    /// The first weight in [`Data::weights`].
    pub fn first_weight(&self) -> usize {
        usize::from(!self.is_aligned)
    }

    pub fn exchange(&self) -> Exchange {
        Exchange::of(&self.problem, &self.configuration)
    }

    /// Runs the kernel once; the seed determines the order of threads.
    pub fn run(
        &self,
        module: &Module,
        data: &Data,
        exchange: &mut Exchange,
        seed: Option<u64>,
    ) -> Result<Results, Error> {
        let mut results = self.poison(data);
        let lengths = data.lengths_in_memory();
        let recurrence = self.recurrence(data, &lengths, exchange, &mut results);
        // SAFETY: the memory has the sizes that the configuration and the case require.
        unsafe { self.launch(module, [recurrence; 8], seed) }?;
        Ok(results)
    }

    /// Runs the kernel once for both directions of a layer, the case's first. Each has an exchange.
    pub fn run_both(
        &self,
        module: &Module,
        data: [&Data; 2],
        exchanges: &mut [Exchange; 2],
        seed: Option<u64>,
    ) -> Result<[Results; 2], Error> {
        let mut results = data.map(|data| self.poison(data));
        let lengths = data.map(Data::lengths_in_memory);
        let ([first, second], [exchange, other]) = (&mut results, exchanges);
        let mut recurrences = [self.recurrence(data[0], &lengths[0], exchange, first); 8];
        recurrences[1] = self.other_direction().recurrence(data[1], &lengths[1], other, second);
        // SAFETY: the memory has the sizes that the configuration and the case require.
        unsafe { self.launch(module, recurrences, seed) }?;
        Ok(results)
    }

    /// Does the same as [`Self::check`] for both directions.
    pub fn check_both(&self, data: [&Data; 2], results: &[Results; 2]) -> Result<(), String> {
        self.check(data[0], &results[0])?;
        self.other_direction().check(data[1], &results[1]).map(drop)
    }

    /// The first `count` weights of matrices, one after the other.
    pub fn matrices(&self, numbers: &Numbers, count: usize) -> Vec<f64> {
        (0..count).map(|i| numbers.get(self.first_weight() + i)).collect()
    }

    /// The address of a matrix's first weight.
    pub fn weights(&self, numbers: &Numbers) -> *const u8 {
        numbers.as_ptr().wrapping_add(self.first_weight() * self.problem.element.bytes())
    }

    fn other_direction(&self) -> Self {
        Self { reverse: !self.reverse, ..self.clone() }
    }

    pub fn poison(&self, data: &Data) -> Results {
        let Problem { element, hidden, batch, .. } = self.problem;
        let poison = |count| Numbers::poison(element, count);
        let y = poison(data.row_count * (hidden + GAP));
        Results { y, hy: poison(batch * hidden), cy: poison(batch * hidden) }
    }

    pub fn recurrence(
        &self,
        data: &Data,
        lengths: &[i32],
        exchange: &mut Exchange,
        results: &mut Results,
    ) -> Recurrence {
        let Problem { element, hidden, batch, .. } = self.problem;
        let y_stride = hidden + GAP;
        let given = |numbers: &Numbers| if self.has_states { numbers.as_ptr() } else { ptr::null() };
        let wanted = |numbers: &mut Numbers| if self.has_states { numbers.as_mut_ptr() } else { ptr::null_mut() };
        let is_varied = matches!(self.layout, Layout::Padded | Layout::Packed);
        let [time_stride, batch_stride] = match self.layout {
            Layout::BatchMajor => [1, self.steps],
            _ => [batch, 1],
        };
        let mut fill = bits(element, FILL);
        fill.resize(4, 0);
        let is_lstm = self.problem.cell == Cell::Lstm;
        let within = self.multiplies_input();
        Recurrence {
            input: if within { ptr::null() } else { data.input.as_ptr() },
            weights: self.weights(&data.weights),
            x: if within { self.weights(&data.x) } else { ptr::null() },
            input_weights: if within { self.weights(&data.input_weights) } else { ptr::null() },
            input_biases: given(&data.biases[0]),
            recurrent_biases: given(&data.biases[1]),
            h0: given(&data.h0),
            c0: if is_lstm { given(&data.c0) } else { ptr::null() },
            y: results.y.as_mut_ptr(),
            hy: wanted(&mut results.hy),
            cy: if is_lstm { wanted(&mut results.cy) } else { ptr::null_mut() },
            gates: ptr::null_mut(),
            cells: ptr::null_mut(),
            lengths: if is_varied { lengths.as_ptr() } else { ptr::null() },
            starts: if self.layout == Layout::Packed { data.starts.as_ptr() } else { ptr::null() },
            y_stride: y_stride as i64,
            time_stride: time_stride as i64,
            batch_stride: batch_stride as i64,
            fill: fill.try_into().unwrap(),
            steps: self.steps as i32,
            batch: batch as i32,
            reverse: self.reverse.into(),
            exchange: exchange.as_mut_ptr(),
        }
    }

    /// # Safety
    /// The recurrences' memory exists, with the sizes that the configuration and the case require.
    pub unsafe fn launch(&self, module: &Module, of: [Recurrence; 8], seed: Option<u64>) -> Result<(), Error> {
        let parameters = Recurrences { of };
        let launch = launch(&self.problem, &self.configuration, seed);
        let kernel = module.kernel(self.configuration.kernel(&self.problem))?;
        // SAFETY: the parameters are the kernel's struct, and the caller promises the memory behind it.
        unsafe { kernel.launch(&launch, ptr::from_ref(&parameters).cast()) }
    }

    /// Compares the results with double precision. Returns the distance of all of them, or an `Err` that names the
    /// wrong part.
    pub fn check(&self, data: &Data, results: &Results) -> Result<Distance, String> {
        let input = |row, time, column| self.input(data, row, time, column);
        self.check_against(&reference::compute(self, data, input), data, results, true)
    }

    /// True if the kernel itself computes W x.
    fn multiplies_input(&self) -> bool {
        self.configuration.multiplies_input()
    }

    /// W x of a column, for a batch row and its step by time: as given, or computed from x and W.
    pub fn input(&self, data: &Data, row: usize, time: usize, column: usize) -> Rounded {
        let Problem { cell, element, hidden, input, .. } = self.problem;
        let (columns, place) = (cell.gates() * hidden, data.rows[row][time]);
        if !self.multiplies_input() {
            return Rounded::exact(data.input[place * columns + column].into());
        }
        let number = |numbers: &Numbers, place: usize| numbers.get(self.first_weight() + place);
        let x: Vec<_> = (0..input).map(|k| Rounded::exact(number(&data.x, place * input + k))).collect();
        let weights: Vec<_> = (0..input).map(|k| number(&data.input_weights, column * input + k)).collect();
        Arithmetic::of(element, self.configuration.math).product(&weights, 0, &x)
    }

    /// Does the same with given expected results; `has_y` says whether y is wanted.
    pub fn check_against(
        &self,
        expected: &Expected,
        data: &Data,
        results: &Results,
        has_y: bool,
    ) -> Result<Distance, String> {
        let Problem { cell, hidden, batch, .. } = self.problem;
        let y_stride = hidden + GAP;
        let mut untouched = vec![true; data.row_count * y_stride];
        let mut y = Distance::default();
        for (row, states) in expected.y.iter().enumerate().filter(|_| has_y) {
            for (step, h) in states.iter().enumerate() {
                for (unit, h) in h.iter().enumerate() {
                    let place = data.rows[row][step] * y_stride + unit;
                    untouched[place] = false;
                    y.count(results.y.get(place), *h);
                }
            }
            if self.layout != Layout::Packed {
                for step in states.len()..self.steps {
                    for place in (0..hidden).map(|unit| data.rows[row][step] * y_stride + unit) {
                        untouched[place] = false;
                        if results.y.get(place) != FILL {
                            return Err(format!("y[{place}] is behind a row's end and was not filled"));
                        }
                    }
                }
            }
        }
        let written = |(place, untouched): (usize, &bool)| *untouched && !results.y.get(place).is_nan();
        if let Some(place) = untouched.iter().enumerate().position(written) {
            return Err(format!("y[{place}] is between rows and was written"));
        }
        let (mut h, mut c) = (Distance::default(), Distance::default());
        for place in 0..batch * hidden {
            let (row, unit) = (place / hidden, place % hidden);
            if self.has_states {
                h.count(results.hy.get(place), expected.h[row][unit]);
                if cell == Cell::Lstm {
                    c.count(results.cy.get(place), expected.c[row][unit]);
                }
            }
            if !(self.has_states || results.hy.get(place).is_nan()) {
                return Err("hy was written where none was wanted".into());
            }
        }
        for (name, distance) in [("y", y), ("hy", h), ("cy", c)] {
            if !distance.is_of_rounding() {
                return Err(format!("{name} is {distance}"));
            }
        }
        Ok(y + h + c)
    }
}
