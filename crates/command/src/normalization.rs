//! Batch normalization: reading the description of tensors.

use std::path::Path;

use gpu::Element;
use norm::pass::Pass;
use norm::shape::Planes;
use norm::subject::{Normalization, Plain};

use crate::decisions::Fields;

/// Reads the value of `--norm`: a report, or a tensor in words, of which all passes are meant, in cuDNN's spatial mode.
pub fn read(text: &str) -> Result<Vec<Normalization>, String> {
    let is_tensor = |text: &str| text.split_whitespace().any(|word| word.split('x').all(is_number));
    if !Path::new(text).exists() && is_tensor(text) {
        let planes = planes(text)?;
        return Ok(Pass::OF_CUDNN.map(|pass| Normalization::of_cudnn(pass, Plain::Spatial, planes)).to_vec());
    }
    let content = crate::text::read(Path::new(text))?;
    let mut subjects = Vec::new();
    for (number, line) in (1..).zip(content.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let read = serde_json::from_str(line).map_err(|error| format!("no JSON: {error}")).and_then(|value| {
            let fields = Fields::of(&value)?;
            let is_norm = fields.text("event")? == "norm";
            is_norm.then(|| Normalization::from_spec(fields.text("spec")?)).transpose()
        });
        subjects.extend(read.map_err(|why| format!("{text}: line {number}: {why}"))?);
    }
    if subjects.is_empty() { Err(format!("{text}: no batch normalization is in it")) } else { Ok(subjects) }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A tensor such as `128x64x56x56 half`: images, channels, and the sizes of a plane.
fn planes(text: &str) -> Result<Planes, String> {
    let words: Vec<_> = text.split_whitespace().collect();
    let (dims, name) = match words[..] {
        [dims] => (dims, "float"),
        [dims, name] => (dims, name),
        _ => return Err(format!("{text:?}: sizes and a type are expected, as in 128x64x56x56 half")),
    };
    let element = Element::ALL.into_iter().find(|element| element.name() == name);
    let element =
        element.ok_or_else(|| format!("{text:?}: the type is {name:?}; float, half and bfloat16 are accepted"))?;
    let sizes: Result<Vec<usize>, _> = dims.split('x').map(str::parse).collect();
    let sizes = sizes.map_err(|error| format!("{text:?}: {dims:?}: {error}"))?;
    let [images, channels, ref plane @ ..] = sizes[..] else {
        return Err(format!("{text:?}: images and channels are expected at least"));
    };
    let plane = plane.iter().try_fold(1_usize, |plane, &size| plane.checked_mul(size));
    let plane = plane.ok_or_else(|| format!("{text:?}: it is too large"))?;
    Ok(Planes { element, images, channels, plane })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_in_words() {
        let planes = Planes { element: Element::Half, images: 2, channels: 64, plane: 60 };
        let all = Pass::OF_CUDNN
            .map(|pass| Normalization {
                pass,
                plain: Plain::Spatial,
                planes,
                groups: None,
                has_parameters_as_elements: false,
            })
            .to_vec();
        assert_eq!(read("2x64x3x4x5 half"), Ok(all));
        assert_eq!(read("2x64").unwrap()[0].planes, Planes { element: Element::Float, plane: 1, ..planes });
        for (text, why) in [
            ("2x64 int8", "the type is \"int8\""),
            ("2x64 half half", "sizes and a type are expected"),
            ("half 2x64", "the type is \"2x64\""),
            ("64", "images and channels"),
            ("2x99999999999999999999", "number too large"),
            ("1x1x9999999999x9999999999", "too large"),
            ("/no/such.jsonl", "/no/such.jsonl"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
