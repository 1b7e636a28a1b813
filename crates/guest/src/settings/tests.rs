use super::*;

fn read(pairs: &[(&str, &str)]) -> (Settings, Vec<String>) {
    Settings::read(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
}

#[test]
fn values_are_read() {
    let (settings, warnings) = read(&[
        (POLICY, "off"),
        (BATCH_SIZE_POLICY, "all"),
        (WORKSPACE_LIMIT, "64MiB"),
        (TUNE_BYTES, "123"),
        (NUMERICS, "deterministic"),
        (CHECK, "1"),
        (RNN, "force"),
        (RNN_TOP_K, "2"),
        (NORM, "force"),
        (FAULT, "panic:run"),
    ]);
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(settings.policy, Policy::Off);
    assert_eq!(settings.batch_size_policy, BatchSizePolicy::All);
    assert_eq!(settings.workspace_limit, Some(64 << 20));
    assert_eq!(settings.tune_bytes, Some(123));
    assert_eq!(settings.numerics, Numerics::Deterministic);
    assert!(settings.check);
    assert_eq!((settings.rnn, settings.rnn_top_k), (Rnn::Force, 2));
    assert_eq!(settings.norm, Norm::Force);
    assert_eq!(settings.fault, Some(Fault::Panic("run".into())));
}

#[test]
fn one_switch_turns_all_off() {
    let all = [
        (RNN, "force"),
        (RNN_TRAINING, "force"),
        (NORM, "force"),
        (TORCH, "force"),
        (TOTAL_WORKSPACE_SIZE, "1GiB"),
        (LOG, "info"),
    ];
    let (on, _) = read(&[&all[..], &[(SWITCH, "on")]].concat());
    assert_eq!((on.policy, on.rnn, on.norm, on.torch), (Policy::Division, Rnn::Force, Norm::Force, Torch::Force));
    let (off, warnings) = read(&[&all[..], &[(SWITCH, "off")]].concat());
    assert_eq!((off.is_on, off.policy), (false, Policy::Off));
    assert_eq!((off.rnn, off.norm, off.torch), (Rnn::Off, Norm::Off, Torch::Off));
    assert!(warnings.is_empty() && off.log == "info", "{warnings:?}");
    assert_eq!(read(&[(SWITCH, "no")]).1, ["UCUDNN=\"no\" is not understood: it takes on or off; the default is used"]);
}

/// To env_logger, a misspelled level is a module of which it says nothing.
#[test]
fn a_log_filter_names_our_modules() {
    for good in ["", "info", "OFF", "warn,ucudnn_convolution::plans=debug", "ucudnn", "ucudnn_norm=trace/word", "=info"]
    {
        assert_eq!(read(&[(LOG, good)]).1, [""; 0], "{good}");
    }
    for wrong in ["inof", "warn,debgu", "convolution=debug", "info,torch=debug"] {
        assert_eq!(read(&[(LOG, wrong)]).1.len(), 1, "{wrong}");
    }
}

#[test]
fn a_bad_value_is_one_warning_and_the_default() {
    let (settings, warnings) =
        read(&[(WORKSPACE_LIMIT, "lots"), (TUNE_SECONDS, "1e20"), (LOG, "a=b=c"), (RNN_TOP_K, "0")]);
    assert_eq!(settings.workspace_limit, None);
    assert_eq!(settings.tune_seconds, None);
    assert_eq!(settings.log, "warn");
    assert_eq!(settings.rnn_top_k, 5);
    assert_eq!(warnings.len(), 4);
    for seconds in ["-1", "1e300", "inf", "NaN"] {
        assert_eq!(read(&[(TUNE_SECONDS, seconds)]).1.len(), 1, "{seconds}");
    }
    assert!(warnings[0].contains(WORKSPACE_LIMIT) && warnings[0].contains("lots"));
}

#[test]
fn exploring_takes_a_percentage() {
    let explore = |text| read(&[(EXPLORE, text)]).0.explore;
    assert_eq!(explore(""), Explore::Share(0.05));
    assert_eq!([explore("0"), explore("12.5 %")], [Explore::Share(0.0), Explore::Share(0.125)]);
    assert_eq!(explore("unbounded"), Explore::Unbounded);
    for wrong in ["5", "-1%", "101%", "NaN%", "all"] {
        assert_eq!(read(&[(EXPLORE, wrong)]).1.len(), 1, "{wrong}");
    }
}

/// A user may have pasted a file's contents.
#[test]
fn a_long_value_is_shortened() {
    let (_, warnings) = read(&[(POLICY, &"é".repeat(1 << 20))]);
    assert!(warnings[0].len() < 400 && warnings[0].contains("… (2097152 bytes)"), "{}", &warnings[0][..400]);
}

#[test]
fn a_path_may_have_any_bytes_but_blanks_alone() {
    use std::os::unix::ffi::OsStringExt;
    let path = OsString::from_vec(b"/tmp/\xff.sqlite".to_vec());
    let (settings, warnings) = Settings::read(|name| [DATABASE, REPORT].contains(&name).then(|| path.clone()));
    assert_eq!((settings.database, settings.report), (Database::Path((&path).into()), Some(path.into())));
    assert!(warnings.is_empty());
    for name in [DATABASE, SEED_DATABASE, REPORT] {
        let (settings, warnings) = read(&[(name, "  ")]);
        assert_eq!((settings.database, settings.seed_database, settings.report), (Database::User, None, None));
        assert_eq!(warnings.len(), 1, "{name}");
    }
}

/// A program may change its folder before the path is used.
#[test]
fn a_relative_path_is_in_the_folder_of_its_reading() {
    let here = std::env::current_dir().unwrap();
    let (settings, _) = read(&[(DATABASE, "t.sqlite"), (SEED_DATABASE, "../s.sqlite"), (REPORT, "r.jsonl")]);
    assert_eq!(settings.database, Database::Path(here.join("t.sqlite")));
    assert_eq!(settings.seed_database, Some(here.join("../s.sqlite")));
    assert_eq!(settings.report, Some(here.join("r.jsonl")));
    assert_eq!(read(&[(DATABASE, "off")]).0.database, Database::Off);
}

#[test]
fn a_total_selects_division() {
    assert_eq!(read(&[(TOTAL_WORKSPACE_SIZE, "120MiB")]).0.policy, Policy::Division);
    assert_eq!(read(&[(TOTAL_WORKSPACE_SIZE, "120MiB"), (POLICY, "wr")]).0.policy, Policy::Reuse);
    let (settings, warnings) = read(&[(POLICY, "wd")]);
    assert_eq!((settings.policy, warnings.len()), (Policy::Reuse, 1));
    assert!(warnings[0].contains(TOTAL_WORKSPACE_SIZE));
}

#[test]
fn devices_are_numbers_or_all() {
    assert_eq!(parse_devices("2, 0,2"), Some(BenchmarkDevices::Listed(vec![0, 2])));
    assert_eq!(parse_devices("all"), Some(BenchmarkDevices::All));
    assert_eq!(parse_devices("0,x").or(parse_devices("-1")).or(parse_devices("")), None);
}

#[test]
fn sizes_take_binary_units() {
    assert_eq!(parse_bytes("0"), Some(0));
    assert_eq!(parse_bytes("8k"), Some(8192));
    assert_eq!(parse_bytes("1.5 GiB"), Some(3 << 29));
    assert_eq!(parse_bytes("1.5"), None);
    assert_eq!(parse_bytes("-1"), None);
    assert_eq!(parse_bytes("99999999999GiB"), None);
    assert_eq!(parse_bytes("MiB"), None);
}

#[test]
fn every_variable_is_in_the_table_once() {
    let mut names: Vec<_> = VARIABLES.iter().map(|v| v.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), VARIABLES.len());
}
