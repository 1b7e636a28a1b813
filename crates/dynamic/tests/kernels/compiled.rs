//! The kernels of the ready nets, compiled for GPUs. These tests run where `UCUDNN_TEST_REAL_CUDNN` names the folder of
//! the real cuDNN, which has NVRTC beside it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gpu::Element;
use gpu::jit::Source;
use gpu::testing::resources::{LDL, STL, compile, nvrtc, share};
use ucudnn_dynamic::{Executor, Options, sources};
use vertex::function::Net;

use super::case::not_finite_in_empty_slots;
use super::nets::options;
use super::ready::ready;
use super::tree_lstm;

/// Compute capabilities, and the kibibytes of shared memory that a block may have.
const GPUS: [(u32, usize); 4] = [(80, 163), (89, 99), (90, 227), (100, 227)];
const MULTIPROCESSORS: usize = 132;

/// No register is spilt to memory, and no array lies there, for some number of threads.
#[test]
fn ready_nets_compile_for_all_gpus_without_spills() {
    let Some(nvrtc) = nvrtc() else { return };
    let widths = |h: usize| {
        let lstm = ("N-ary Tree-LSTM", tree_lstm::tree_lstm(h, h, None));
        [lstm].into_iter().chain(ready(h, h)).map(move |(name, text)| (name, h, text))
    };
    let mut all: Vec<(String, Vec<Source>, u32)> = vec![];
    for (name, h, text) in [64, 256, 300, 512, 1024].into_iter().flat_map(widths) {
        let net = Net::new(text.parse().unwrap()).unwrap();
        for element in Element::ALL {
            // One width for each of the other architectures, and one net for the kernels that all share.
            let architectures: &[(u32, usize)] = if h == 300 { &GPUS } else { &GPUS[2..3] };
            for (capability, kibibytes) in architectures {
                let in_groups = |groups| {
                    let executor = Executor::Persistent { groups };
                    sources(&net, Options { executor, ..options(element, false) }, [MULTIPROCESSORS, kibibytes << 10])
                };
                let its = in_groups(1);
                let is_new = |place: usize| place != 1 || (h == 300 && name == "TreeGRU");
                for (place, source) in its.into_iter().enumerate().filter(|(place, _)| is_new(*place)) {
                    all.push((format!("{name}, {h}, {element:?}, sm_{capability}, {place}"), source, *capability));
                }
                for groups in [2, 4, 8].into_iter().filter(|_| h == 256) {
                    let what = format!("{name}, {element:?}, in {groups} groups");
                    all.extend(in_groups(groups).drain(2..).map(|path| (what.clone(), path, *capability)));
                }
            }
        }
    }
    let mut all: Vec<_> = share(all, 11).collect();
    for element in Element::ALL {
        let wide = Source::new(&kernels::dynamic::WARPGROUP_PRODUCTS, vec![element.option().into()]);
        all.push((format!("products by warpgroups, {element:?}"), vec![wide], 90));
    }
    // A net of the operations that no ready net has.
    let net = Net::new(not_finite_in_empty_slots().declaration).unwrap();
    for element in Element::ALL {
        let its = sources(&net, options(element, false), [MULTIPROCESSORS, 227 << 10]);
        all.extend(its.into_iter().map(|source| (format!("empty slots, {element:?}"), source, 90)));
    }
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(vec![]));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((what, sources, capability)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut fault = None;
                    for source in sources {
                        let compiled = compile(nvrtc, source, *capability);
                        let spills = compiled.count(STL) + compiled.count(LDL);
                        if spills == 0 && compiled.frame == 0 {
                            fault = None;
                            break;
                        }
                        fault = Some(format!("{what}: {spills} spills, {} bytes", compiled.frame));
                    }
                    faults.lock().unwrap().extend(fault);
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), all.len(), faults.join("\n"));
}
