"""Results beside those of double precision, with a line for each, for programs that call an operator in many ways."""

import torch
from harness import calls

# The most that a result may be off, as a part of the exact one's norm.
MOST = {torch.float: 1e-6, torch.half: 2e-3, torch.bfloat16: 1e-2}


class Looks:
    """Draws tensors on a device, and notes what is wrong."""

    def __init__(self, device):
        self.device, self.wrong = device, []
        self.generator = torch.Generator(device).manual_seed(1)

    def made(self, *shape, kind=torch.float):
        return torch.randn(shape, device=self.device, generator=self.generator).to(kind).requires_grad_()

    def look(self, what, found, exact, kind=None, rounded_to=None):
        """Compares tensors with those of double precision. They may be of a longer type than what was rounded on the way."""
        off = calls.worst(found, exact)
        kinds, kind = {tensor.dtype for tensor in found}, kind or found[0].dtype
        is_right = off <= MOST[rounded_to or kind] and kinds == {kind}
        self.note(is_right, what, f"off by {off:.1e}, in {', '.join(map(str, kinds))}")

    def note(self, is_right, what, seen):
        # In one piece: several processes may write to one file.
        print(f"{'ok' if is_right else 'WRONG'} {what}: {seen}\n", end="", flush=True)
        if not is_right:
            self.wrong.append(what)

    def replays(self, step, exact, leaves, dy, captured=lambda: None):
        """Looks at three replays of a CUDA graph of step(*leaves, dy), each with other numbers, beside exact(*leaves, dy). Calls
        `captured` before the first one."""
        # New leaves: to those of results that are still there, gradients come on the stream of their first call.
        leaves, dy = [leaf.detach().clone().requires_grad_() for leaf in leaves], dy.detach().clone()
        graph, results = calls.captured(lambda: step(*leaves, dy))
        captured()
        for _ in range(3):
            with torch.no_grad():
                leaves[0].normal_(), dy.normal_()
            graph.replay()
            self.look("a CUDA graph's replay", results, exact(*leaves, dy))

    def end(self):
        raise SystemExit(f"wrong: {', '.join(self.wrong)}" if self.wrong else 0)


def in_double(leaf):
    return leaf if leaf is None else leaf.detach().double().requires_grad_(leaf.requires_grad)
