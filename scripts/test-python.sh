#!/bin/bash
# test-python.sh [WHEEL]: the Python package's tests, with the library of this checkout; with a wheel, a training from it
# too, where no compiler is found. PyTorch is the one of pytorch.txt, or UCUDNN_TEST_PYTORCH's; the newest runs a part.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ -z ${UCUDNN_TEST_PYTORCH:-} ]]; then
    scripts/wheels.sh pytorch >/dev/null
    UCUDNN_TEST_PYTORCH=$PWD/build/pytorch/bin/python
fi
python=$UCUDNN_TEST_PYTORCH
PYTHONPATH=python "$python" -B -W ignore -m unittest discover -s python/tests -t python/tests
# The quick ones with the newest PyTorch too.
(cd python/tests && PYTHONPATH=.. ../../scripts/newest-pytorch.sh -B -W ignore -m unittest test_compiled test_functions test_gradients \
    test_default_device test_graphs test_loader test_random_nets test_ready_nets test_refusals test_static test_steps test_types)
PYTHONPATH=python "$python" -B -W ignore examples/pytorch/tree_baselines.py --check
for net in tree-lstm:ucudnn,E,B lstm:ucudnn,E,nn.LSTM tree-fc:ucudnn,E,complete dag-gru:ucudnn,E rvnn:ucudnn,E \
    bilstm:ucudnn,E,nn.LSTM bilstm-char:ucudnn,E,nn.LSTM td-rnn:ucudnn,E,padded td-lstm:ucudnn,E,padded; do
    PYTHONPATH=python "$python" -B -W ignore examples/pytorch/dynamic_nets.py --net "${net%%:*}" \
        --methods "${net#*:}" --hidden 64 --batches 1,3 --rounds 3
done
PYTHONPATH=python "$python" -B -W ignore examples/pytorch/dynamic_nets.py --net lstm --words 9 --inference \
    --methods "ucudnn,ucudnn captured,ucudnn one by one,E" --hidden 64 --batches 3 --rounds 3
PYTHONPATH=python "$python" -B -W ignore examples/pytorch/dynamic_steps.py --hidden 64 --words 100 --batches 1,3 \
    --methods "ucudnn step,ucudnn step loader,ucudnn step captured loader,ucudnn,E" --rounds 3 --in-a-row 3
# make gpu-truth itself: how it measures; vertex nets on the CPU beside eager PyTorch, sizes of RNNs
# and normalizations on hostdnn.
(cd scripts/gpu/programs && PYTHONPATH=../../../examples "$python" -B -W ignore -m unittest)
for cases in "vertex 0-120" "vertex 1-121" "products 0-30" "sizes 0-60" "norm 0-30" "group-norm 0-30"; do
    "$python" -B -W ignore scripts/gpu.py truth --host --family "${cases% *}" --case "${cases#* }" --seed 1 \
        --python "$python" --out build/gpu-truth-host
done
if [[ $# -gt 0 ]]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    python3 -m zipfile -e "$1" "$folder"
    # The entry point of torch.backends: it loads nothing unless that is asked for.
    program='
import torch
x, ones = torch.randn(4, 8, 7, 8).bfloat16(), torch.ones(8)
y = torch.nn.functional.batch_norm(x, torch.zeros(8), torch.ones(8), ones, 0 * ones, True)
print("libucudnn.so" in open("/proc/self/maps").read(), abs(y.float().mean().item()) < 1e-2)
'
    [[ $(PYTHONPATH=$folder "$python" -B -W ignore -c "$program" 2>&1) == "False True" ]]
    said=$(PYTHONPATH=$folder UCUDNN_TORCH=force UCUDNN_LOG=info,ucudnn_torch=debug UCUDNN_DATABASE=off \
        UCUDNN_CUDNN_LIBRARY=$PWD/build/hostdnn/libcudnn.so.9 "$python" -B -W ignore -c "$program" 2>&1)
    if [[ $said != *"batch normalization of 4 images"*"on our kernels"*"True True"* ]]; then
        echo "test-python: expected batch normalization on our kernels, found: $said" >&2
        exit 1
    fi
    PATH=$folder PYTHONPATH=$folder "$python" -B -W ignore examples/pytorch/tree_lstm.py --train --steps 60
fi
