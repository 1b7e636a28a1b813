//! Bytes, times and ratios in the form that people write, and reading them.

use guest::settings::parse_bytes;

/// `0 B`, `512 B`, `1.50 KiB`, `119 MiB`: about three digits, with a binary unit.
pub fn bytes(count: usize) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    // 1023.6 would be rounded to 1024.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", digits(value), UNITS[unit])
}

/// A size that someone chose, without decimals if it is a whole number of its unit: `64 MiB`, `1.41 GiB`.
pub fn chosen_bytes(count: usize) -> String {
    let exact = exact_bytes(count);
    match exact.find(|c: char| !c.is_ascii_digit()) {
        Some(unit) if unit <= 4 => format!("{} {}", &exact[..unit], &exact[unit..]),
        _ => bytes(count),
    }
}

/// The shortest exact form of a size that an option reads: `64MiB`.
pub fn exact_bytes(count: usize) -> String {
    match count {
        0 => "0".into(),
        _ if count.is_multiple_of(1 << 30) => format!("{}GiB", count >> 30),
        _ if count.is_multiple_of(1 << 20) => format!("{}MiB", count >> 20),
        _ if count.is_multiple_of(1 << 10) => format!("{}KiB", count >> 10),
        _ => count.to_string(),
    }
}

/// Milliseconds with three digits, `12.3 ms`.
pub fn milliseconds(time: f64) -> String {
    format!("{} ms", digits(time))
}

/// A number of 0 or more with three digits, or with all digits before the point if there are more.
pub fn digits(value: f64) -> String {
    let decimals = match value {
        _ if value >= 99.95 => 0,
        _ if value >= 9.995 => 1,
        _ if value >= 0.9995 || value == 0.0 => 2,
        _ if value >= 0.09995 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// How many times as fast, `1.41×`; empty without a time after.
pub fn ratio(before: f64, after: f64) -> String {
    if after > 0.0 { format!("{:.2}×", before / after) } else { String::new() }
}

/// `1 kernel`, `2 kernels`.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A convolution problem's text for a narrow table: `8x3x16x16*8x3x5x5 p2 s2`. The usual values are left out: float,
/// padding 0, stride 1.
pub fn short_shape(text: &str) -> String {
    let mut words = text.split(' ').peekable();
    let mut short = String::new();
    while let Some(word) = words.next() {
        let key = match word {
            "pad" => "p",
            "stride" => "s",
            "dilation" => "d",
            "groups" => "g",
            "*" => {
                short += "*";
                continue;
            }
            "float" => continue,
            _ => {
                let gap = if short.is_empty() || short.ends_with('*') { "" } else { " " };
                short += &format!("{gap}{word}");
                continue;
            }
        };
        let values = words.next().unwrap_or_default();
        let (first, is_usual) = (values.split('x').next().unwrap_or_default(), if key == "p" { "0" } else { "1" });
        match values.split('x').all(|value| value == first) {
            true if first == is_usual => {}
            true => short += &format!(" {key}{first}"),
            false => short += &format!(" {key}{values}"),
        }
    }
    short
}

/// Reads the size in an option.
pub fn read_bytes(text: &str) -> Result<usize, String> {
    parse_bytes(text).ok_or_else(|| "expected a number of bytes, with KiB, MiB or GiB behind it if wanted".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        let sizes = [0, 1023, 1024, 1536, 10_240, 1_047_000, 1 << 20, 124_780_544, (1 << 30) - 1, 3 << 29];
        let expected = [
            "0 B", "1023 B", "1.00 KiB", "1.50 KiB", "10.0 KiB", "1022 KiB", "1.00 MiB", "119 MiB", "1.00 GiB",
            "1.50 GiB",
        ];
        assert_eq!(sizes.map(bytes), expected);
    }

    #[test]
    fn sizes_that_were_chosen_are_short() {
        let sizes = [0, 64 << 20, 3 << 30, 1_234_567, 1000];
        assert_eq!(sizes.map(chosen_bytes), ["0 B", "64 MiB", "3 GiB", "1.18 MiB", "1000 B"]);
    }

    #[test]
    fn exact_sizes_are_read_back() {
        for size in [0, 1, 1025, 64 << 20, 3 << 30, 5 << 10] {
            assert_eq!(read_bytes(&exact_bytes(size)), Ok(size));
        }
        assert_eq!(exact_bytes(64 << 20), "64MiB");
        assert!(read_bytes("lots").is_err());
    }

    #[test]
    fn shapes_are_shortened() {
        for (text, short) in [
            ("float 8x3x16x16 * 8x3x5x5 pad 2x2 stride 1x1", "8x3x16x16*8x3x5x5 p2"),
            ("F half 8x3x9x9 * 8x3x1x1 pad 0x0 stride 2x2 nhwc", "F half 8x3x9x9*8x3x1x1 s2 nhwc"),
            ("8x4x9x9 * 8x2x3x3 pad 1x0 stride 1x1 dilation 2x2 groups 2", "8x4x9x9*8x2x3x3 p1x0 d2 g2"),
            ("conv1", "conv1"),
        ] {
            assert_eq!(short_shape(text), short);
        }
    }

    #[test]
    fn times_have_three_digits() {
        let times = [0.0, 0.012_34, 0.999_6, 1.0, 12.345, 123.4, 1234.5];
        assert_eq!(times.map(digits), ["0.00", "0.0123", "1.00", "1.00", "12.3", "123", "1234"]);
    }
}
