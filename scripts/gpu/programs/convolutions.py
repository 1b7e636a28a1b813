"""convolutions.py cuda|cpu: PyTorch's convolutions and a captured graph against double precision."""

import sys

import torch
from harness.calls import captured, error
from torch.nn.functional import conv2d

BOUNDS = {torch.float32: 1e-5, torch.float16: 4e-3}


def check(device, kind, layout):
    """Forward, and both gradients."""
    x = torch.randn(16, 32, 28, 28).to(kind)
    w = (torch.randn(64, 32, 3, 3) / 17).to(kind)
    dy = torch.randn(16, 64, 28, 28).to(kind)
    exact = [t.double().requires_grad_() for t in (x, w)]
    y = conv2d(*exact, padding=1)
    (y * dy.double()).sum().backward()
    ours = [t.to(device).to(memory_format=layout).requires_grad_() for t in (x, w)]
    out = conv2d(*ours, padding=1)
    (out * dy.to(device)).sum().backward()
    errors = [error(out, y)] + [error(a.grad, b.grad) for a, b in zip(ours, exact)]
    verdict = "right" if max(errors) < BOUNDS[kind] else "WRONG"
    name = f"{kind} {layout} benchmark={torch.backends.cudnn.benchmark}"
    print("convolution", verdict, name, " ".join(f"{e:.1e}" for e in errors))


def check_capture():
    """A convolution captured into a CUDA graph and replayed on other data."""
    torch.backends.cudnn.benchmark = False
    x, w = torch.randn(16, 32, 28, 28, device="cuda"), torch.randn(64, 32, 3, 3, device="cuda") / 17
    with torch.no_grad():
        graph, y = captured(lambda: conv2d(x, w, padding=1))
    x.copy_(torch.randn(16, 32, 28, 28))
    graph.replay()
    torch.cuda.synchronize()
    off = error(y, conv2d(x.double().cpu(), w.double().cpu(), padding=1))
    print("capture", "right" if off < BOUNDS[torch.float32] else "WRONG", f"{off:.1e}")


def main():
    device = sys.argv[1]
    print("version", torch.__version__, torch.backends.cudnn.version())
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(1)
    for benchmark in (False, True):
        torch.backends.cudnn.benchmark = benchmark
        for kind in BOUNDS:
            for layout in (torch.contiguous_format, torch.channels_last):
                check(device, kind, layout)
    if device == "cuda":
        check_capture()
    with open("/proc/self/maps") as maps:
        print("mapped", "libucudnn.so" in maps.read())


if __name__ == "__main__":
    main()
