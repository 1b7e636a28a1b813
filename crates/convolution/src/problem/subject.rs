//! What tuning needs to know of a problem of either API.

use serde_json::{Value, json};
use tuning::subject::Subject;

use super::Problem;
use super::algorithm::{Algorithm, Class};
use super::graph::{self, Convolution, EngineConfiguration, OUR_ENGINES};

impl Subject for Problem {
    type Algorithm = Algorithm;
    type Class = Class;
    const ENGINES: Option<&str> = Some(OUR_ENGINES);

    fn batch(&self) -> usize {
        Problem::batch(self)
    }

    fn with_batch(&self, images: usize) -> Self {
        Problem::with_batch(*self, images)
    }

    fn spec(&self) -> String {
        Problem::spec(self)
    }

    fn dims(&self) -> [Vec<i64>; 3] {
        Problem::dims(self).map(|dims| dims.iter().copied().map(i64::from).collect())
    }

    fn sums_in_reduced_precision(&self) -> bool {
        Problem::sums_in_reduced_precision(self)
    }

    /// Text such as `1:0:deterministic`: cuDNN's numbers of the algorithm and the math type, and whether repeated calls
    /// give the same bits; of an engine its own text.
    fn algorithm_text(&self, algorithm: &Algorithm) -> String {
        let Algorithm { direction: _, id, math_type, deterministic, engine } = algorithm;
        match engine {
            Some(engine) => engine.text(),
            None => format!("{id}:{math_type}:{}", if *deterministic { DETERMINISTIC } else { NONDETERMINISTIC }),
        }
    }

    fn algorithm_of(&self, text: &str) -> Option<Algorithm> {
        if let Ok(engine) = text.parse() {
            return Some(Algorithm::of_engine(self, engine));
        }
        let mut fields = text.split(':');
        let mut next = || fields.next();
        let (id, math_type) = (next()?.parse().ok()?, next()?.parse().ok()?);
        let deterministic = match next()? {
            DETERMINISTIC => true,
            NONDETERMINISTIC => false,
            _ => return None,
        };
        let algorithm = Algorithm { direction: self.direction, id, math_type, deterministic, engine: None };
        // The database compares texts, so each algorithm has only one.
        (self.algorithm_text(&algorithm) == text).then_some(algorithm)
    }

    fn is_of_other_kernels(&self, text: &str) -> bool {
        EngineConfiguration::is_of_other_kernels(text)
    }

    fn report(&self) -> Value {
        let spatial = usize::from(self.rank) - 2;
        json!({
            "kernel": self.to_string(), "spec": self.spec(), "direction": self.direction.to_string(),
            "pad": self.pad[..spatial], "stride": self.stride[..spatial],
            "dilation": self.dilation[..spatial], "groups": self.groups,
        })
    }
}

impl Subject for graph::Problem {
    type Algorithm = EngineConfiguration;
    type Class = graph::Class;
    const ENGINES: Option<&str> = Some(OUR_ENGINES);

    fn batch(&self) -> usize {
        graph::Problem::batch(self)
    }

    fn with_batch(&self, images: usize) -> Self {
        graph::Problem::with_batch(self, images)
    }

    fn spec(&self) -> String {
        graph::Problem::spec(self)
    }

    fn dims(&self) -> [Vec<i64>; 3] {
        let Convolution { x, w, y, .. } = *self.convolution();
        [x, w, y].map(|place| self.tensors[place].dims.clone())
    }

    fn sums_in_reduced_precision(&self) -> bool {
        graph::Problem::sums_in_reduced_precision(self)
    }

    fn algorithm_text(&self, algorithm: &EngineConfiguration) -> String {
        algorithm.text()
    }

    fn algorithm_of(&self, text: &str) -> Option<EngineConfiguration> {
        text.parse().ok()
    }

    fn is_of_other_kernels(&self, text: &str) -> bool {
        EngineConfiguration::is_of_other_kernels(text)
    }

    fn report(&self) -> Value {
        let convolution = self.convolution();
        let [x, w, y] = self.dims();
        json!({
            "kernel": self.to_string(), "spec": self.spec(), "direction": convolution.direction.to_string(),
            "x": x, "w": w, "y": y, "pad": convolution.pre_padding, "stride": convolution.stride,
            "dilation": convolution.dilation, "groups": x[1] / w[1],
        })
    }
}

const DETERMINISTIC: &str = "deterministic";
const NONDETERMINISTIC: &str = "nondeterministic";

#[cfg(test)]
mod tests {
    use super::*;

    fn problem() -> Problem {
        let spec = "BF x=float:8x4x9x9@324x81x9x1 w=float:nchw:6x4x3x3 y=float:8x6x7x7@294x49x7x1 pad=0x0 \
                    stride=1x1 dilation=1x1 mode=correlation compute=float math=default groups=1";
        Problem::from_spec(spec).unwrap()
    }

    #[test]
    fn an_algorithm_s_text_has_every_field() {
        let problem = problem();
        for (id, math_type, deterministic, text) in
            [(1, 0, true, "1:0:deterministic"), (-3, 99, false, "-3:99:nondeterministic")]
        {
            let algorithm = Algorithm { direction: problem.direction, id, math_type, deterministic, engine: None };
            assert_eq!(problem.algorithm_text(&algorithm), text);
            assert_eq!(problem.algorithm_of(text), Some(algorithm));
        }
        for wrong in
            ["", "1", "1:0", "1:0:", "1:0:maybe", "1:0:deterministic:", "01:0:deterministic", "a:0:deterministic"]
        {
            assert_eq!(problem.algorithm_of(wrong), None, "{wrong}");
        }
    }
}
