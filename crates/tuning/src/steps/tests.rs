use std::time::Duration;

use super::*;

/// A program whose calls are handed in, with its own clock.
struct Program {
    steps: Steps,
    moment: Moment,
    trials: u64,
    gain: Gain,
    said: Vec<Mean>,
}

impl Program {
    fn new() -> Self {
        let gain = Gain { ours: 0, judged: 0, saved: 0 };
        Self { steps: Steps::new(), moment: Moment::now(), trials: 0, gain, said: Vec::new() }
    }

    /// Calls a subject. The call takes this many milliseconds, and saves as many nanoseconds, if anything.
    fn call(&mut self, subject: usize, milliseconds: u64, saves: Option<i64>) {
        let now = Tally { moment: self.moment, trials: self.trials, gain: self.gain };
        self.said.extend(self.steps.called(subject, || now));
        self.moment = self.moment + Duration::from_millis(milliseconds);
        if let Some(saves) = saves {
            self.gain.ours += 1;
            self.gain.judged += 1;
            self.gain.saved += saves;
        }
    }

    /// Makes so many steps of these subjects, each in a millisecond without us.
    fn steps(&mut self, count: usize, subjects: &[usize]) {
        for _ in 0..count {
            subjects.iter().for_each(|subject| self.call(*subject, 1, None));
        }
    }

    fn last(&self) -> &Mean {
        self.said.last().expect("nothing was said")
    }
}

#[test]
fn steps_of_a_network_are_told_with_what_they_save() {
    let mut program = Program::new();
    // Two layers are alike, and one runs three times in a row.
    let network = [16, 32, 32, 48, 64, 64, 64, 80];
    program.steps(9, &network);
    assert!(program.said.is_empty(), "too few steps");
    for _ in 0..300 {
        program.call(16, 3, Some(5_000_000));
        program.steps(1, &network[1..7]);
        program.call(80, 1, Some(-1_000));
    }
    let counts: Vec<_> = program.said.iter().map(|mean| mean.steps).collect();
    assert_eq!(counts, [128, 256], "each once, from a thousand calls on");
    let gain = Gain { ours: 2, judged: 2, saved: 4_999_000 };
    assert_eq!(*program.last(), Mean { sequence: 0, calls: 8, steps: 256, time: 10.0, gain });
    assert_eq!(program.said[0].time, 10.0);
}

#[test]
fn what_is_tried_or_changes_is_not_in_a_step() {
    let mut program = Program::new();
    program.steps(512, &[1, 2, 3, 4]);
    assert_eq!((program.last().steps, program.last().time), (256, 4.0));
    // Every other step has a trial, which takes long.
    for _ in 0..40 {
        program.steps(1, &[1, 2, 3, 4]);
        program.call(1, 100, None);
        program.trials += 1;
        program.steps(1, &[2, 3, 4]);
    }
    assert_eq!((program.last().steps, program.last().time), (512, 4.0));
    // A plan settles: the steps from there on are others.
    for _ in 0..17 {
        program.call(1, 1, Some(1_000_000));
        program.steps(1, &[2, 3, 4]);
    }
    assert_eq!((program.last().steps, program.last().gain.saved), (16, 1_000_000));
}

#[test]
fn alike_layers_within_a_step_are_no_steps() {
    // As in ResNet-101: 22 blocks are alike, forward and backward.
    let blocks = |subjects: [usize; 3]| subjects.repeat(22);
    let ends = |from: usize| (from..from + 40).collect::<Vec<_>>();
    let network = [ends(100), blocks([1, 2, 3]), ends(200), ends(300), blocks([4, 5, 6]), ends(400)].concat();
    let mut program = Program::new();
    program.steps(40, &network);
    assert!(program.said.iter().all(|mean| mean.calls == network.len()), "{:?}", program.said);
    assert_eq!((program.last().steps, program.last().time), (32, network.len() as f64));

    // As in Real-ESRGAN's generator: nearly all calls are of 69 blocks.
    let of_blocks = [vec![100], [1, 2, 3, 4, 5].repeat(69), vec![101, 102, 103, 104, 105]].concat();
    let mut program = Program::new();
    program.steps(60, &of_blocks);
    assert!(program.said.iter().all(|mean| mean.calls == of_blocks.len()), "{:?}", program.said);
    assert_eq!(program.last().steps, 32);

    // With other shapes in each step, the blocks still are alike, and no step repeats.
    for network in [network, of_blocks] {
        let mut program = Program::new();
        for step in 0..200 {
            let shapes: Vec<_> = network.iter().map(|subject| subject + 1000 * step).collect();
            program.steps(1, &shapes);
        }
        assert_eq!(program.said, []);
    }
}

#[test]
fn steps_of_training_are_told_beside_those_of_validation() {
    let mut program = Program::new();
    for _ in 0..4 {
        program.steps(300, &[1, 2, 3, 13, 12, 11]);
        program.steps(100, &[1, 2, 3]);
    }
    assert!(program.said.iter().all(|mean| (mean.sequence, mean.calls) == (0, 6)), "{:?}", program.said);
    assert_eq!(program.last().steps, 256);
}

#[test]
fn several_networks_in_no_order_are_no_steps() {
    let mut program = Program::new();
    let mut random = 1_u32;
    for _ in 0..3000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let network = usize::try_from(random >> 31).unwrap();
        program.steps(1, &[10 * network, 10 * network + 1, 10 * network + 2]);
    }
    assert_eq!(program.said, []);
}

/// A period is one at whichever call it begins, and the shortest one.
#[test]
fn a_period_is_the_shortest() {
    assert_eq!(period(&[7; 5]), Some(1));
    assert_eq!(period(&[1, 2, 1, 2, 1, 2, 1]), Some(2));
    assert_eq!(period(&[2, 3, 1, 2, 3, 1, 2, 3, 1, 2]), Some(3));
    assert_eq!(period(&[1, 2, 3, 1, 2, 3, 1, 2]), None, "less than three times");
    assert_eq!(period(&[1, 2, 1, 2, 1, 2, 3]), None);
}

#[test]
fn what_is_remembered_has_a_bound() {
    let mut program = Program::new();
    for subject in 0..200_000 {
        program.call(subject, 1, None);
        let Course::Learning(calls, _) = &program.steps.course else { panic!("nothing repeats") };
        assert!(calls.len() < MOST);
    }
    // Many sequences, one after the other.
    let mut program = Program::new();
    for sequence in 0..100 {
        program.steps(2000, &[10 * sequence, 10 * sequence + 1]);
    }
    assert!(program.steps.sequences.len() <= MOST_SEQUENCES && program.said.len() < 20, "{:?}", program.said);
    // A gain that changes again and again.
    let mut program = Program::new();
    for gain in 0..1000 {
        for _ in 0..10 {
            program.call(1, 1, Some(gain));
        }
    }
    assert!(program.said.len() <= 256, "{}", program.said.len());
}
