"""A Tree-LSTM as a vertex net, beside the same in plain PyTorch.

    python tree_lstm.py --device cpu --threads 2          forward and backward, in turns with tree_baselines.py's
    python tree_lstm.py --train                           learns expressions' values, which no linear model can

The net is the N-ary Tree-LSTM (Tai et al., ACL 2015, equations 9 to 14) for two children, with words at the leaves.
Before anything is timed, each method's results are held against double precision.
"""

import argparse
import itertools
import json
import random
import shutil
import statistics
import sys
import time

import torch
import torch.nn.functional as F
import ucudnn

import tree_baselines
from tree_baselines import BATCHES, prepare, prepare_padded, recursion, rivals, step
from trees import SEED, WORDS, bits, linear_accuracy, random_trees, random_words

OURS = "ucudnn"


class TreeLSTM(tree_baselines.TreeLSTM):
    """The same parameters. x [rows of the batch, width]; returns h [vertices of the batch, hidden]."""

    def __init__(self, width, hidden):
        super().__init__(width, hidden)

        def finish(v, c, o):
            h = o.sigmoid() * c.tanh()
            v.scatter(h=h, c=c)
            v.push(h=h)

        def leaf(v):
            i, o, u = v.linear("W", v.pull("x", width)).chunk(3)
            finish(v, i.sigmoid() * u.tanh(), o)

        def node(v):
            left, right = v.gather(0), v.gather(1)
            i, o, u, f, g = v.linear("U", v.concat([left.h, right.h])).chunk(5)
            finish(v, i.sigmoid() * u.tanh() + f.sigmoid() * left.c + g.sigmoid() * right.c, o)

        states, functions = {"h": hidden, "c": hidden}, {0: leaf, 2: node}
        self.net = ucudnn.VertexNet(states=states, functions=functions, parameters=self)

    def forward(self, batch, x):
        return self.net(batch, x=x).h


def say(text):
    """Progress, apart from results."""
    print(text, file=sys.stderr, flush=True)


# Timing


class Method:
    """One way to compute the Tree-LSTM, with batches of its own."""

    def __init__(self, name, rival, is_padded=False):
        self.name, self.rival, self.is_padded = name, rival, is_padded
        self.times, self.preparing = [], []


def methods(names, device):
    """The methods of these names."""
    ours = Method(OURS, lambda model, batch, x: model(batch, x))
    others = rivals([name for name in names if name != OURS], device != "cpu")
    return [ours] * (OURS in names) + [Method(name, *its) for name, its in others.items()]


class Prepared:
    """Some random batches of `count` trees, made by each method in its own way."""

    def __init__(self, trees, graphs, count, batches, everyone, device):
        source, heights = random.Random(count), trees.heights()
        self.ids = [source.sample(range(len(trees.counts)), count) for _ in range(batches)]
        self.of = {}
        for method in everyone:
            if method.is_padded:
                self.of[method.name] = prepare_padded(trees, heights, self.ids, device)
                continue
            self.of[method.name] = []
            for ids in self.ids:
                begin = time.perf_counter()
                made = graphs.batch(ids) if method.name == OURS else prepare(trees, heights, ids, device)
                method.preparing.append(time.perf_counter() - begin)
                self.of[method.name].append(made)


def random_numbers(graphs, ids, width, hidden, device, dtype=torch.float32):
    """Words and the gradient of h, of a batch."""
    batch = graphs.batch(ids)
    x = torch.randn(len(batch.rows), width, device=device, dtype=dtype, requires_grad=True)
    return x, torch.randn(len(batch.vertices), hidden, device=device, dtype=dtype)


def errors(method, trees, graphs, model, device):
    """The largest error of a tensor against double precision, as a part of the tensor's norm, over some batches."""
    exact = tree_baselines.TreeLSTM(model.W.in_features, model.hidden).double()
    exact.load_state_dict(model.state_dict())
    prepared, worst = Prepared(trees, graphs, 3, 3, [method], device), 0.0
    for ids, batch in zip(prepared.ids, prepared.of[method.name]):
        torch.manual_seed(ids[0])
        x, dh = random_numbers(graphs, ids, model.W.in_features, model.hidden, device)
        found = step(method.rival, model, batch, x, dh)
        found = [tensor.detach().cpu().double() for tensor in found]
        expected = step(lambda model, _, x: recursion(model, trees, ids, x), exact, None,
                        x.detach().cpu().double().requires_grad_(), dh.cpu().double())  # fmt: skip
        for one, other in zip(found, expected, strict=True):
            error = ((one - other).norm() / other.norm()).item()
            worst = worst if error <= worst else error  # a NaN stays
    return worst


def check(everyone, trees, graphs, model, device):
    """Whether all methods are exact: ours no further from double precision than twice as far as eager PyTorch."""
    eager = errors(Method("E", *rivals(["E"], device != "cpu")["E"]), trees, graphs, model, device)
    is_right = eager <= 1e-5
    print(f"errors, relative to double precision: eager {eager:.1e}", end="")
    for method in everyone:
        if method.name == "E":
            continue
        error = errors(method, trees, graphs, model, device)
        is_exact = error <= 2 * eager
        is_right &= is_exact
        print(f", {method.name} {error:.1e}{'' if is_exact else ' WRONG'}", end="")
    print(flush=True)
    return is_right


def measure(everyone, prepared, graphs, model, options):
    """Times forward and backward of all methods in turns: each takes the same batch, and another begins each round."""
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    warm_ups = 2
    for method in everyone:
        method.times = []
    for number, ids in enumerate(prepared.ids):
        x, dh = random_numbers(graphs, ids, options.hidden, options.hidden, options.device)
        first = number % len(everyone)
        for method in everyone[first:] + everyone[:first]:
            batch = prepared.of[method.name][number]
            if method.is_padded:
                step(method.rival, model, batch, x, dh)  # A bucket's first batch is its capture.
            wait()
            begin = time.perf_counter()
            step(method.rival, model, batch, x, dh)
            wait()
            if number >= warm_ups:
                method.times.append(time.perf_counter() - begin)


def row(count, everyone):
    """The figures of a batch size: of each method the quartiles in ms and those of making a batch; and the ratios."""
    found = {"batch": count, "ms": {}, "prepare": {}, "ratio": {}}
    for method in everyone:
        found["ms"][method.name] = [1e3 * time for time in statistics.quantiles(method.times, n=4)]
        if method.preparing:
            found["prepare"][method.name] = 1e3 * statistics.median(method.preparing)
    ours = found["ms"].get(OURS)
    for name, quartiles in found["ms"].items():
        if ours and name != OURS:
            found["ratio"][name] = quartiles[1] / ours[1]
    return found


def show(found):
    """Prints the figures of a batch size."""
    cells = [f"{name} {middle:9.3f} ({low:.2f} to {high:.2f})" for name, (low, middle, high) in found["ms"].items()]
    print(f"batch {found['batch']:3}, ms: " + ", ".join(cells))
    if found["ratio"]:
        print("   times as fast as " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in found["ratio"].items()))
    print("   making a batch, ms: " + ", ".join(f"{name} {time:.3f}" for name, time in found["prepare"].items()))
    sys.stdout.flush()


def is_supported(model, graphs, options):
    """Whether our net runs on the device. If not, says why."""
    try:
        x, _ = random_numbers(graphs, [0], options.hidden, options.hidden, options.device)
        model(graphs.batch([0]), x)
    except ucudnn.NotSupported as refused:
        print(f"{OURS}: {refused}", flush=True)
        return False
    return True


def compare(options):
    trees = random_trees()
    graphs = ucudnn.Graphs(trees.children, counts=trees.counts, rows="leaves")
    torch.manual_seed(SEED)
    model = TreeLSTM(options.hidden, options.hidden).to(options.device)
    names = options.methods
    if OURS in names and not is_supported(model, graphs, options):
        names = [name for name in names if name != OURS]
    everyone = methods(names, options.device)
    print(f"PyTorch {torch.__version__} on {options.device}, {torch.get_num_threads()} threads; H = {options.hidden}, "
          f"float; forward and backward, median (quartiles) of {options.rounds} batches")  # fmt: skip
    say("checking results")
    if not check(everyone, trees, graphs, model, options.device):
        print("some results are wrong; nothing is timed")
        return 1
    rows = []
    for count in options.batches:
        say(f"timing batches of {count}")
        prepared = Prepared(trees, graphs, count, options.rounds + 2, everyone, options.device)
        measure(everyone, prepared, graphs, model, options)
        rows.append(row(count, everyone))
        show(rows[-1])
    if options.json:
        facts = {"torch": torch.__version__, "device": options.device, "threads": torch.get_num_threads()}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({**facts, "hidden": options.hidden, "rounds": options.rounds, "rows": rows}, file, indent=1)
    return 0


# Training

# A net that has learnt gets more of unseen trees' roots right; counts of words get some 60%.
LEARNT = 0.9
TRAINED_AT_ONCE, WIDTH, HIDDEN = 64, 16, 64


def train(options):
    """Learns the bit of each vertex: at the leaves of the word, above of both parts by the operation that their first
    word names. Returns 0 if it has."""
    trees = random_trees()
    words = random_words(trees)
    labels, roots = bits(trees, words), trees.first[1:] - 1
    graphs = ucudnn.Graphs(trees.children, counts=trees.counts, rows="leaves")
    torch.manual_seed(SEED)
    embedding, model, head = torch.nn.Embedding(WORDS, WIDTH), TreeLSTM(WIDTH, HIDDEN), torch.nn.Linear(HIDDEN, 2)
    parameters = [parameter for module in (embedding, model, head) for parameter in module.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)

    def run(ids):
        batch = graphs.batch(ids)
        return batch, head(model(batch, embedding(words[batch.rows])))

    seen = len(graphs) * 4 // 5
    samples = (ids for _ in itertools.count() for ids in torch.randperm(seen).split(TRAINED_AT_ONCE))
    begin = time.perf_counter()
    for number, ids in enumerate(itertools.islice(samples, options.steps), 1):
        batch, scores = run(ids)
        of_vertices = labels[batch.vertices]
        loss = F.cross_entropy(scores, of_vertices)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if number % 10 == 0:
            accuracy = (scores.argmax(1) == of_vertices).float().mean()
            print(f"step {number:4}: loss {loss:.4f}, {accuracy:6.1%} of the vertices right, "
                  f"{time.perf_counter() - begin:.1f} s", flush=True)  # fmt: skip
    with torch.no_grad():
        unseen = torch.arange(seen, len(graphs))
        batch, scores = run(unseen)
    accuracy = (scores[batch.roots].argmax(1) == labels[roots[unseen]]).float().mean().item()
    linear, common = linear_accuracy(trees, words, labels[roots])
    print(f"roots of unseen trees: {accuracy:.1%} right; a linear model of their words {linear:.1%}, the commoner bit "
          f"{common:.1%}")  # fmt: skip
    if accuracy <= LEARNT:
        print(f"it has not learnt: more than {LEARNT:.0%} were expected", file=sys.stderr)
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", action="store_true", help="learn in place of timing")
    parser.add_argument("--steps", type=int, default=150, help="of training [150]")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="for timing [cpu]")
    parser.add_argument("--threads", type=int, help="of the CPU")
    parser.add_argument("--hidden", type=int, default=256, help="the width of words and states [256]")
    parser.add_argument("--batches", type=lambda text: [int(one) for one in text.split(",")], default=BATCHES,
                        help="numbers of trees [1,8,32,128,256]")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=20, help="batches that are timed [20]")
    parser.add_argument("--methods", type=lambda text: text.split(","),
                        help=f"some of {OURS},E,C,B,G,GC; tree_baselines.py describes them [all that run]")  # fmt: skip
    parser.add_argument("--json", help="a file for all figures")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds: 2 or more are accepted")
    known = [OURS, "E", "C", "B", "G", "GC"]
    strange = [name for name in options.methods or [] if name not in known]
    if strange:
        parser.error(f"--methods: {strange[0]} is none of {','.join(known)}")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU; --device cpu tries the script without one")
    if options.threads:
        torch.set_num_threads(options.threads)
    if not options.methods:
        # On the CPU, torch.compile needs a compiler, and there are no CUDA graphs.
        compiles = options.device == "cuda" or any(map(shutil.which, ("c++", "g++", "clang++")))
        options.methods = [OURS, "E", "C", "B"] + (["G", "GC"] if options.device == "cuda" else [])
        options.methods = [name for name in options.methods if compiles or name not in ("C", "GC")]
    return train(options) if options.train else compare(options)


if __name__ == "__main__":
    sys.exit(main())
