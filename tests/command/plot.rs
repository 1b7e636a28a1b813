//! `ucudnn plot`: every picture is XML that renders, with no text on another or outside, for small and large networks.

use super::{Installed, NETWORK, Row, csv, filled};
use roxmltree::{Document, Node};
use serde_json::{Value, json};

/// The area of a drawn element: left, top, right, bottom.
type Area = [f64; 4];

/// A character's width in parts of the font's size, as wide as in the widest common sans-serif font.
fn advance(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | 'I' => 0.33,
        '(' | ')' | '[' | ']' | '/' | '-' | 'f' | 't' | 'r' => 0.41,
        'm' | 'w' | 'M' | 'W' | '×' | '+' | '=' | '…' | '%' => 1.0,
        'A'..='Z' => 0.72,
        _ => 0.64,
    }
}

fn number(node: Node, name: &str) -> f64 {
    let text = node.attribute(name).unwrap_or_else(|| panic!("{name} is missing in {node:?}"));
    text.parse().unwrap_or_else(|_| panic!("{name}={text}"))
}

/// A text's area: from the top of its capitals to below its baseline.
fn area(text: Node) -> Area {
    let (x, y, size) = (number(text, "x"), number(text, "y"), number(text, "font-size"));
    let bold = if text.attribute("font-weight").is_some() { 1.1 } else { 1.0 };
    let width: f64 = text.text().unwrap_or_default().chars().map(advance).sum::<f64>() * size * 0.96 * bold;
    let left = match text.attribute("text-anchor") {
        Some("middle") => x - width / 2.0,
        Some("end") => x - width,
        _ => x,
    };
    [left, y - 0.75 * size, left + width, y + 0.2 * size]
}

fn overlap(a: &Area, b: &Area) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

/// Checks that a picture is sound, and returns its texts.
fn sound(picture: &str) -> Vec<String> {
    let document = Document::parse(picture).unwrap_or_else(|error| panic!("{error}: {picture}"));
    let svg = document.root_element();
    assert_eq!((svg.tag_name().name(), svg.tag_name().namespace()), ("svg", Some("http://www.w3.org/2000/svg")));
    let (width, height) = (number(svg, "width"), number(svg, "height"));
    let texts: Vec<Node> =
        svg.children().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text"))).collect();
    let areas: Vec<Area> = texts.iter().map(|text| area(*text)).collect();
    let words = |index: usize| texts[index].text().unwrap_or_default();
    for (index, area) in areas.iter().enumerate() {
        let inside = area[0] >= 0.0 && area[1] >= 0.0 && area[2] <= width && area[3] <= height;
        assert!(inside, "{:?} at {area:?} is outside of {width} by {height}", words(index));
        for (other, below) in areas[..index].iter().enumerate() {
            assert!(!overlap(area, below), "{:?} lies on {:?}", words(index), words(other));
        }
    }
    for node in svg.children().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "rect"))) {
        let [x, y, w, h] =
            ["x", "y", "width", "height"].map(|name| node.attribute(name).map_or(0.0, |v| v.parse().unwrap()));
        assert!(
            x >= 0.0 && y >= 0.0 && w >= 0.0 && h > 0.0 && x + w <= width + 0.1 && y + h <= height + 0.1,
            "{node:?}"
        );
    }
    (0..texts.len()).map(|index| words(index).to_owned()).collect()
}

fn has(texts: &[String], words: &str) -> bool {
    texts.iter().any(|text| text.contains(words))
}

/// Plans for `layers` layers in three directions each, with names and divisions of many lengths: Workspace Reuse and a
/// division of a total, with positive times and some workspaces of 0.
fn plans(layers: usize) -> String {
    let row = |number: usize| {
        let (layer, direction) = (number / 3, ["F", "BD", "BF"][number % 3]);
        let name = format!(
            "layer{}.{}.{}",
            layer / 9 + 1,
            layer % 9,
            ["conv1", "downsample", "a-very-long-name-of-a-layer"][layer % 3]
        );
        let time = 0.01 * 1.13f64.powi((number * 7 % 60) as i32);
        let workspace = if number.is_multiple_of(5) { 0 } else { 1000 << (number * 3 % 17) };
        let division = match number % 4 {
            0 => "1×256[IMPLICIT_PRECOMP_GEMM tensor-op]".to_owned(),
            1 => "2×128[FFT]".to_owned(),
            2 => "3×64[WINOGRAD_NONFUSED]+1×48[IMPLICIT_GEMM]+16×1[GEMM]".to_owned(),
            _ => format!("{}×1[ALGO_1]", 256),
        };
        json!({
            "layer": name, "direction": direction, "count": 1 + number % 2, "workspace": workspace, "time_ms": time,
            "kernel": format!("{direction} float 256x{layer}x56x56 * 64x{layer}x3x3 pad 1x1 stride 1x1"),
            "spec": format!("{direction} {layer}"), "division": division,
            "undivided": "IMPLICIT_GEMM", "undivided_workspace": 0, "undivided_ms": 2.5 * time,
        })
    };
    let rows: Vec<Value> = (0..3 * layers).map(row).collect();
    let total: u64 = rows.iter().map(|row| row["workspace"].as_u64().unwrap() * row["count"].as_u64().unwrap()).sum();
    let division = json!({
        "policy": "wd", "total": total + 123_456, "proven": false, "gap": 0.0123, "solve_ms": 3.0, "layers": rows,
    });
    json!({ "plans": [{ "policy": "wr", "limit": 64 << 20, "layers": rows }, division] }).to_string()
}

#[test]
fn layers_side_by_side() {
    let ucudnn = Installed::new("plot-layers");
    for layers in [1, 5, 53] {
        ucudnn.file("plans.json", &plans(layers));
        let picture = ucudnn.run(&[
            "plot",
            "layers",
            "plans.json",
            "plans.json=once more",
            "--undivided",
            "--title",
            "A <title> & more",
        ]);
        let texts = sound(&picture);
        for words in [
            "A <title> & more",
            "WR 64 MiB: ",
            "once more WD ",
            "undivided: ",
            "forward (F)",
            "backward data (BD)",
            "ms",
        ] {
            assert!(has(&texts, words), "{words} is not in {texts:?}");
        }
        // Each source has a bar of three directions.
        let labels = texts.iter().filter(|text| *text == "WR 64 MiB").count();
        assert_eq!(labels, layers, "{texts:?}");
        assert!(picture.contains("<title>layer1.0.conv1 BD, undivided: "), "bars say what they are");
    }
}

#[test]
fn a_division_cut_to_scale() {
    let ucudnn = Installed::new("plot-division");
    for layers in [1, 5, 53] {
        ucudnn.file("plans.json", &plans(layers));
        let picture = ucudnn.path("division.svg");
        ucudnn.run(&["plot", "division", "plans.json", "-o", "division.svg"]);
        let picture = std::fs::read_to_string(picture).unwrap();
        let texts = sound(&picture);
        for words in ["Workspace Division", "within 1.23% of the optimum", "not used", "no workspace", "2×128[FFT]"] {
            assert!(has(&texts, words), "{words} is not in {texts:?}");
        }
        // The strip's segments are as wide as their bytes.
        let document = Document::parse(&picture).unwrap();
        let strip: Vec<Node> = document.descendants().filter(|node| node.attribute("height") == Some("46.0")).collect();
        let whole = number(strip[0], "width");
        let wide: f64 = strip[1..].iter().map(|segment| number(*segment, "width")).sum();
        let rows = serde_json::from_str::<Value>(&plans(layers)).unwrap()["plans"][1].clone();
        let bytes = |row: &Value| (row["workspace"].as_u64().unwrap() * row["count"].as_u64().unwrap()) as f64;
        let used: f64 = rows["layers"].as_array().unwrap().iter().map(bytes).sum();
        let expected = whole * used / rows["total"].as_f64().unwrap();
        // Segments that are wide enough have a gap of one pixel.
        assert!(wide <= expected + 1.0 && wide > expected - strip.len() as f64, "{wide} of {expected}");
    }
    ucudnn.file("wr.json", &json!({ "plans": [] }).to_string());
    let error = ucudnn.fails(1, &["plot", "division", "wr.json"]);
    assert!(error.contains("wr.json: nothing is divided in it") && error.contains("--total"), "{error}");
}

/// More layers than fit on a screen.
fn large() -> Vec<Row> {
    let name = |number: usize| -> &'static str { Box::leak(format!("block{number}.conv").into_boxed_str()) };
    (0..53).map(|n| Row(name(n), 1, [8, 4 + n as i32, 12, 12], 8, if n % 3 == 0 { 1 } else { 3 })).collect()
}

#[test]
fn totals_from_the_database() {
    let ucudnn = Installed::new("plot-totals");
    for rows in [NETWORK.to_vec(), large()] {
        ucudnn.file("net.csv", &csv(&rows));
        let _ = std::fs::remove_file(ucudnn.path("t.sqlite"));
        filled(&ucudnn.path("t.sqlite"), &rows);
        let arguments = ["plot", "totals", "net.csv", "--database", "t.sqlite", "--from", "4KiB"];
        let picture = ucudnn.run(&arguments);
        let texts = sound(&picture);
        for words in [
            "Workspace Division",
            "Workspace Reuse, one limit for all",
            "undivided",
            "workspace of all layers",
            "4 KiB",
        ] {
            assert!(has(&texts, words), "{words} is not in {texts:?}");
        }
        // Higher up is slower; further right is more workspace. Workspace Division is never above the others. (They may
        // be above one another: a divided layer takes from the total, and the others get less.)
        let document = Document::parse(&picture).unwrap();
        let curve = |name: &str| -> Vec<(f64, f64)> {
            let dots = document.descendants().filter(|node| {
                node.first_element_child().and_then(|title| title.text()).is_some_and(|title| title.starts_with(name))
            });
            dots.map(|dot| (number(dot, "cx"), number(dot, "cy"))).collect()
        };
        let (wd, wr, undivided) = (curve("Workspace Division:"), curve("Workspace Reuse,"), curve("undivided,"));
        assert!(wd.len() > 10 && wd.len() == wr.len() && wr.len() == undivided.len());
        for ((wd, wr), undivided) in wd.iter().zip(&wr).zip(&undivided) {
            assert!(wd.1 >= wr.1 - 0.1 && wd.1 >= undivided.1 - 0.1, "{wd:?} {wr:?} {undivided:?}");
        }
        assert!(wd.windows(2).all(|pair| pair[0].1 <= pair[1].1 + 0.1), "slower with more workspace: {wd:?}");
    }
}

#[test]
fn the_desirable_set_of_a_kernel() {
    let ucudnn = Installed::new("plot-desirable");
    ucudnn.file("net.csv", &csv(&NETWORK));
    filled(&ucudnn.path("t.sqlite"), &NETWORK);
    let of = ["plot", "desirable", "net.csv", "--database", "t.sqlite", "--layers", "block.3x3"];
    let error = ucudnn.fails(2, &of);
    assert!(error.contains("--layers block.3x3 --directions BD"), "{error}");
    let texts = sound(&ucudnn.run(&[&of[..], &["--directions", "F"]].concat()));
    for words in [
        "Desirable set of block.3x3 F",
        "F float 8x8x16x16 * 8x8x3x3",
        "4×2[FFT]",
        "IMPLICIT_GEMM",
        "workspace",
        "ms",
        "0",
    ] {
        assert!(has(&texts, words), "{words} is not in {texts:?}");
    }

    // From a run's report: sets of one point, of many, and of points that nearly coincide.
    let kernel = super::kernel(&NETWORK[0], "F");
    let own = json!({ "kernel": kernel.to_string(), "spec": kernel.spec(), "direction": "F" });
    let with = |fields: Value| {
        let mut line = own.clone();
        line.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        format!("{line}\n")
    };
    for count in [1, 2, 40] {
        let point = |n: i32| {
            let (time, workspace) = (1.0 + 0.5f64.powi(n), if n == 0 { 0 } else { (1 << 20) + 10 * n });
            json!({ "division": format!("{}×1[FFT]+1×{}[WINOGRAD_NONFUSED]", 8 - n % 8, n % 8), "workspace": workspace, "time_ms": time })
        };
        let set: Vec<Value> = (0..count).map(point).collect();
        let asked = json!({ "event": "asked", "division": "8×1[FFT]", "workspace": 1, "time_ms": 1.0, "limit": 1 });
        ucudnn.file("r.jsonl", &(with(json!({ "event": "desirable", "set": set })) + &with(asked)));
        let picture = ucudnn.run(&["plot", "desirable", "r.jsonl"]);
        let texts = sound(&picture);
        assert!(has(&texts, &format!("{count} configuration")), "{texts:?}");
        assert_eq!(picture.matches("<circle").count(), count as usize);
    }
}

#[test]
fn what_cannot_be_drawn_is_named() {
    let ucudnn = Installed::new("plot-errors");
    ucudnn.file("plans.json", &plans(2).replace("undivided", "divided"));
    let error = ucudnn.fails(1, &["plot", "layers", "plans.json", "--undivided"]);
    assert!(error.contains("--undivided: WR 64 MiB does not say what layer1.0.conv1 F takes"), "{error}");
    ucudnn.file("plans.json", &plans(2).replacen("\"time_ms\":0.01", "\"time_ms\":\"fast\"", 1));
    let error = ucudnn.fails(1, &["plot", "layers", "plans.json"]);
    assert!(error.contains("plans.json: plan 1: time_ms is \"fast\": it must be milliseconds"), "{error}");
    let error = ucudnn.fails(1, &["plot", "layers", "none.jsonl=name"]);
    assert!(error.contains("none.jsonl: No such file"), "{error}");
    ucudnn.file("plans.json", &plans(2));
    let error = ucudnn.fails(1, &["plot", "layers", "plans.json", "-o", "no/such/folder.svg"]);
    assert!(error.contains("no/such/folder.svg: No such file"), "{error}");
    assert!(ucudnn.fails(2, &["plot"]).contains("desirable"));
}

#[test]
fn graphs_by_level() {
    let ucudnn = Installed::new("plot-graphs");
    let tree = "[[],[],[0,1],[],[2,3]]";
    ucudnn.file("two.json", &format!("{{\"graphs\": [{tree}, [[1,-1],[]]]}}"));
    let picture = ucudnn.run(&["plot", "graphs", "two.json", "--title", "Two"]);
    let texts = sound(&picture);
    for words in ["Two", "2 graphs, 7 vertices, 3 levels", "level 0: 4", "level 1: 2", "level 2: 1", "2 slots"] {
        assert!(has(&texts, words), "{words}: {texts:?}");
    }
    let document = Document::parse(&picture).unwrap();
    let count =
        |name| document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", name))).count();
    assert_eq!((count("circle"), count("line")), (7, 5));

    // A batch of 200 trees is drawn by bars.
    ucudnn.file("many.json", &format!("{{\"graphs\": [{}]}}", vec![tree; 200].join(",")));
    let picture = ucudnn.run(&["plot", "graphs", "many.json"]);
    assert!(has(&sound(&picture), "level 0: 600"));
    assert!(!picture.contains("<circle"));

    let wrong = [
        ("{}", "\"graphs\" is no list; {\"graphs\": [[[], [], [0, 1]]]} is accepted"),
        ("{\"graphs\": []}", "it has no graphs"),
        ("{\"graphs\": [[[\"a\"]]]}", "graph 0: vertex 0: \"a\" is no number of a vertex"),
        ("{\"graphs\": [[[1],[0]]]}", "graph 0: vertex"),
        ("{\"graphs\": [[[7]]]}", "graph 0: "),
        ("graphs", "it is no JSON"),
    ];
    for (text, why) in wrong {
        ucudnn.file("wrong.json", text);
        let error = ucudnn.fails(1, &["plot", "graphs", "wrong.json"]);
        assert!(error.contains("wrong.json: ") && error.contains(why), "{text}: {error}");
    }
}
