use super::*;

/// The blocks of both directions are all resident.
#[test]
fn both_directions_run_at_once_where_they_fit() {
    let one = Problem::on_an_h200(Cell::Lstm, Element::Float, 512, 8);
    let two = Problem { directions: 2, ..one };
    let configuration: Configuration = "grid u8 b4 t256 l32 r64".parse().unwrap();
    assert_eq!((configuration.grid(&one), configuration.grid(&two)), ([64, 2, 1], [64, 1, 2]));
    assert_eq!(configuration.exchange_bytes(&one), 2 * configuration.exchange_bytes(&two));
    let wide: Configuration = "grid u4 b4 t256 l32 r64".parse().unwrap();
    assert_eq!((wide.grid(&two), wide.at_once(&two)), ([128, 1, 1], 1));
    let block: Configuration = "block u512 b1 t256 l32 r64".parse().unwrap();
    assert_eq!(block.grid(&two), [8, 1, 2]);
    for configuration in Configuration::space(&two).iter().filter(|it| it.regime == Regime::Grid) {
        assert!(configuration.grid(&two).into_iter().product::<u32>() <= 132, "{configuration}");
    }
}

#[test]
fn the_space_is_sound() {
    for (cell, element) in [
        (Cell::Lstm, Element::Float),
        (Cell::Gru, Element::Half),
        (Cell::Tanh, Element::Bfloat16),
        (Cell::CanonicalGru, Element::Half),
    ] {
        for hidden in [1, 2, 17, 64, 96, 100, 128, 250, 256, 512, 1000, 1024, 1536] {
            for batch in [1, 3, 20, 64] {
                let problem = Problem::on_an_h200(cell, element, hidden, batch);
                let space = Configuration::space(&problem);
                assert!(!space.is_empty(), "nothing fits {problem:?}");
                for (i, configuration) in space.iter().enumerate() {
                    assert!(configuration.fits(&problem) && !space[..i].contains(configuration), "{configuration}");
                    assert_eq!(configuration.to_string().parse(), Ok(*configuration));
                    let (owned, wanted) = match configuration.math {
                        Math::Fma => (
                            configuration.threads / configuration.lanes * configuration.group_units(&problem),
                            configuration.units,
                        ),
                        Math::TensorCores => {
                            let row_warps = configuration.threads / 32 / configuration.parts();
                            (row_warps * configuration.warp_tiles(&problem), configuration.row_tiles(&problem))
                        }
                    };
                    assert!(owned >= wanted && configuration.blocks(&problem) * configuration.units >= hidden);
                    assert!(configuration.math == Math::Fma || batch >= 8);
                    let [x, y, z] = configuration.grid(&problem);
                    assert!(configuration.regime == Regime::Block || (x * y) as usize <= 132 && z == 1);
                }
            }
        }
    }
}

/// Each layer of a wavefront has its own blocks, with the weights of two matrices.
#[test]
fn wavefronts_fit_where_their_layers_do() {
    let one = Problem::on_an_h200(Cell::Lstm, Element::Float, 256, 4);
    let layers = |layers| Problem { layers, ..one };
    let is_wavefront = |one: &&Configuration| one.layers() > 1;
    assert!(Configuration::space(&one).iter().find(is_wavefront).is_none());
    assert!(Configuration::space(&Problem { directions: 2, ..layers(3) }).iter().find(is_wavefront).is_none());
    for (deep, in_flight) in [(2, vec![2]), (3, vec![2, 3]), (8, vec![3, 4, 8]), (12, vec![4, 6])] {
        let problem = layers(deep);
        let space = Configuration::space(&problem);
        let mut found: Vec<_> = space.iter().map(Configuration::layers).collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, [vec![1], in_flight].concat());
        for one in space.iter().filter(is_wavefront) {
            let [x, y, z] = one.grid(&problem);
            assert!(x * y * z <= 132 && z as usize == one.layers() && one.matrices() == 2, "{one}");
            assert_eq!(one.to_string().parse(), Ok(*one));
            assert!(one.register_weights.is_multiple_of(8) && one.fits(&problem));
        }
    }
    let configuration: Configuration = "wavefront3 u8 b4 t256 l32 r64".parse().unwrap();
    assert_eq!((configuration.weights(&layers(3)), configuration.shared_weights(&layers(3))), (64, 0));
    assert_eq!(configuration.shared_bytes(&layers(3)), 2 * 4 * 256 * 4 + 8 * 16);
    assert_eq!(configuration.exchange_bytes(&layers(3)), 128 + 2 * 3 * 32 * 8 * 16);
    assert_eq!(configuration.collected(&layers(3)), 2 * 32 * 8 + 32);
    assert!(configuration.fits(&layers(3)) && !configuration.fits(&layers(2)));
    // The weights are twice those of one layer: two layers of 1024 units do not fit, two of 512 do.
    let wide = |hidden| Problem { hidden, layers: 2, ..one };
    assert!(Configuration::space(&wide(1024)).iter().find(is_wavefront).is_none());
    assert!(Configuration::space(&wide(512)).iter().find(is_wavefront).is_some());
}

/// Rows of two gates, columns of the third, and packets of all units from each block.
#[test]
fn a_single_exchange_is_counted() {
    let problem = Problem::on_an_h200(Cell::CanonicalGru, Element::Float, 160, 2);
    let configuration: Configuration = "grid-single u32 b2 t128 l4 r128".parse().unwrap();
    assert!(configuration.fits(&problem) && Configuration::space(&problem).contains(&configuration));
    // 11 triples a block, 55 in all; each has two lanes with 16 columns.
    assert_eq!((configuration.column_lanes(&problem), configuration.packets(&problem)), (2, 6 * 2 * 55));
    let (rows, columns) = (160 / 4 * 2, 3 * 16);
    assert_eq!((configuration.weights(&problem), configuration.shared_weights(&problem)), (rows + columns, 0));
    assert_eq!(configuration.shared_bytes(&problem), (2 * 160 + 2 * 32 + 68) * 4);
    assert_eq!(configuration.exchange_bytes(&problem), 128 + 2 * 660 * 16);
    assert!(configuration.options(&problem).contains(&"-DSINGLE_EXCHANGE".into()));
    assert!(!configuration.fits(&Problem { cell: Cell::Gru, ..problem }));
    let many: Configuration = "grid-single u10 b1 t32 l4 r0".parse().unwrap();
    assert_eq!((many.column_lanes(&problem), many.rounds(&problem)), (1, 2 * 2));
}

/// A cluster has as many blocks as the device allows, whatever the number of multiprocessors.
#[test]
fn clusters_fit_where_the_device_has_them() {
    let problem = Problem::on_an_h200(Cell::Lstm, Element::Float, 256, 20);
    let clusters = |problem: &Problem| {
        let all = Configuration::space(problem).into_iter();
        all.filter(|one| one.regime == Regime::Cluster).collect::<Vec<_>>()
    };
    let mut blocks: Vec<_> = clusters(&problem).iter().map(|one| one.blocks(&problem)).collect();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks, [4, 8, 16]);
    for one in clusters(&problem) {
        let [x, y, z] = one.grid(&problem);
        assert!(one.cluster(&problem) == [x, 1, 1] && x * y <= 132 && z == 1, "{one}");
        assert_eq!((one.exchange_bytes(&problem), one.to_string().parse()), (0, Ok(one)));
    }
    let eight = Problem { cluster_blocks: 8, ..problem };
    assert!(clusters(&eight).iter().all(|one| one.blocks(&eight) <= 8) && !clusters(&eight).is_empty());
    assert!(clusters(&Problem { cluster_blocks: 0, ..problem }).is_empty());
    assert!(clusters(&Problem { cell: Cell::CanonicalGru, ..problem }).is_empty());
    let both = Problem { directions: 2, ..problem };
    assert!(clusters(&both).iter().all(|one| one.grid(&both)[2] == 2 && one.at_once(&both) == 2));

    let configuration: Configuration = "cluster u16 b4 t128 l16 r64".parse().unwrap();
    assert!(configuration.fits(&problem) && !configuration.fits(&eight));
    assert_eq!(configuration.grid(&problem), [16, 5, 1]);
    assert_eq!(configuration.shared_bytes(&problem), 128 + 2 * 4 * 256 * 4 + (128 - 64) * 128 * 4);
    // 4 units of a block make one store; 2 units, or an odd number, take more stores.
    assert_eq!(configuration.stores(&problem), 4 * 256 / 4);
    assert_eq!("cluster u18 b1 t256 l32 r64".parse::<Configuration>().unwrap().stores(&problem), 256 / 2);
    assert_eq!("cluster u17 b1 t128 l16 r64".parse::<Configuration>().unwrap().stores(&problem), 256);
    // On tensor cores h is sent as it is multiplied; no store carries a single element of 2 bytes.
    let half = Problem { element: Element::Half, ..problem };
    let on_tensor_cores = |text: &str| text.parse::<Configuration>().unwrap();
    let configuration = on_tensor_cores("cluster-tensor u16 b8 t128 l8 r64");
    assert!(configuration.fits(&half) && configuration.stores(&half) == 8 * 256 / 8);
    assert_eq!(configuration.stores(&problem), 8 * 256 / 4);
    assert!(!on_tensor_cores("cluster-tensor u17 b8 t128 l8 r64").fits(&half));
}

#[test]
fn what_does_not_fit_on_chip_is_not_offered() {
    assert!(Configuration::space(&Problem::on_an_h200(Cell::Lstm, Element::Float, 2048, 1)).is_empty());
    assert!(!Configuration::space(&Problem::on_an_h200(Cell::Lstm, Element::Half, 2048, 1)).is_empty());
    assert!(!Configuration::space(&Problem::on_an_h200(Cell::Tanh, Element::Float, 2048, 1)).is_empty());
    // A quarter of the GPU holds a quarter of the weights.
    let small = Problem { multiprocessors: 32, ..Problem::on_an_h200(Cell::Lstm, Element::Float, 1024, 1) };
    assert!(Configuration::space(&small).is_empty());
    assert!(!Configuration::space(&Problem { hidden: 512, ..small }).is_empty());
}

#[test]
fn memory_is_counted() {
    let problem = Problem::on_an_h200(Cell::Lstm, Element::Float, 1024, 20);
    let configuration: Configuration = "grid u8 b4 t256 l32 r96".parse().unwrap();
    assert!(configuration.fits(&problem));
    // 8 chunks of 4 elements, for 4 gates of 1 unit; 32 of these weights are in shared memory.
    assert_eq!((configuration.weights(&problem), configuration.shared_weights(&problem)), (128, 32));
    let own = 8 * 16;
    assert_eq!(configuration.shared_bytes(&problem), 4 * 1024 * 4 + own + 32 * 256 * 4);
    assert_eq!(configuration.exchange_bytes(&problem), 128 + 2 * 128 * 8 * 16);
    assert_eq!(configuration.grid(&problem), [128, 1, 1]);
    let block: Configuration = "block u1024 b1 t256 l32 r0".parse().unwrap();
    assert_eq!((block.exchange_bytes(&problem), block.fits(&problem)), (0, false));
    assert_eq!(block.grid(&problem), [20, 1, 1]);
}

#[test]
fn tensor_cores_only_where_they_may_multiply() {
    let with = Problem::on_an_h200(Cell::Lstm, Element::Half, 1024, 20);
    let uses = |problem: &Problem| Configuration::space(problem).iter().any(|one| one.math == Math::TensorCores);
    assert!(uses(&with) && uses(&Problem { element: Element::Float, ..with }));
    assert!(!uses(&Problem { tensor_cores: false, ..with }) && !uses(&Problem { batch: 7, ..with }));
}

#[test]
fn memory_of_tiles_is_counted() {
    let problem = Problem::on_an_h200(Cell::Lstm, Element::Half, 1000, 20);
    let configuration: Configuration = "grid-tensor u8 b24 t256 l16 r64".parse().unwrap();
    assert!(configuration.fits(&problem));
    // 4 of 8 warps share out 32 chunks of 32 elements for one tile of 16 rows; the others have the second tile.
    let counts = [configuration.parts(), configuration.row_tiles(&problem), configuration.warp_tiles(&problem)];
    assert_eq!((counts, configuration.chunks(&problem), configuration.products(&problem)), ([4, 2, 1], 8, 48));
    assert_eq!((configuration.padded(&problem), configuration.weights(&problem)), (33 * 32, 8 * 2 * 8));
    let (h, own, sums) = (24 * 33 * 32 * 2, 32 * 12, 4 * 24 * 36 * 4);
    assert_eq!(configuration.shared_bytes(&problem), h + own + sums + 64 * 256 * 2);
    assert!(configuration.options(&problem).contains(&"-DTENSOR_CORES".into()));
}

#[test]
fn text_that_is_no_configuration() {
    let all = [
        "",
        "grid",
        "tree u8 b4 t256 l32 r128",
        "grid u8 b4 t256 l32",
        "grid u8 b4 t256 l32 r128 x1",
        "grid u8 b4 t256 l3 r128",
        "grid u8 b4 t250 l32 r128",
        "grid u0 b4 t256 l32 r128",
        "grid u-8 b4 t256 l32 r128",
        "grid b4 u8 t256 l32 r128",
        "grid u8 b4 t256 l64 r128",
        "grid u8 b4 t256 l32 r127",
        "cluster-tensor u8 b4 t256 l32 r64",
        "cluster4 u8 b4 t256 l32 r64",
        "wavefront u8 b4 t256 l32 r64",
        "wavefront1 u8 b4 t256 l32 r64",
        "wavefront9 u8 b4 t256 l32 r64",
        "wavefront2 u8 b4 t256 l32 r68",
        "grid2 u8 b4 t256 l32 r64",
        "single u8 b4 t256 l32 r64",
        "block-single u8 b4 t256 l32 r64",
        "tensor u8 b8 t256 l32 r128",
        "grid-tensor u8 b4 t256 l32 r128",
        "grid-tensor u8 b8 t256 l2 r128",
        "grid-tensor u8 b8 t64 l16 r128",
    ];
    for text in all {
        let error = text.parse::<Configuration>().unwrap_err();
        assert!(error.contains(text) && error.contains("such as"), "{error}");
    }
}
