"""A training step on random data, and its gradients compared with those of the same step in float64 without cuDNN."""

import math

import torch
from torch import nn
from torch.nn import functional

from harness.arguments import count

# The memory formats of images, and of clips.
LAYOUTS = {
    "nchw": (torch.contiguous_format, torch.contiguous_format),
    "channels_last": (torch.channels_last, torch.channels_last_3d),
}
CONVOLUTIONS = (nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.ConvTranspose3d)
# The type in which autocast computes. "float" is without TF32, "tf32" with it.
PRECISIONS = {"half": torch.float16, "bfloat16": torch.bfloat16, "tf32": None, "float": None}
# Half's gradients would underflow: a fixed factor, which the comparison divides out again.
LOSS_SCALE = {"half": 4096.0}
SEED = 1


def add_arguments(parser, precision):
    """What step.py and ddp.py both take beside the network; `precision` is the default."""
    parser.add_argument("--batch", type=count, help="images a step, of each GPU [the network's own]")
    parser.add_argument("--size", type=count, help="their height and width [the network's own]")
    parser.add_argument("--layout", default="nchw", choices=LAYOUTS)
    parser.add_argument("--precision", default=precision, choices=PRECISIONS, help="float is without TF32")


def initialised(network):
    """The network's model in float on the CPU, alike in every process."""
    torch.manual_seed(SEED)
    model = network.make()
    for module in model.modules():
        if isinstance(module, CONVOLUTIONS):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model.train()


def random_data(network, batch, size, device, seed):
    """Images (batch, channels, size, size), clips or volumes, and their classes or those of pixels. Each kind of device has
    its own data."""
    generator = torch.Generator(device).manual_seed(seed)
    places = network.places(size)
    x = torch.randn(batch, network.channels, *places, generator=generator, device=device)
    shape = (batch, *(network.enlarges * length for length in places)) if network.per_pixel else (batch,)
    return x, torch.randint(network.classes, shape, generator=generator, device=device)


def loss_of(found, target):
    """The cross entropy. Of logits at several resolutions, each of half the sizes of the one before, the sum of half the
    weight each time, on every second value of the target: deep supervision."""
    if isinstance(found, torch.Tensor):
        return functional.cross_entropy(found, target)
    axes = range(1, target.dim())
    at = lambda level: target[(slice(None), *(slice(None, None, 2**level) for _ in axes))]  # noqa: E731
    return sum(functional.cross_entropy(its, at(level)) / 2**level for level, its in enumerate(found))


class Training:
    """A call trains for one step: forward, loss, backward, SGD with momentum.

    The learning rate is 0, which costs as much as any other. Steps on the same data then compute the same, so gradients
    can be compared after any number of steps, and nothing diverges or dies out over hundreds of steps.
    """

    def __init__(self, network, batch, size, layout, precision, device):
        layout = LAYOUTS[layout][network.has_slices]
        self.data, self.compared = lambda seed: random_data(network, batch, size, device, seed), network.compared
        self.model = initialised(network).to(device, memory_format=layout)
        x, target = self.data(SEED)
        self.x, self.target = x.contiguous(memory_format=layout), target
        self.forward = self.model
        self.autocast = PRECISIONS[precision]
        self.device = device
        self.scale = LOSS_SCALE.get(precision, 1.0)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0, momentum=0.9)

    def compile(self):
        self.forward = torch.compile(self.model)

    def __call__(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, self.autocast, enabled=self.autocast is not None):
            loss = loss_of(self.forward(self.x), self.target)
        (loss * self.scale).backward()
        self.optimizer.step()

    def gradients(self):
        """Name, gradient, and whether it is a convolution's, for all parameters that are compared."""
        for name, module in self.model.named_modules():
            # A fully connected layer is no convolution, and its gradients are most of the bytes.
            if isinstance(module, nn.Linear):
                continue
            convolution = isinstance(module, CONVOLUTIONS)
            for own, parameter in module.named_parameters(recurse=False):
                yield f"{name}.{own}", parameter.grad, convolution

    def steps(self, step):
        """Makes a step on each mini-batch to compare, and yields after each, when `gradients` are of that one."""
        for seed in range(SEED, SEED + self.compared):
            x, target = self.data(seed)
            self.x.copy_(x), self.target.copy_(target)
            step()
            yield seed

    def errors(self, step, references):
        """||g - g64|| / ||g64|| for each parameter, for convolutions and others, over all mini-batches to compare;
        `step` makes one step. None if the ratio is not finite."""
        squares = {"convolutions": {}, "others": {}}
        for reference, _ in zip(references, self.steps(step), strict=True):
            for name, gradient, convolution in self.gradients():
                exact = reference[name].to(self.device)
                sums = squares["convolutions" if convolution else "others"].setdefault(name, [0.0, 0.0])
                sums[0] += (gradient.double() / self.scale - exact).square().sum().item()
                sums[1] += exact.square().sum().item()
        root = lambda off, all_: math.sqrt(off / all_) if math.isfinite(off) and all_ else None  # noqa: E731
        return {kind: {name: root(*sums) for name, sums in found.items()} for kind, found in squares.items()}


class Inference(Training):
    """A call runs the model forward alone, by the running statistics of its batch normalizations."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.model.eval()

    def __call__(self):
        with torch.no_grad(), torch.autocast(self.device, self.autocast, enabled=self.autocast is not None):
            return self.forward(self.x)


def reference(network, batch, size, device):
    """The gradients in float64, one mini-batch after the other. PyTorch's own convolutions compute them, without cuDNN
    and so without our library."""
    training = Training(network, batch, size, "nchw", "float", device)
    training.model.double()
    training.x = training.x.double()
    with torch.backends.cudnn.flags(enabled=False):
        return [
            {name: gradient.cpu() for name, gradient, _ in training.gradients()} for _ in training.steps(training)
        ]  # fmt: skip
