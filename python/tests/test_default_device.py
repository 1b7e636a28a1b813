"""Programs that change PyTorch's default device: what describes graphs is on the CPU all the same. On the device `meta`, a
tensor that is made without a device has no numbers, and what reads them raises."""

import unittest

import torch
import ucudnn
from test_steps import Scorer


class DefaultDevice(unittest.TestCase):
    TREES = [[[], [], [0, 1]], [[]], [[], [], [0, 1], [], [2, 3]], [[], [0]]]

    def setUp(self):
        self.model = Scorer()

    def test_batches(self):
        expected = ucudnn.Graphs(self.TREES)
        ids = [2, 0, 3] * 4  # above the number up to which Python counts
        with torch.device("meta"):
            graphs = ucudnn.Graphs(self.TREES)
            for chosen in ([1], [0, 2], ids, torch.tensor(ids, device="cpu"), range(3)):
                batches = [its.batch(chosen) for its in (graphs, expected)]
                if len(chosen) <= len(self.TREES):
                    batches.append(graphs.batch(chosen, static=True))
                for name in ("vertices", "rows", "offsets", "roots"):
                    found = [getattr(batch, name).tolist() for batch in batches]
                    self.assertEqual(found, found[:1] * len(found))

    def test_runs(self):
        def results(graphs):
            found = []
            for batch in (graphs.batch([0, 2]), graphs.batch([0, 2], static=True)):
                count = batch.most_vertices if isinstance(batch, ucudnn.StaticBatch) else len(batch.rows)
                x = torch.linspace(-1, 1, 5 * count, device="cpu").reshape(count, 5).requires_grad_()
                scores = self.model.net(batch, x=x).scores
                found += [scores.tolist(), torch.autograd.grad(scores.sum(), x)[0].tolist()]
            return found

        expected = results(ucudnn.Graphs(self.TREES))
        with torch.device("meta"):
            self.assertEqual(results(ucudnn.Graphs(self.TREES)), expected)

    def test_steps(self):
        with torch.device("meta"):
            graphs = ucudnn.Graphs(self.TREES)
            optimizer = ucudnn.Adam(self.model.net)
            for batch in graphs.loader(2, shuffle=True):
                x = torch.ones(len(batch.rows), 5, device="cpu")
                labels = torch.zeros(len(batch.vertices), dtype=torch.int64, device="cpu")
                loss = self.model.net.step(batch, x=x, labels=labels, lr=0.01, optimizer=optimizer)
                self.assertGreater(loss, 0)
        self.assertEqual(len(list(graphs.loader(2, static=True))), 2)


if __name__ == "__main__":
    unittest.main()
