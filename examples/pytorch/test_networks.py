"""Tests of the networks on the CPU; they need PyTorch: `python -m unittest` in this folder."""

import argparse
import contextlib
import io
import unittest

try:
    import torch
    from torch.utils.flop_counter import FlopCounterMode
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

import finds_harness  # noqa: F401
import cells
from networks import NETWORKS, settle
from training import CONVOLUTIONS, LAYOUTS, Training, loss_of

# Parameters, and multiplications for an image or clip in 10^9, as torchvision's pages give them for the same networks;
# Inception-v3's without its auxiliary classifier. The U-Net's, of our own design, are counted by hand. The 3-D ResNet
# has the paper's 33.2 million parameters.
PUBLISHED = {
    "resnet50": (25_557_032, 4.09),
    "alexnet": (61_100_840, 0.71),
    "resnet18": (11_689_512, 1.81),
    "vgg16": (138_357_544, 15.47),
    "resnext50": (25_028_904, 4.23),
    "wide_resnet50": (68_883_240, 11.4),
    "regnet_y": (11_202_430, 1.61),
    "inception_v3": (27_161_264 - 3_326_696, 5.71),
    "densenet121": (7_978_856, 2.83),
    "convnext_t": (28_589_128, 4.46),
    "efficientnet_b0": (5_288_548, 0.39),
    "mobilenet_v3": (5_483_032, 0.22),
}


def settled(network, tiny=True, **options):
    """The options of a command line, filled in; its complaint if there is one."""
    parser = argparse.ArgumentParser()
    options = argparse.Namespace(**{"network": network, "batch": None, "size": None} | options)
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            settle(parser, options, tiny)
        except SystemExit:
            return said.getvalue()
    return options


class Networks(unittest.TestCase):
    def test_the_table_has_all_of_them(self):
        self.assertEqual(set(cells.NETWORKS), set(NETWORKS))

    def counted(self, name):
        """Parameters, and multiplications for an image in 10^9, of the network at its own size."""
        network = NETWORKS[name]
        with torch.device("meta"), FlopCounterMode(display=False) as operations:
            model = network.make()
            model(torch.empty(2, network.channels, *network.places(network.size)))
        return sum(parameter.numel() for parameter in model.parameters()), operations.get_total_flops() / 4e9

    def test_they_are_as_large_as_the_published_ones(self):
        for name, (parameters, multiplications) in PUBLISHED.items():
            with self.subTest(name):
                found = self.counted(name)
                self.assertEqual(found[0], parameters)
                self.assertAlmostEqual(found[1], multiplications, delta=0.01)
        self.assertAlmostEqual(self.counted("resnet18_3d")[0] / 1e6, 33.2, delta=0.05)
        # As the authors of MedNeXt (arXiv 2303.09975) count it.
        self.assertAlmostEqual(self.counted("nnunet_3d")[0] / 1e6, 31.2, delta=0.05)
        # As the authors' weights have them.
        self.assertEqual(self.counted("latent_unet")[0], 859_520_964)
        self.assertEqual(self.counted("vae_decoder")[0], 49_490_179 + 20)

    def test_both_layouts_compute_the_same_and_train(self):
        # These take long on a CPU; and instance normalisation returns channels first.
        for name in sorted(NETWORKS.keys() - {"alexnet", "vgg16", "nnunet_3d", "latent_unet"}):
            with self.subTest(name):
                first, second = (self.results(name, layout) for layout in LAYOUTS)
                self.assertLess((first - second).norm().item(), 1e-4 * first.norm().item())

    def results(self, name, layout):
        """The network's results with the normalisations' first averages, before it trains for a step."""
        network, options = NETWORKS[name], settled(name)
        training = Training(network, options.batch, options.size, layout, "float", "cpu")
        training.model.eval()
        with torch.no_grad():
            results = training.model(training.x)
        self.assertEqual(self.strayed(training, LAYOUTS[layout][network.has_slices]), [])
        training.model.train()
        training()
        for parameter, gradient, _ in training.gradients():
            self.assertTrue(0.0 < gradient.norm().item() < float("inf"), parameter)
        return results

    def strayed(self, training, memory_format):
        """The convolutions that read or write another memory format."""
        found = []

        def look(module, inputs, output):
            found.extend(module for x in (*inputs, output) if not x.is_contiguous(memory_format=memory_format))

        hooks = [module.register_forward_hook(look) for module in training.model.modules()
                 if isinstance(module, CONVOLUTIONS)]  # fmt: skip
        with torch.no_grad():
            training.model(training.x)
        for hook in hooks:
            hook.remove()
        return found

    def test_logits_at_several_resolutions_are_compared_with_every_second_target(self):
        target = torch.randint(3, (2, 4, 4, 4))
        fine, coarse = torch.randn(2, 3, 4, 4, 4), torch.randn(2, 3, 2, 2, 2)
        entropy = torch.nn.functional.cross_entropy
        expected = entropy(fine, target) + entropy(coarse, target[:, ::2, ::2, ::2]) / 2
        self.assertAlmostEqual(loss_of((fine, coarse), target).item(), expected.item(), places=6)
        self.assertEqual(loss_of(fine, target).item(), entropy(fine, target).item())

    def test_sizes_that_a_network_does_not_take_are_refused(self):
        for name, size, named in [
            ("inception_v3", 74, "--size 74: inception_v3 takes 75 and above"),
            ("alexnet", 32, "--size 32: alexnet takes 63 and above"),
            ("unet", 40, "--size 40: unet takes 32 and above, in multiples of 16"),
        ]:
            self.assertIn(named, settled(name, size=size))
        self.assertEqual(settled("resnet18_3d", batch=3, size=48).size, 48)
        self.assertEqual(settled("inception_v3", tiny=False).size, 299)


if __name__ == "__main__":
    unittest.main()
