//! Completions and manual pages are made from the command's own options.

use std::process::Command;

use super::Installed;
use guest::testing::skip;

#[test]
fn completions_name_every_subcommand() {
    let ucudnn = Installed::new("completions");
    for shell in ["bash", "zsh", "fish"] {
        let text = ucudnn.run(&["completions", shell]);
        for word in ["run", "demo", "tune", "plan", "report", "plot", "db", "doctor", "workspace-limit", "wide"] {
            assert!(text.contains(word), "{shell}: no {word}");
        }
    }
    assert!(ucudnn.fails(2, &["completions", "none"]).contains("bash"));
    // The completions that bash offers.
    let file = ucudnn.file("ucudnn.bash", &ucudnn.run(&["completions", "bash"]));
    for (words, offered) in [
        ("ucudnn do", "doctor\n"),
        ("ucudnn de", "demo\n"),
        ("ucudnn run --numerics", "--numerics\n"),
        ("ucudnn run --numerics a", "allowed any\n"),
        ("ucudnn run --rnn ", "auto off force\n"),
    ] {
        let script = "source \"$1\"; IFS=' ' read -ra COMP_WORDS <<<\"$2\"; [[ $2 == *' ' ]] && COMP_WORDS+=('')
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            _ucudnn ucudnn \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"; echo \"${COMPREPLY[@]}\"";
        match Command::new("bash").args(["-c", script, "bash"]).arg(&file).arg(words).output() {
            Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), offered, "{words}: {output:?}"),
            Err(_) => return skip("there is no bash"),
        }
    }
}

#[test]
fn manual_pages_are_of_all_subcommands() {
    let ucudnn = Installed::new("man");
    let page = ucudnn.run(&["man"]);
    assert!(page.contains(".TH ucudnn 1") && page.contains("ucudnn\\-doctor(1)"), "{page}");
    ucudnn.run(&["man", "share/man1"]);
    let pages: Vec<_> = std::fs::read_dir(ucudnn.path("share/man1/x").parent().unwrap()).unwrap().collect();
    for name in
        ["ucudnn", "ucudnn-run", "ucudnn-demo", "ucudnn-doctor", "ucudnn-db", "ucudnn-db-list", "ucudnn-plot-totals"]
    {
        let text = std::fs::read_to_string(ucudnn.path(&format!("share/man1/{name}.1"))).unwrap();
        assert!(text.contains(&format!(".TH {name} 1")), "{name}: {text}");
    }
    assert!(pages.len() > 12, "{}", pages.len());
    ucudnn.file("taken", "");
    assert!(ucudnn.fails(1, &["man", "taken/man1"]).starts_with("ucudnn: taken/man1: "));
}
