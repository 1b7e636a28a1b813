"""repeated_conv3d.py: each of many equal gradients of a float Conv3d is as exact as the first one."""

import sys

import torch
from harness.calls import largest, worst

# Channels, groups, height and width (9 images deep), strides, and the filter.
CASES = [
    (3, 3, (1, 9), (2, 2, 2), (3, 1, 9)),
    (6, 2, (9, 9), (1, 1, 1), (3, 3, 3)),
    (32, 1, (24, 24), (2, 2, 2), (3, 3, 3)),
    (16, 1, (8, 8), (1, 1, 1), (1, 1, 1)),
]
CALLS = 200


def gradients(x, w, stride, groups):
    y = torch.nn.functional.conv3d(x, w, stride=stride, groups=groups)
    return torch.autograd.grad((y * y).sum(), (x, w))


def main():
    torch.manual_seed(0)
    wrong = 0
    for channels, groups, size, stride, filter_size in CASES:
        x = torch.randn(4, channels, 9, *size, device="cuda", requires_grad=True)
        w = torch.randn(channels, channels // groups, *filter_size, device="cuda", requires_grad=True)
        doubles = [tensor.detach().cpu().double().requires_grad_() for tensor in (x, w)]
        exact = [gradient.cuda() for gradient in gradients(*doubles, stride, groups)]
        errors = []
        for _ in range(CALLS):
            got = gradients(x, w, stride, groups)
            errors.append(worst(got, exact))
        is_wrong = not largest(errors) <= 4 * errors[0] + 1e-6
        wrong += is_wrong
        print(f"{'WRONG' if is_wrong else 'ok':6} {channels} channels in {groups} groups: {errors[0]:.1e} off at first, "
              f"{largest(errors):.1e} at most")  # fmt: skip
    return wrong > 0


sys.exit(main())
