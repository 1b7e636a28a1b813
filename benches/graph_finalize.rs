//! The cost of finalizing graph API plans under a limit that keeps most of them from running unchanged: 40 plans of one
//! convolution, as PyTorch makes them in benchmark mode. Limit: 1.2 times cuDNN's own finalizing and one planning,
//! which the first plan that needs it includes.
//!
//! By default on hostdnn, where finalizing takes next to nothing. On the real cuDNN, without a GPU:
//! `UCUDNN_CUDNN_LIBRARY=…/libcudnn.so.9 UCUDNN_TEST_DEVICE=device.json`, device.json having a device's properties as
//! cuDNN reports them (`CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION`).

#[path = "graph/api.rs"]
mod api;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cudnn_abi::*;

use api::{Api, Backend};

const PLANS: usize = 40;
/// Each round has its own convolution, which has no plan yet.
const ROUNDS: i64 = 11;

/// The times of finalizing one convolution's plans.
struct Round {
    plans: Vec<Duration>,
}

impl Round {
    fn total(&self) -> f64 {
        self.plans.iter().sum::<Duration>().as_secs_f64()
    }

    /// The sum of all plans' times but the longest, which includes planning.
    fn but_slowest(&self) -> f64 {
        self.total() - self.plans.iter().max().map_or(0.0, Duration::as_secs_f64)
    }
}

/// The device that plans are for: a handle's, or one given by its properties.
struct Device<'a> {
    api: &'a Api,
    handle: Option<cudnnHandle_t>,
    properties: Option<Backend>,
    data_type: cudnnDataType_t,
}

impl Device<'_> {
    fn round(&self, channels: i64) -> Round {
        let Self { api, handle, properties, data_type } = *self;
        let graph = api.convolution(&[32, channels, 28, 28], data_type, 16, handle);
        let offers = api.offers(graph, properties);
        let mut plans = Vec::new();
        for offer in offers.iter().cycle().take(20 * PLANS) {
            if plans.len() == PLANS {
                break;
            }
            let plan = api.unfinalized_plan(*offer, handle, properties);
            let start = Instant::now();
            if api.try_finalize(plan) {
                plans.push(start.elapsed());
            }
            api.destroy(plan);
        }
        assert_eq!(plans.len(), PLANS, "too few of the engines run");
        Round { plans }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let hostdnn = std::env::current_exe().unwrap().with_file_name("libhostdnn.so");
    let library = std::env::var_os("UCUDNN_CUDNN_LIBRARY").map_or(hostdnn, PathBuf::from);
    let json = std::env::var_os("UCUDNN_TEST_DEVICE").map(|file| std::fs::read_to_string(file).unwrap());
    // SAFETY: no other thread runs yet, so none reads the environment.
    unsafe {
        std::env::set_var("UCUDNN_CUDNN_LIBRARY", &library);
        std::env::set_var("UCUDNN_DATABASE", "off");
        if std::env::var_os("UCUDNN_WORKSPACE_LIMIT").is_none() {
            std::env::set_var("UCUDNN_WORKSPACE_LIMIT", "64KiB");
        }
    }
    let (real, shim) = (Api::open(&library), Api::open(&api::shim()));
    let device = |api| match &json {
        Some(json) => Device { api, handle: None, properties: Some(real.properties(json)), data_type: CUDNN_DATA_HALF },
        None => Device { api, handle: Some(real.handle()), properties: None, data_type: CUDNN_DATA_FLOAT },
    };
    // The library in front knows only the descriptors that were set through itself.
    let of_shim = match &json {
        Some(json) => Device { properties: Some(shim.properties(json)), ..device(&shim) },
        None => device(&shim),
    };
    let of_real = device(&real);
    let rounds: Vec<_> = (1..=ROUNDS).map(|round| (of_real.round(8 * round), of_shim.round(8 * round))).collect();
    let of = |what: fn(&(Round, Round)) -> f64| median(rounds.iter().map(what).collect());
    let (plain, ours) = (of(|(plain, _)| plain.total()), of(|(_, ours)| ours.total()));
    let planning = of(|(_, ours)| ours.total() - ours.but_slowest());
    let each = of(|(plain, ours)| (ours.but_slowest() - plain.but_slowest()) / (PLANS - 1) as f64);
    println!("{PLANS} plans of one convolution, medians of {ROUNDS} convolutions:");
    println!("plain:                 {:9.1} µs", plain * 1e6);
    println!("ours:                  {:9.1} µs", ours * 1e6);
    println!("of which one planning: {:9.1} µs", planning * 1e6);
    println!("each other plan costs  {:9.1} µs over plain", each * 1e6);
    println!("ours over plain and one planning: {:.2} times (limit: 1.20)", ours / (plain + planning));
}
