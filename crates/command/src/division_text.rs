//! Parses a configuration's text, such as `3×32[FFT]+1×4[GEMM]`.

/// Micro-batches of one size and algorithm.
#[derive(Debug, PartialEq, Eq)]
pub struct Part<'a> {
    pub count: usize,
    pub size: usize,
    pub algorithm: &'a str,
}

/// The parts of a text; skips pieces that are not written as parts.
pub fn parts(division: &str) -> Vec<Part<'_>> {
    let part = |text| -> Option<Part> {
        let (count, rest): (&str, &str) = str::split_once(text, '×')?;
        let (size, algorithm) = rest.strip_suffix(']')?.split_once('[')?;
        Some(Part { count: count.parse().ok()?, size: size.parse().ok()?, algorithm })
    };
    division.split('+').filter_map(part).collect()
}

/// Only the sizes: `3×32+1×4`.
pub fn sizes(division: &str) -> String {
    let parts = parts(division);
    let sizes: Vec<_> = parts.iter().map(|part| format!("{}×{}", part.count, part.size)).collect();
    if sizes.is_empty() { division.to_owned() } else { sizes.join("+") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_division_is_taken_apart() {
        let found = parts("3×32[FFT]+1×4[GEMM tensor-op]");
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], Part { count: 1, size: 4, algorithm: "GEMM tensor-op" });
        let engine = "ENGINE_11[k2=4,k14=-1]";
        let of_graph = format!("3×32[{engine}]+1×4[ENGINE_0[]]");
        assert_eq!(parts(&of_graph)[0], Part { count: 3, size: 32, algorithm: engine });
        assert_eq!(parts(&of_graph)[1].algorithm, "ENGINE_0[]");
        assert_eq!(sizes("3×32[FFT]+1×4[GEMM]"), "3×32+1×4");
        assert_eq!(parts("nothing"), []);
        assert_eq!(sizes("nothing"), "nothing");
    }
}
