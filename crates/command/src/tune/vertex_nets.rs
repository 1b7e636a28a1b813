//! `ucudnn tune --dynamic`: makes the kernels of dynamic nets ahead of time.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ::dynamic::Net;
use tuning::ahead::devices;

use super::progress::Bar;
use super::{Options, set_variables};
use crate::Failure;
use crate::interrupt;
use crate::network::Shapes;
use crate::output;
use crate::python;
use crate::quantity;
use crate::report::lines;
use crate::table::{Side, Table};
use crate::text;
use crate::vertex_net::VertexNet;
use trust::Shown as _;

pub fn run(options: &Options) -> Result<(), Failure> {
    if options.shapes != Shapes::default() {
        let why = "options of a CSV file's layers say nothing of dynamic nets: a report has all of a net";
        return Err(Failure::Usage(why.into()));
    }
    let mut nets: Vec<VertexNet> = Vec::new();
    for file in &options.dynamic {
        for net in read(file)? {
            if !nets.iter().any(|known| known.spec == net.spec) {
                nets.push(net);
            }
        }
    }
    // Compiled kernels are beside the database.
    let database = options.place.create()?.path().to_owned();
    set_variables(options, &database)?;
    python::search_its_packages(None);
    let ordinal = devices().first().copied().unwrap_or(0);
    let device = cudnn::device();
    let entered = device.enter(ordinal);
    let _entered =
        entered.ok_or_else(|| Failure::Failed(format!("there is no device {ordinal} to make kernels for")))?;
    interrupt::catch();
    let begin = Instant::now();
    let bar = Bar::new(nets.len());
    let mut table = Table::new(&[("net", Side::Left), ("runs by", Side::Left), ("s", Side::Right)]);
    let (mut done, mut failed) = (0, Vec::new());
    for net in &nets {
        if interrupt::STOP.load(Ordering::Relaxed) {
            break;
        }
        let (progress, begin) = (bar.problem(net.to_string()), Instant::now());
        let made = net.net().and_then(|its| Net::new(&its, device, net.options).map_err(|why| why.to_string()));
        made.iter().for_each(|net| {
            net.load_all();
        });
        progress.end(if made.is_ok() { "made" } else { "failed" });
        match made {
            Ok(made) => {
                done += 1;
                let seconds = quantity::digits(begin.elapsed().as_secs_f64());
                table.row(vec![net.to_string(), made.configuration(), seconds]);
            }
            Err(why) => failed.push(format!("{net}: {why}")),
        }
    }
    bar.finish();
    let mut said = if done > 0 { table.lines(options.width.columns()) + "\n" } else { String::new() };
    let (count, took) = (quantity::counted(done, "net"), begin.elapsed().as_secs_f64());
    said += &format!("{count} made in {took:.1} s; the kernels are kept beside {}\n", database.shown());
    let printed = output::print(&said);
    if interrupt::STOP.load(Ordering::Relaxed) {
        output::tell(&format!("stopped after {done} of {} nets; the same command goes on", nets.len()));
        interrupt::end();
    }
    for why in &failed {
        output::tell(why);
    }
    match failed.len() {
        0 => printed,
        count => Err(Failure::Failed(format!("{count} of {} nets could not be made", nets.len()))),
    }
}

/// The nets of a run's report.
fn read(file: &Path) -> Result<Vec<VertexNet>, Failure> {
    let nets = lines::parse(file, &text::read(file).map_err(Failure::Failed)?).map_err(Failure::Failed)?.nets;
    if nets.is_empty() {
        return Err(Failure::Failed(format!("{}: the run made no dynamic net on a device", file.shown())));
    }
    Ok(nets)
}
