use std::sync::Barrier;

use super::*;
use crate::plans::legacy::registry::Question;
use planner::BatchSizePolicy;

const ID: c_int = 1;
const DEVICE: Device = Device::Host;

/// A problem of its own for each number.
fn problem(number: usize) -> Problem {
    let spec = format!(
        "F x=float:{number}x1x3x3@9x9x3x1 w=float:nchw:1x1x1x1 y=float:{number}x1x3x3@9x9x3x1 pad=0x0 stride=1x1 \
         dilation=1x1 mode=correlation compute=float math=default groups=1"
    );
    Problem::from_spec(&spec).unwrap()
}

fn promise(needs: usize, limit: usize, math_type: cudnnMathType_t) -> Promise {
    let entry = AlgoPerf { algo: ID, memory: needs, mathType: math_type, ..AlgoPerf::default() };
    Promise {
        question: Question { asked: Some(limit), limit, sizes: BatchSizePolicy::PowerOfTwo },
        covers: needs..usize::MAX,
        entry,
        saves: None,
        needs,
        preferred: None,
        class: None,
        fallback: None,
        determined: None,
        undivided: needs,
        plan: None,
        is_final: true,
        broken: [false; 2],
    }
}

/// Records a promise that needs this number of bytes. Returns the reported number.
fn reported(problem: &Problem, needs: usize, limit: usize, math_type: cudnnMathType_t) -> Result<usize, Refusal> {
    let own = |_| unreachable!("nothing was forgotten");
    record(DEVICE, problem, promise(needs, limit, math_type), limit, own).map(|promise| promise.entry.memory)
}

fn told(problem: &Problem, math_type: cudnnMathType_t) -> Option<usize> {
    known_state(DEVICE, &Problem { math_type, ..*problem })?.known.lock().told(ID)
}

fn tell(problem: &Problem, math_type: cudnnMathType_t, bytes: usize) {
    state(DEVICE, &Problem { math_type, ..*problem }).known.lock().tell(ID, bytes);
}

/// One test: forgetting concerns the whole process.
#[test]
fn the_first_size_counts() {
    later_promises_keep_to_the_first();
    a_promise_counts_under_two_math_types();
    threads_are_told_the_same();
    results_have_the_told_sizes();
    what_was_forgotten_was_cudnns_own();
}

fn later_promises_keep_to_the_first() {
    let problem = problem(1);
    assert_eq!(reported(&problem, 100, 1000, CUDNN_DEFAULT_MATH), Ok(100));
    assert_eq!(reported(&problem, 60, 2000, CUDNN_DEFAULT_MATH), Ok(100));
    assert_eq!(reported(&problem, 150, 1000, CUDNN_DEFAULT_MATH), Err(Refusal::Within(100)));
    assert_eq!(reported(&problem, 60, 80, CUDNN_DEFAULT_MATH), Err(Refusal::Below(100)));
    let state = state(DEVICE, &problem);
    let known = state.known.lock();
    let answers = |limit| known.answer(promise(0, limit, 0).question).map(|promise| promise.needs);
    // A promise answers no limit below the bytes that it reports.
    assert_eq!((answers(99), answers(100)), (None, Some(60)));
    // What needs no more than the call brings may run, although more is reported.
    assert_eq!(known.promise(ID, 99).map(|promise| promise.needs), Some(60));
    assert_eq!(known.promise(ID, 59).map(|promise| promise.needs), None);
}

fn a_promise_counts_under_two_math_types() {
    let both = [CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH];
    let sizes = |problem: &Problem| both.map(|math_type| told(problem, math_type));
    let fresh = problem(2);
    assert_eq!(reported(&fresh, 100, 1000, CUDNN_TENSOR_OP_MATH), Ok(100));
    assert_eq!(sizes(&fresh), [Some(100), Some(100)]);
    // The size that was told under the result's math type counts under the query's too.
    let result_first = problem(3);
    tell(&result_first, CUDNN_TENSOR_OP_MATH, 50);
    assert_eq!(reported(&result_first, 60, 1000, CUDNN_TENSOR_OP_MATH), Err(Refusal::Within(50)));
    assert_eq!(sizes(&result_first), [None, Some(50)]);
    assert_eq!(reported(&result_first, 40, 1000, CUDNN_TENSOR_OP_MATH), Ok(50));
    assert_eq!(sizes(&result_first), [Some(50), Some(50)]);
    // Two sizes stay two sizes, and the promise needs no more than either.
    let apart = problem(4);
    tell(&apart, CUDNN_TENSOR_OP_MATH, 50);
    tell(&apart, CUDNN_DEFAULT_MATH, 70);
    assert_eq!(reported(&apart, 60, 1000, CUDNN_TENSOR_OP_MATH), Err(Refusal::Within(50)));
    assert_eq!(reported(&apart, 40, 1000, CUDNN_TENSOR_OP_MATH), Ok(70));
    assert_eq!(sizes(&apart), [Some(70), Some(50)]);
    // Another math type is another question.
    assert_eq!(reported(&problem(4), 90, 1000, CUDNN_DEFAULT_MATH), Err(Refusal::Within(70)));
    assert_eq!(told(&apart, CUDNN_FMA_MATH), None);
}

fn threads_are_told_the_same() {
    let begin = Barrier::new(2);
    for number in 10..210 {
        let ask = |needs| {
            begin.wait();
            reported(&problem(number), needs, 1000, CUDNN_TENSOR_OP_MATH)
        };
        let [small, large] = std::thread::scope(|scope| {
            let [small, large] = [10, 20].map(|needs| scope.spawn(move || ask(needs)));
            [small, large].map(|thread| thread.join().unwrap())
        });
        let told = told(&problem(number), CUDNN_DEFAULT_MATH).unwrap();
        assert_eq!(small, Ok(told));
        assert_eq!(large, if told == 20 { Ok(20) } else { Err(Refusal::Within(10)) });
    }
}

fn results_have_the_told_sizes() {
    let problem = problem(5);
    let result = |algo, math_type, memory| AlgoPerf {
        algo,
        memory,
        mathType: math_type,
        determinism: CUDNN_DETERMINISTIC,
        ..AlgoPerf::default()
    };
    assert_eq!(reported(&problem, 60, 1000, CUDNN_DEFAULT_MATH), Ok(60));
    state(DEVICE, &problem).known.lock().told.extend([(0, 50), (2, 90)]);
    let results = vec![
        result(ID, CUDNN_DEFAULT_MATH, 100),
        result(ID, CUDNN_TENSOR_OP_MATH, 110),
        result(2, CUDNN_DEFAULT_MATH, 30),
        result(0, CUDNN_DEFAULT_MATH, 0),
    ];
    let told = with_told(DEVICE, &problem, results);
    // The last needs least, and no other is left for a program that has no more.
    assert_eq!([60, 110, 90, 0], [0, 1, 2, 3].map(|at| told[at].memory));
    // cuDNN's algorithm does not fit in 60 bytes, so the promise runs: as deterministic as that is.
    assert_eq!([CUDNN_NON_DETERMINISTIC, CUDNN_DETERMINISTIC], [0, 2].map(|at| told[at].determinism));
}

fn what_was_forgotten_was_cudnns_own() {
    let forgotten = problem(6);
    tell(&forgotten, CUDNN_DEFAULT_MATH, 80);
    let mut others = 1000..;
    while told(&forgotten, CUDNN_DEFAULT_MATH).is_some() {
        tell(&problem(others.next().unwrap()), CUDNN_DEFAULT_MATH, 7);
    }
    let again = |needs, own| record(DEVICE, &forgotten, promise(needs, 1000, CUDNN_DEFAULT_MATH), 1000, |_| own);
    // Without cuDNN's answer, nobody knows what was told.
    assert_eq!(again(100, None).map(|promise| promise.needs).unwrap_err(), Refusal::Below(usize::MAX));
    assert_eq!(again(100, Some(80)).map(|promise| promise.needs).unwrap_err(), Refusal::Within(80));
    assert_eq!(again(60, Some(80)).map(|promise| promise.entry.memory).unwrap_or(0), 80);
    // A promise is never forgotten, and neither is its size.
    assert_eq!(told(&problem(1), CUDNN_DEFAULT_MATH), Some(100));
}
