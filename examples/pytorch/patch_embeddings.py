"""Times of patch embeddings, which are convolutions whose stride is their filter, beside bare products of the same sizes.

    python patch_embeddings.py
    LD_PRELOAD=libucudnn.so python patch_embeddings.py --calls 60

A line for each embedding and type: milliseconds of the first call; of the convolution (F), its input's gradient (BD) and
its filter's (BF), after some calls of each; of torch.matmul on matrices of the convolution's sizes; and the three errors,
||found - exact|| / ||exact|| in double precision, for those whose filter covers the image.
"""

import argparse
import time

import torch

import finds_harness  # noqa: F401
from harness import arguments, calls
from single import Single

# The input, the outputs and the filter: those of vision transformers on whole images, and on images that were cut into
# patches before, as for video.
EMBEDDINGS = {
    "14x14 of images": ((64, 3, 224, 224), 1152, (14, 14)),
    "16x16 of images": ((128, 3, 224, 224), 1024, (16, 16)),
    "2x16x16 of clips": ((4, 3, 16, 224, 224), 1024, (2, 16, 16)),
    "14x14 patches": ((16384, 3, 14, 14), 1152, (14, 14)),
    "2x14x14 patches": ((16384, 3, 2, 14, 14), 1152, (2, 14, 14)),
    "2x14x14 patches to 3584": ((4096, 3, 2, 14, 14), 3584, (2, 14, 14)),
}


class Embedding(Single):
    def __init__(self, name, kind, device, batch=None):
        shape, outputs, filter = EMBEDDINGS[name]
        super().__init__((batch or shape[0], *shape[1:]), outputs, filter, filter, 0, kind, device)

    def product(self):
        """A product of the convolution's sizes: a row for each place of y."""
        inputs = self.w[0].numel()
        rows = torch.randn(self.dy.numel() // len(self.w), inputs, device=self.x.device, dtype=self.x.dtype)
        return lambda: rows @ self.w.reshape(len(self.w), inputs).t()

    def exact(self):
        """The three results in double precision; `None` if an image has several patches."""
        if self.x.shape[2:] != self.w.shape[2:]:
            return None
        x, w, dy = (tensor.double().flatten(1) for tensor in (self.x, self.w, self.dy))
        return {"F": x @ w.t(), "BD": dy @ w, "BF": dy.t() @ x}


def measured(name, kind, options):
    """The line of an embedding."""
    wait = calls.waiting(options.device)
    begin = time.perf_counter()
    embedding = Embedding(name, kind, options.device, options.batch)
    wait()
    first = 1e3 * (time.perf_counter() - begin)
    runs, line = embedding.runs(), f"{name:24} {kind:8} first {first:8.2f}"
    for _ in range(options.calls):
        for run in runs.values():
            run()
    wait()
    for way, run in runs.items():
        line += f"  {way} {calls.timed(run, options.device, 15):8.3f}"
    line += f"  product {calls.timed(embedding.product(), options.device, 15):7.3f}"
    if exact := embedding.exact():
        errors = (calls.error(run().flatten(1), exact[way]) for way, run in runs.items())
        line += "  errors " + " ".join(f"{error:.1e}" for error in errors)
    return line


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for what, known in (("only", EMBEDDINGS), ("types", calls.TYPES)):
        names = ",".join(known)
        parser.add_argument(f"--{what}", default=names, type=arguments.some_of(known, "name"), help=f"some of {names} [all]")
    parser.add_argument("--calls", default=3, type=arguments.count, help="of each direction before it is timed [3]")
    parser.add_argument("--batch", type=arguments.count, help="images [the embedding's own]")
    arguments.add(parser, "device")
    options = parser.parse_args(words)
    for name in options.only:
        for kind in options.types:
            print(measured(name, kind, options), flush=True)


if __name__ == "__main__":
    main()
