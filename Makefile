# A thin front over cargo. `make` alone says what there is.

SHELL     := /bin/bash
# Make's own default is cc.
ifeq ($(origin CC),default)
CC        := gcc
endif
PYTHON    ?= python3
CARGO     ?= cargo
TARGET    := $(or $(CARGO_TARGET_DIR),target)
LOCKED    := --workspace --locked
CFLAGS    ?= -O2 -Wall -Wextra -Wpedantic
PREFIX    ?= /usr/local
VERSION   := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
DIST      := build/dist/ucudnn-$(VERSION)-$(shell uname -m)
# The oldest glibc that the wheel runs with.
GLIBC     := 2.28
ZIG_TARGET := $(shell uname -m)-unknown-linux-gnu
CONVNET   := $(wildcard examples/convnet.c examples/convnet/*.c)
GPU       := gpu-division gpu-pytorch gpu-cuda-graph gpu-rnn gpu-rnn-start gpu-exploring gpu-canonical-gru gpu-dynamic gpu-norm gpu-depthwise gpu-papers gpu-first-table gpu-rnn-training gpu-reported gpu-sample-inputs gpu-sweep gpu-truth
RNN_BENCH := $(wildcard examples/rnn_bench.c examples/rnn_bench/*.c) examples/convnet/memory.c

.DEFAULT_GOAL := help
.PHONY: help tools build demo demo-dynamic quick test test-kernels bench compare division rnn-bench gpu $(GPU) check header docs dist install uninstall wheel container test-dist test-wheel test-readme test-aarch64 test-miri test-real test-pytorch test-python clean

help: ## say what there is to make
	@echo "ucudnn: programs that use cuDNN, unchanged and faster"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

tools:
	@scripts/tools.sh

build: tools ## build libucudnn.so, its solver, the command and hostdnn, optimised
	$(CARGO) build --release $(LOCKED)
	@$(PYTHON) -B scripts/crates.py --cargo $(CARGO) --into $(TARGET)/release/licences

demo: build build/convnet ## train AlexNet's convolutions with and without us, in a table and on a page (ARGS="--help")
	$(PYTHON) -B scripts/demo.py --target $(TARGET)/release --convnet build/convnet $(ARGS)

demo-dynamic: build ## train a Tree-LSTM on the CPU, beside PyTorch if it is there, else beside double precision
	@if $(PYTHON) -c 'import torch' 2>/dev/null; then \
		export PYTHONPATH=python; \
		$(PYTHON) -B -W ignore examples/pytorch/tree_lstm.py --train && \
		$(PYTHON) -B -W ignore examples/pytorch/dynamic_nets.py --methods ucudnn,E,B --batches 1,8,32 $(ARGS); \
	else \
		echo "PyTorch is not there ($(PYTHON) cannot import torch): the net trains beside double precision."; \
		$(CARGO) run --release --locked -p ucudnn-vertex --example beside_the_oracle; \
	fi

quick: ## run the unit tests of the changed crates, within a minute (CRATE=planner for one)
	@scripts/quick.sh $(CRATE)

# The same random cases each time. Another value of these two gives others; docs/testing.md says how to repeat a failure.
test test-kernels: export UCUDNN_TEST_SEED ?= 1
test test-kernels: export PROPTEST_RNG_SEED ?= 1
test: ## run the tests of every part, none of which needs a download
	@scripts/tools.sh c++
	@echo "random cases: UCUDNN_TEST_SEED=$$UCUDNN_TEST_SEED PROPTEST_RNG_SEED=$$PROPTEST_RNG_SEED"
	$(PYTHON) -B scripts/run_tests.py

test-kernels: ## emulate GPU kernels over many cases and schedules; `make test` has a sample of each family
	@scripts/tools.sh c++
	@echo "random cases: UCUDNN_TEST_SEED=$$UCUDNN_TEST_SEED PROPTEST_RNG_SEED=$$PROPTEST_RNG_SEED"
	$(PYTHON) -B scripts/run_tests.py --long

bench: tools ## measure (criterion; ARGS="--bench NAME" for one)
	$(CARGO) bench --locked -p ucudnn-benches $(ARGS)

compare: build build/convnet build/passing_shapes ## plain and preloaded runs in turns, with their scatter; shapes that never come back
	$(PYTHON) -B scripts/compare.py --target $(TARGET)/release --convnet build/convnet $(ARGS)
	$(PYTHON) -B scripts/passing_shapes.py --target $(TARGET)/release

division: build build/convnet ## one total for all layers against a limit for each, at equal peaks (ARGS="--network resnet18 --batch 8 --total 64MiB")
	$(PYTHON) -B scripts/division.py --target $(TARGET)/release --convnet build/convnet $(ARGS)

rnn-bench: build build/rnn_bench ## RNN inference by cuDNN's algorithms and by ours, in turns (ARGS="--seconds 300 --only 'lstm/*'")
	$(PYTHON) -B examples/rnn_bench/table.py --bench build/rnn_bench --shim $(TARGET)/release/libucudnn.so --out build/rnn-bench $(ARGS)

# Measurements on an NVIDIA GPU: `python3 scripts/gpu.py SUBCOMMAND --help` says what goes into ARGS.
gpu: build build/convnet ## check and time convolutions on a GPU, plain and with us (ARGS="--seconds 500")
	$(PYTHON) -B scripts/gpu.py check --library $(TARGET)/release/libucudnn.so $(ARGS)

gpu-division: build/convnet ## Workspace Division against Workspace Reuse on a GPU, at equal peaks
gpu-pytorch: ## PyTorch's training steps on a GPU, plain and with us (ARGS="--seconds 600")
gpu-cuda-graph: ## our plans in CUDA graphs, against double precision
gpu-rnn: build/rnn_bench ## check and time recurrent networks on a GPU, by cuDNN's algorithms and by ours
gpu-rnn-start: ## an RNN's first seconds on a GPU: plain, and with an empty and a filled database
gpu-rnn-training: ## RNN training on a GPU: errors, times beside cuDNN's, bits, first steps, programs, compute-sanitizer
gpu-exploring: build/convnet ## the cost of exploring in whole programs on a GPU: first steps, memory, several RNNs
gpu-canonical-gru: ## canonical GRU on a GPU, by how its blocks exchange
gpu-reported: ## programs that went wrong once, on a GPU: plain, by default, forced
gpu-sample-inputs: ## the samples of PyTorch's own tests on a GPU: results and gradients beside plain's (ARGS="--only conv2d")
gpu-sweep: ## random convolutions of real networks' ranges on a GPU, in PyTorch, plain and with us (ARGS="--seed 2 --seconds 900")
gpu-norm: ## batch normalization on a GPU: errors, bits, times beside cuDNN's, random shapes, compute-sanitizer
gpu-depthwise: ## PyTorch's own depthwise convolutions on a GPU: errors, and times beside PyTorch's kernels
gpu-first-table: ## README's table of training steps, and its picture, of one GPU and one commit
gpu-papers: build/convnet build/rnn_bench ## the papers' own figures on a GPU (ARGS="--parts fig9,grnn --seconds 1200")
gpu-truth: ## all kernels in random cases on a GPU, against double precision, beside plain's errors (ARGS="--family norm --seconds 60 --seed 1")
gpu-dynamic: ## nets over graphs on a GPU: exactness, captured runs, times beside PyTorch, what parts are worth
$(GPU): gpu-%: build
	$(PYTHON) -B scripts/gpu.py $* --library $(TARGET)/release/libucudnn.so $(ARGS)

check: build build/convnet ## formatting, lints, documentation, layers, dependencies, the generated headers, each bench once, the finished libraries
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(LOCKED) --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc $(LOCKED) --no-deps --exclude ucudnn-command
	@# The command and the library have one name, and so one folder of pages: they are not written at once.
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc --locked --no-deps -p ucudnn-command
	$(PYTHON) -B scripts/check_layers.py
	scripts/deny.sh
	@# Of the whole workspace, or cargo would compile what it has for the tests anew, with fewer features.
	$(CARGO) test $(LOCKED) --test headers --bench '*'
	$(PYTHON) -B scripts/check_symbols.py --shim $(TARGET)/release/libucudnn.so --hostdnn $(TARGET)/release/libhostdnn.so \
		--solver $(TARGET)/release/libucudnn_solver.so
	$(PYTHON) -B scripts/ledger.py $(TARGET)/release/ucudnn

header: tools ## write include/ucudnn.h and hostdnn/include/cudnn.h anew
	UCUDNN_UPDATE_HEADERS=1 $(CARGO) test --locked -p ucudnn-headers

docs: ## build the documentation site in build/docs/, from the pages, docstrings, ucudnn.h and the built command's help
	@scripts/wheels.sh sphinx >/dev/null
	build/sphinx/bin/python -B scripts/docs.py --command $(TARGET)/release/ucudnn --into build/docs

dist: build ## pack library, command, header and GLPK in build/dist/: unpacked anywhere, it runs
	rm -rf $(DIST)
	$(PYTHON) -B scripts/dist.py --target $(TARGET)/release --into $(DIST)
	tar --sort=name --owner=0 --group=0 --numeric-owner -C build/dist -czf $(DIST).tar.gz $(notdir $(DIST))
	@echo "$(DIST).tar.gz"
	@$(PYTHON) -B scripts/ledger.py $(TARGET)/release/ucudnn

# Root often has no cargo: what was built is installed then.
install: $(if $(shell command -v $(CARGO)),build) ## put the same into PREFIX=/usr/local (below DESTDIR, for packagers)
	$(PYTHON) -B scripts/dist.py --target $(TARGET)/release --into "$(DESTDIR)$(PREFIX)" --list

uninstall: ## remove what `make install` put there, and nothing else
	$(PYTHON) -B scripts/uninstall.py "$(DESTDIR)$(PREFIX)"

wheel: tools ## pack the same as Python wheels in build/dist/, for older systems than this too
	scripts/wheels.sh zig >/dev/null
	build/zig/bin/python -B scripts/glpk.py --glibc $(GLIBC) --into build/wheel/glpk
	@# In another folder than above zig's, because zig names its headers relative to a folder above them.
	cd build/wheel && PATH="$(abspath build/zig/bin):$$PATH" GLPK_DIR=$(abspath build/wheel/glpk) \
		LIBGCC_S=$$($(CC) -print-file-name=libgcc_s.so.1) CARGO_ZIGBUILD_CACHE_DIR=$(abspath build/wheel/cache) \
		$(CARGO) zigbuild --manifest-path ../../Cargo.toml --release --locked --target $(ZIG_TARGET).$(GLIBC) \
		--target-dir target -p ucudnn -p ucudnn-solver -p ucudnn-command -p hostdnn
	mkdir -p build/wheel/hostdnn
	ln -sfn ../target/$(ZIG_TARGET)/release/libhostdnn.so build/wheel/hostdnn/libcudnn.so
	build/zig/bin/python -m ziglang cc -target $(shell uname -m)-linux-gnu.$(GLIBC) -std=c99 $(CFLAGS) -fno-sanitize=undefined \
		-Ihostdnn/include $(CONVNET) -Lbuild/wheel/hostdnn -lcudnn -ldl -lm -o build/wheel/convnet
	$(PYTHON) -B scripts/crates.py --cargo $(CARGO) --into build/wheel/target/$(ZIG_TARGET)/release/licences
	$(PYTHON) -B scripts/wheel.py --target build/wheel/target/$(ZIG_TARGET)/release --glpk build/wheel/glpk \
		--convnet build/wheel/convnet --glibc $(GLIBC) --into build/dist
	@$(PYTHON) -B scripts/ledger.py build/wheel/target/$(ZIG_TARGET)/release/ucudnn

test-dist: dist build/convnet ## the packed library and command, elsewhere, with the system's GLPK hidden; install, uninstall
	scripts/without-glpk.sh scripts/test-dist.sh $(DIST).tar.gz build/convnet build/hostdnn
	scripts/test-install.sh

test-wheel: wheel build/convnet ## the wheel in each Python that is here, with the system's GLPK hidden
	scripts/without-glpk.sh scripts/test-wheel.sh build/dist/ucudnn-$(VERSION)-py3-none-*_$(shell uname -m).whl \
		build/dist/ucudnn_glpk-$(VERSION)-py3-none-*_$(shell uname -m).whl \
		build/dist/ucudnn_demo-$(VERSION)-py3-none-*_$(shell uname -m).whl build/convnet build/hostdnn

container: ## build the image of the Dockerfile if docker runs here, else check the Dockerfile's steps (after make test-wheel)
	$(PYTHON) -B scripts/container.py

test-readme: wheel build/convnet ## the shell blocks of README and docs/, from the wheel and from a clone, on hostdnn
	$(PYTHON) -B scripts/test_readme.py --target $(TARGET) --convnet build/convnet

test-aarch64: tools ## the library's tests for AArch64, under qemu
	scripts/test-aarch64.sh

test-miri: tools ## the planner under Miri, which finds undefined behaviour (needs rustup)
	scripts/miri.sh

test-real: build build/convnet ## fetch the real cuDNN in three versions (1.6 GB of wheels) and check ours against it
	scripts/test-real.sh $(TARGET)/release

test-pytorch: build build/rnn_bench ## fetch two versions of PyTorch with CUDA (4 GB of wheels) and load them with the library preloaded
	scripts/test-pytorch.sh $(TARGET)/release

test-python: build ## the Python package's tests, by the PyTorch of test-pytorch; with the wheel too, if it is made
	scripts/test-python.sh $(wildcard build/dist/ucudnn-$(VERSION)-py3-none-*_$(shell uname -m).whl)

clean: ## remove all that was built or fetched
	$(CARGO) clean
	rm -rf build

# hostdnn under cuDNN's file names, for the linker and for the loader.
build/hostdnn/libcudnn.so: build
	mkdir -p build/hostdnn
	ln -sfn $(abspath $(TARGET))/release/libhostdnn.so build/hostdnn/libcudnn.so.9
	ln -sfn libcudnn.so.9 $@

build/passing_shapes: benches/c/passing_shapes.c examples/convnet/memory.c examples/convnet/memory.h hostdnn/include/cudnn.h | build/hostdnn/libcudnn.so
	$(CC) -std=c99 $(CFLAGS) -Ihostdnn/include $(filter %.c,$^) -Lbuild/hostdnn -lcudnn -ldl -lm -o $@

build/convnet: $(CONVNET) $(wildcard examples/convnet/*.h) hostdnn/include/cudnn.h | build/hostdnn/libcudnn.so
	$(CC) -std=c99 $(CFLAGS) -Ihostdnn/include $(CONVNET) -Lbuild/hostdnn -lcudnn -ldl -lm -o $@

build/rnn_bench: $(RNN_BENCH) $(wildcard examples/rnn_bench/*.h) examples/convnet/memory.h hostdnn/include/cudnn.h include/ucudnn.h | build/hostdnn/libcudnn.so
	$(CC) -std=c99 $(CFLAGS) -Ihostdnn/include -Iinclude $(RNN_BENCH) -Lbuild/hostdnn -lcudnn -ldl -lm -o $@
