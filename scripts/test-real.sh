#!/bin/bash
# test-real.sh BUILD: the real cuDNN through libucudnn.so. Needs no GPU: the library loads, descriptors work, and
# cudnnCreate refuses with its own error, which must come through unchanged. All of it runs over the version that hostdnn
# stands in for; tests that depend on cuDNN's version, and take seconds, run over the oldest and the newest too.
set -euo pipefail
cd "$(dirname "$0")/.."
shim=$(realpath -e "$1/libucudnn.so")
site=$(scripts/wheels.sh real)
cudnn=$site/nvidia/cudnn cuda=$site/nvidia/cu13
cc=("${CC:-gcc}" -std=c99 -O1 -Wall -Wextra)
vendor=(-isystem "$cudnn/include" -isystem "$cuda/include")

"${PYTHON:-python3}" -B scripts/check_symbols.py --shim "$shim" --real "$cudnn/lib/libcudnn.so.9"

# These tests skip themselves if they know no real library.
export LD_LIBRARY_PATH=$cudnn/lib:$cuda/lib
export UCUDNN_TEST_REAL_CUDNN=$cudnn/lib
"${PYTHON:-python3}" -B scripts/run_tests.py \
    crates/recurrent:lib:{tests::resources::,compiles_for_all_gpus} crates/convolution:lib:{compiles_for_all_gpus,compiles_for_hopper} \
    crates/dynamic:kernels:compiled:: crates/norm:lib:tests::resources:: crates/gpu:lib:{jit::,cublaslt::} \
    .:tests:{real_library::,real_graph::,real_graph_layer::,command::device::,dlopen::,symbols::} \
    hostdnn:tests:{real_cudnn::,real_graph::,real_rnn::}
unset UCUDNN_TEST_REAL_CUDNN LD_LIBRARY_PATH

# other LIST [FOLDER...]: symbols, statuses, sizes, transparent calls and plans over the cuDNN of another list. The folders
# have more libraries.
other() {
    local other path
    other=$(scripts/wheels.sh "$1")/nvidia/cudnn
    shift
    path=$(IFS=: && echo "$other/lib:$cuda/lib:$*")
    "${PYTHON:-python3}" -B scripts/check_symbols.py --shim "$shim" --real "$other/lib/libcudnn.so.9"
    LD_LIBRARY_PATH=$path UCUDNN_TEST_REAL_CUDNN=$other/lib "${PYTHON:-python3}" -B scripts/run_tests.py \
        .:tests:{real_library::,real_graph::normalization::,real_graph::transparent::,real_graph_layer::} \
        .:tests:{command::device::an_h200_on_the_real_library,symbols::the_list_is_the_real_library_s}
}
other real-oldest
driver=
if ! ldconfig -p | grep -c 'libcuda\.so\.1 ' >/dev/null; then
    driver=build/no-driver
    mkdir -p $driver
    "${cc[@]}" -shared -fPIC -Wl,-soname,libcuda.so.1 scripts/no_driver.c -o $driver/libcuda.so.1
fi
other real-newest ${driver:+"$PWD/$driver"}
newest=$(scripts/wheels.sh real-newest)/nvidia/cudnn/include
UCUDNN_TEST_CUDNN_INCLUDE=$newest:$cuda/include "${PYTHON:-python3}" -B scripts/run_tests.py \
    hostdnn:tests:programs::the_same_programs_compile_with_the_vendors_header
export LD_LIBRARY_PATH=$cudnn/lib:$cuda/lib

echo "the same program, built with the vendor's header and with ours, plain and preloaded:"
for header in vendor ours; do
    include=("${vendor[@]}")
    [[ $header = ours ]] && include=(-Ihostdnn/include)
    "${cc[@]}" "${include[@]}" scripts/descriptors.c -o build/descriptors-$header "$cudnn/lib/libcudnn.so.9"
    build/descriptors-$header >build/descriptors-$header.plain
    LD_PRELOAD=$shim build/descriptors-$header >build/descriptors-$header.preloaded
    diff build/descriptors-$header.plain build/descriptors-$header.preloaded
done
diff build/descriptors-vendor.plain build/descriptors-ours.plain
grep -e version -e 'cudnnCreate(' build/descriptors-ours.preloaded
# The comparisons above would not notice a library that was never loaded.
LD_DEBUG=bindings LD_PRELOAD=$shim build/descriptors-ours 2>&1 >/dev/null |
    grep -c 'descriptors-ours .* to .*libucudnn.so .*cudnnCreate' >/dev/null ||
    { echo "test-real: cudnnCreate is not bound to $shim" >&2; exit 1; }
echo "  ok: all the same, and bound to libucudnn.so"

others() { grep -v -e '^version' -e '^cudnnCreate('; }
LD_LIBRARY_PATH=build/hostdnn build/descriptors-ours | others | diff <(others <build/descriptors-ours.plain) -
echo "  ok: hostdnn's descriptors answer as the real ones do"

"${cc[@]}" -Wpedantic "${vendor[@]}" -fsyntax-only examples/convnet.c examples/convnet/*.c
"${cc[@]}" -Wpedantic "${vendor[@]}" -Iinclude -fsyntax-only examples/rnn_bench.c examples/rnn_bench/*.c
echo "  ok: convnet and rnn_bench compile with the vendor's header"
