use super::*;
use crate::engines::Priority;
use crate::problem;
use crate::problem::graph::Class;
use gpu::Device;
use guest::settings;

/// A problem with these dimensions, and the convolution's parameters for each axis.
fn problem(
    direction: &str,
    [x, w, y]: [&[usize]; 3],
    [padding, stride, dilation]: [usize; 3],
    groups: usize,
) -> Problem {
    let list = |values: &[usize]| values.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
    let tensor = |dims: &[usize]| {
        let strides: Vec<usize> = (0..dims.len()).map(|axis| dims[axis + 1..].iter().product()).collect();
        format!("half:{}@{}", list(dims), list(&strides))
    };
    let alike = |value: usize| list(&vec![value; x.len() - 2]);
    let spec = format!(
        "{direction} x={} w=half:nchw:{} y={} pad={} stride={} dilation={} mode=correlation compute=float math=tensor-op \
         groups={groups}",
        tensor(x),
        list(w),
        tensor(y),
        alike(padding),
        alike(stride),
        alike(dilation),
    );
    Problem::of_convolution(&problem::Problem::from_spec(&spec).unwrap())
}

/// The numbers of the engines that are offered for it on hostdnn's device.
fn offered(of: &Problem) -> Vec<i64> {
    let of = read(of, false).unwrap().simplified();
    let priorities = [Priority::OnWarpgroups, Priority::Fast, Priority::Slow];
    let offers = |row: &&Row| {
        priorities.into_iter().any(|priority| !row.choices(Device::Host, &of, priority, usize::MAX).is_empty())
    };
    ENGINES.iter().filter(offers).map(|row| row.number).collect()
}

/// Where the program keeps to NaN by IEEE 754, classes admit products alone.
#[test]
fn products_spread_nan_as_ieee_754_says() {
    let strict = [CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP].into_iter().collect();
    let chosen = EngineConfiguration::new(0, vec![], strict, [].into_iter().collect());
    let class = Class::of(&chosen, CUDNN_DATA_FLOAT, settings::Numerics::Match, true);
    for row in ENGINES {
        let is_admitted = row.is_product && row.numerics != Numerics::OnTensorCores;
        assert_eq!(class.admits(&configuration(row, vec![])), is_admitted, "{}", row.number);
    }
}

#[test]
fn volumes_that_keep_their_size_are_offered_to_warpgroups() {
    let sizes: [&[usize]; 3] = [&[2, 32, 5, 9, 10], &[40, 32, 3, 3, 3], &[2, 40, 5, 9, 10]];
    for (direction, engines) in [("F", &[23, 6, 19, 2][..]), ("BD", &[6, 19, 2]), ("BF", &[11, 0, 20])] {
        assert_eq!(offered(&problem(direction, sizes, [1, 1, 1], 1)), engines, "{direction}");
    }
    let halved: [&[usize]; 3] = [&[2, 32, 5, 9, 10], &[40, 32, 3, 3, 3], &[2, 40, 3, 5, 5]];
    for (direction, engines) in [("F", &[19, 2][..]), ("BD", &[19, 2]), ("BF", &[0, 20])] {
        assert_eq!(offered(&problem(direction, halved, [1, 2, 1], 1)), engines, "{direction}");
    }
}

/// Groups of several channels and filters whose places are apart have the engines that take any convolution.
#[test]
fn groups_and_dilation_have_engines() {
    let grouped: [&[usize]; 3] = [&[2, 32, 9, 9], &[32, 4, 3, 3], &[2, 32, 9, 9]];
    let halved: [&[usize]; 3] = [&[2, 32, 9, 9], &[32, 4, 3, 3], &[2, 32, 5, 5]];
    let dilated: [&[usize]; 3] = [&[2, 64, 9, 9], &[64, 64, 3, 3], &[2, 64, 9, 9]];
    for (sizes, axes, groups) in [(grouped, [1, 1, 1], 8), (halved, [1, 2, 1], 8), (dilated, [2, 1, 2], 1)] {
        for (direction, engines) in [("F", &[27, 19, 2][..]), ("BD", &[27, 19, 2]), ("BF", &[0, 20])] {
            let engines = engines.iter().copied().filter(|engine| *engine != 27 || groups > 1);
            let engines: Vec<_> = engines.collect();
            assert_eq!(offered(&problem(direction, sizes, axes, groups)), engines, "{direction} {sizes:?}");
        }
    }
}

/// A filter of one place tells no slice from another: engines for images take volumes then.
#[test]
fn volumes_by_filters_of_one_place_are_images() {
    let sizes: [&[usize]; 3] = [&[2, 64, 5, 9, 10], &[40, 64, 1, 1, 1], &[2, 40, 5, 9, 10]];
    let rows: [&[usize]; 3] = [&[2, 64, 45, 10], &[40, 64, 1, 1], &[2, 40, 45, 10]];
    for direction in ["F", "BD", "BF"] {
        let [of_volumes, of_images] = [sizes, rows].map(|sizes| offered(&problem(direction, sizes, [0, 1, 1], 1)));
        assert!(!of_volumes.is_empty() && of_volumes == of_images, "{direction}: {of_volumes:?}, {of_images:?}");
    }
}

/// Filters as large as their strides, in images and volumes, also where the last pixels are in no patch.
#[test]
fn patches_are_offered_to_products() {
    let volumes: [&[usize]; 3] = [&[2, 32, 4, 6, 9], &[64, 32, 2, 2, 2], &[2, 64, 2, 3, 4]];
    let images: [&[usize]; 3] = [&[2, 3, 33, 48], &[64, 3, 16, 16], &[2, 64, 2, 3]];
    let others = [(volumes, 2, [&[19, 2][..], &[19, 2], &[0, 20]]), (images, 16, [&[]; 3])];
    for (sizes, stride, others) in others {
        for (direction, others) in ["F", "BD", "BF"].into_iter().zip(others) {
            let expected = [&[12, 13], others].concat();
            assert_eq!(offered(&problem(direction, sizes, [0, stride, 1], 1)), expected, "{direction} {sizes:?}");
        }
    }
}

#[test]
fn filters_of_each_channel_have_engines() {
    let images: [&[usize]; 3] = [&[2, 24, 20, 20], &[24, 1, 7, 7], &[2, 24, 20, 20]];
    let strided: [&[usize]; 3] = [&[2, 24, 20, 20], &[24, 1, 7, 7], &[2, 24, 10, 10]];
    let volumes: [&[usize]; 3] = [&[2, 24, 9, 8, 8], &[24, 1, 7, 7, 7], &[2, 24, 9, 8, 8]];
    let of_images = [("F", [21, 15]), ("BD", [21, 15]), ("BF", [22, 17])];
    for (direction, engines) in of_images {
        assert_eq!(offered(&problem(direction, images, [3, 1, 1], 24)), engines, "{direction}");
        assert_eq!(offered(&problem(direction, volumes, [3, 1, 1], 24)), engines[1..], "{direction} of volumes");
        assert_eq!(offered(&problem(direction, strided, [3, 2, 1], 24)), engines, "{direction} with strides");
    }
    // A channel with several filters.
    let gray: [&[usize]; 3] = [&[2, 1, 9, 8, 8], &[32, 1, 3, 3, 3], &[2, 32, 9, 8, 8]];
    for (direction, engines) in [("F", &[15][..]), ("BD", &[15]), ("BF", &[17, 0, 20])] {
        assert_eq!(offered(&problem(direction, gray, [1, 1, 1], 1)), engines, "{direction}");
    }
}

#[test]
fn what_no_engine_takes_is_named() {
    let refused = |of: &Problem| {
        let of = read(of, false)?;
        let row = ENGINES.iter().find(|row| row.number == 6).unwrap();
        (row.plan)(Device::Host, &of, &[]).map(|_| ()).map_err(|why| Refusal(Box::leak(why.into_boxed_str())))
    };
    let says = |of: &Problem, what: &str| {
        let Refusal(why) = refused(of).unwrap_err();
        assert!(why.contains(what), "{why}");
    };
    let sizes: [&[usize]; 3] = [&[2, 64, 9, 9], &[64, 32, 3, 3], &[2, 64, 9, 9]];
    says(&problem("F", sizes, [1, 1, 1], 2), "groups");
    let sizes: [&[usize]; 3] = [&[2, 64, 9, 9], &[64, 64, 3, 3], &[2, 64, 9, 9]];
    says(&problem("F", sizes, [2, 1, 2], 1), "dilation");
    let sizes: [&[usize]; 3] = [&[2, 64, 9, 9], &[64, 64, 3, 1], &[2, 64, 9, 11]];
    says(&problem("F", sizes, [1, 1, 1], 1), "not square");
    let sizes: [&[usize]; 3] = [&[2, 64, 9, 9], &[64, 64, 3, 3], &[2, 64, 5, 5]];
    says(&problem("BD", sizes, [1, 2, 1], 1), "strides of an input gradient");
    let sizes: [&[usize]; 3] = [&[2, 64, 9, 9], &[64, 64, 3, 3], &[2, 64, 8, 9]];
    says(&problem("F", sizes, [1, 1, 1], 1), "do not fit together");
}
