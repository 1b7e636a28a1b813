"""A training step on random data, and its gradients against those of the same step in float64 without cuDNN."""

import math

import torch
from torch import nn
from torch.nn import functional

LAYOUTS = {"nchw": torch.contiguous_format, "channels_last": torch.channels_last}
# What autocast computes in. "float" is without TF32, "tf32" with.
PRECISIONS = {"half": torch.float16, "bfloat16": torch.bfloat16, "tf32": None, "float": None}
# Half's gradients would underflow: a fixed factor, taken out again where they are compared.
LOSS_SCALE = {"half": 4096.0}
SEED = 1


def initialised(network):
    """The network's model in float on the CPU, the same in every process."""
    torch.manual_seed(SEED)
    model = network.make()
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model.train()


def random_data(network, batch, size):
    """Images (batch, 3, size, size), and the classes of them or of their pixels."""
    generator = torch.Generator().manual_seed(SEED)
    x = torch.randn(batch, 3, size, size, generator=generator)
    shape = (batch, size, size) if network.per_pixel else (batch,)
    return x, torch.randint(network.classes, shape, generator=generator)


def set_tf32(allowed):
    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cuda.matmul.allow_tf32 = allowed


class Training:
    """Calling it trains for one step: forward, loss, backward, SGD with momentum.

    The learning rate is 0, which costs as much as any other: every step computes the same, so that the gradients after
    any of them can be compared, and nothing diverges or dies out over hundreds of steps on the same data.
    """

    def __init__(self, network, batch, size, layout, precision, device):
        layout = LAYOUTS[layout]
        self.model = initialised(network).to(device, memory_format=layout)
        x, target = random_data(network, batch, size)
        self.x, self.target = x.to(device, memory_format=layout), target.to(device)
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
            loss = functional.cross_entropy(self.forward(self.x), self.target)
        (loss * self.scale).backward()
        self.optimizer.step()

    def gradients(self):
        """Name, gradient and whether it is a convolution's, of all parameters that are compared."""
        for name, module in self.model.named_modules():
            # A fully connected layer's gradient is no convolution's, and most of the bytes.
            if isinstance(module, nn.Linear):
                continue
            convolution = isinstance(module, (nn.Conv2d, nn.ConvTranspose2d))
            for own, parameter in module.named_parameters(recurse=False):
                yield f"{name}.{own}", parameter.grad, convolution

    def errors(self, reference):
        """||g - g64|| / ||g64|| for each parameter, of convolutions and others; None where it is not finite."""
        found = {"convolutions": {}, "others": {}}
        for name, gradient, convolution in self.gradients():
            exact = reference[name].to(self.device)
            error = ((gradient.double() / self.scale - exact).norm() / exact.norm()).item()
            found["convolutions" if convolution else "others"][name] = error if math.isfinite(error) else None
        return found


def reference(network, batch, size, device):
    """The gradients in float64, by PyTorch's own convolutions: no cuDNN, hence nothing of ours, takes part."""
    training = Training(network, batch, size, "nchw", "float", device)
    training.model.double()
    training.x = training.x.double()
    with torch.backends.cudnn.flags(enabled=False):
        training()
    return {name: gradient.cpu() for name, gradient, _ in training.gradients()}
