//! cuDNN's candidates for one convolution problem at each micro-batch size.

use convolution::plans::graph::proposals::{self, Proposal};
use convolution::problem::graph::Problem;
use cudnn::graph::{Target, refusal};
use cudnn_abi::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
use serde_json::{Value, json};

use super::limit_text;
use crate::network::Layer;
use crate::quantity;
use crate::table::{Side, Table};
use crate::workload::Workload;

/// All candidate engines for a problem.
pub struct Offered {
    problem: Problem,
    /// Micro-batch sizes, the mini-batch itself first.
    sizes: Vec<usize>,
    /// The candidates, size by size, in the order of cuDNN's heuristics.
    offers: Vec<Proposal>,
}

/// How an engine fits within a limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    Undivided,
    /// In micro-batches of at most this many images.
    Divided(usize),
    Never,
}

impl Offered {
    /// Probes cuDNN for the candidates that the options of `workload` allow. `Err` says why cuDNN refuses a graph.
    pub fn ask(layer: &Layer, target: &Target, workload: &Workload) -> Result<Self, String> {
        let problem = layer.problem.graph();
        let sizes = proposals::sizes(&problem, workload.sizes);
        let mut offers = Vec::new();
        for &size in &sizes {
            let found = proposals::proposals(&problem, target, size);
            offers.extend(found.map_err(|status| format!("cuDNN refuses {size} images of it: {}", refusal(status)))?);
        }
        let is_random = |offer: &Proposal| offer.engine.numerics.contains(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
        offers.retain(|offer| !(workload.deterministic && is_random(offer)));
        Ok(Self { problem, sizes, offers })
    }

    /// Returns true if there is a candidate.
    pub fn is_any(&self) -> bool {
        !self.offers.is_empty()
    }

    /// The text of the problem's operation graph.
    pub fn spec(&self) -> String {
        self.problem.spec()
    }

    /// One candidate for each engine.
    fn engines(&self) -> Vec<&Proposal> {
        let mut engines: Vec<&Proposal> = Vec::new();
        for offer in &self.offers {
            if !engines.iter().any(|known| known.engine.engine == offer.engine.engine) {
                engines.push(offer);
            }
        }
        engines
    }

    fn of(&self, engine: i64) -> impl Iterator<Item = &Proposal> {
        self.offers.iter().filter(move |offer| offer.engine.engine == engine)
    }

    /// The least workspace with which an engine runs micro-batches of `size`, over all settings of its knobs.
    fn least(&self, engine: i64, size: usize) -> Option<usize> {
        self.of(engine).filter(|offer| offer.batch == size).map(|offer| offer.workspace).min()
    }

    fn fit(&self, engine: i64, limit: usize) -> Fit {
        let fitting = |size: &&usize| self.least(engine, **size).is_some_and(|workspace| workspace <= limit);
        match self.sizes.iter().find(fitting) {
            Some(&size) if size == self.sizes[0] => Fit::Undivided,
            Some(&size) => Fit::Divided(size),
            None => Fit::Never,
        }
    }

    /// Two tables: each engine's least workspace at each size, and the engines that each limit admits.
    pub fn text(&self, limits: &[usize], width: usize) -> String {
        if !self.is_any() {
            return "cuDNN has no engine for it\n".into();
        }
        format!("{}\n{}", self.workspaces(width), self.admitted(limits, width))
    }

    fn workspaces(&self, width: usize) -> String {
        let mut columns = vec![
            ("engine".to_owned(), Side::Right),
            ("notes".to_owned(), Side::Left),
            ("settings".to_owned(), Side::Right),
        ];
        columns.extend(self.sizes.iter().map(|&size| (quantity::counted(size, "image"), Side::Right)));
        // A narrow table keeps the mini-batch, and every other size of its parts as long as it can.
        let sizes = (3..columns.len()).skip(1);
        let (others, rest): (Vec<_>, Vec<_>) = sizes.rev().partition(|column| column % 2 == 0);
        let mut table = Table::new(&columns).optional([2].into_iter().chain(others).chain(rest));
        for offer in self.engines() {
            let engine = offer.engine.engine;
            let mut settings: Vec<_> = self.of(engine).map(|offer| offer.engine.knobs).collect();
            settings.sort_unstable();
            settings.dedup();
            let mut row =
                vec![engine.to_string(), offer.engine.numerical_notes().join(" "), settings.len().to_string()];
            row.extend(self.sizes.iter().map(|&size| self.least(engine, size).map_or("–".into(), quantity::bytes)));
            table.row(row);
        }
        table.lines(width)
    }

    fn admitted(&self, limits: &[usize], width: usize) -> String {
        let mut table = Table::new(&[
            ("limit", Side::Right),
            ("engines undivided", Side::Left),
            ("in micro-batches", Side::Left),
            ("not at all", Side::Left),
        ]);
        let engines: Vec<i64> = self.engines().iter().map(|offer| offer.engine.engine).collect();
        for &limit in limits {
            let such = |fit: Fit| {
                let such: Vec<_> = engines.iter().filter(|&&engine| self.fit(engine, limit) == fit).collect();
                such.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            };
            let divided: Vec<_> = (self.sizes.iter().skip(1))
                .map(|&size| (such(Fit::Divided(size)), size))
                .filter(|(engines, _)| !engines.is_empty())
                .map(|(engines, size)| format!("{engines} by {size}"))
                .collect();
            table.row(vec![limit_text(limit), such(Fit::Undivided), divided.join(", "), such(Fit::Never)]);
        }
        table.lines(width)
    }

    /// All candidates.
    pub fn offers_json(&self) -> Value {
        let offer = |offer: &Proposal| {
            json!({
                "batch": offer.batch,
                "engine": offer.engine.engine,
                "configuration": offer.engine.to_string(),
                "notes": offer.engine.numerical_notes(),
                "workspace": offer.workspace,
            })
        };
        self.offers.iter().map(offer).collect()
    }

    /// For each limit, the engines that it admits, with the largest micro-batch size that fits.
    pub fn limits_json(&self, limits: &[usize]) -> Value {
        let admitted = |limit: usize| -> Value {
            let of = |engine: i64| match self.fit(engine, limit) {
                Fit::Undivided => Some(json!({ "engine": engine, "batch": self.sizes[0] })),
                Fit::Divided(size) => Some(json!({ "engine": engine, "batch": size })),
                Fit::Never => None,
            };
            self.engines().iter().filter_map(|offer| of(offer.engine.engine)).collect()
        };
        let limit = |&limit: &usize| {
            let bytes = (limit != usize::MAX).then_some(limit);
            json!({ "limit": bytes, "engines": admitted(limit) })
        };
        limits.iter().map(limit).collect()
    }
}
