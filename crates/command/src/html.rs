//! A page for a browser: one file that needs no other, and no script.

/// The looks of a page, also in the dark and on paper.
const STYLE: &str = "\
:root { color-scheme: light dark; }
body { font: 15px/1.5 'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif; margin: 2rem auto; max-width: 90rem; \
padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: .2rem .7rem; text-align: left; white-space: nowrap; border-bottom: 1px solid #8884; }
.right { text-align: right; font-variant-numeric: tabular-nums; }
thead th, tfoot td { border-bottom: 2px solid #8888; font-weight: bold; }
figure { margin: 1.5rem 0; overflow-x: auto; }
p { margin: .4rem 0; }
";

/// A page with this title and content.
pub fn page(title: &str, content: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{content}</body>\n</html>\n",
        title = escaped(title)
    )
}

/// The lines of a text that are not empty, each a paragraph.
pub fn paragraphs(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| format!("<p>{}</p>\n", escaped(line))).collect()
}

/// A text with the escapes of HTML and XML.
pub fn escaped(words: &str) -> String {
    let mut escaped = String::with_capacity(words.len());
    for sign in words.chars() {
        match sign {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            // XML does not allow control characters, whatever their escape.
            sign if sign.is_control() => escaped.push(' '),
            sign => escaped.push(sign),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_a_text() {
        assert_eq!(escaped("<a b=\"c\"> & \u{1b}é"), "&lt;a b=&quot;c&quot;&gt; &amp;  é");
        let page = page("a < b", "<p>c</p>\n");
        assert!(page.contains("<title>a &lt; b</title>") && page.contains("<h1>a &lt; b</h1>\n<p>c</p>\n</body>"));
    }
}
