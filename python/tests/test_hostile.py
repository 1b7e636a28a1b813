"""Random graphs, functions and calls, most of them wrong: each is accepted or refused, and nothing crashes or hangs."""

import random
import unittest

import torch
import ucudnn
from common import SEED, Programs

CASES = 10_000
#: What a wrong type of Python's may raise besides Refused.
ACCEPTED = (ucudnn.Refused, TypeError)


class Hostile:
    """One source of wrong things."""

    def __init__(self, number):
        self.random = random.Random(f"{SEED} hostile {number}")
        torch.manual_seed(number)
        #: How often something is wrong in this case.
        self.wrong = self.random.choice([0.0, 0.003, 0.01, 0.1])

    def errs(self, times=1):
        return self.random.random() < times * self.wrong

    def integer(self):
        edges = [-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 255, 256, 65535, 65536, 65537]
        edges += [2**31 - 1, 2**31, 2**32 + 1, 2**63 - 1, 2**64]
        return self.random.choice(edges) if self.random.random() < 0.15 else self.random.randint(-1, 6)

    def thing(self):
        """Something of a wrong type."""
        things = (None, "word", "any", "leaves", 1.5, float("nan"), True, [], [[]], {}, object(), b"bytes", [None], 1j,
                  ["a", 1], torch.zeros(2), torch.zeros(2, 2, 2).long(), torch.tensor(3), torch.zeros(0),
                  torch.tensor([True]), torch.tensor([1], dtype=torch.uint8), range(3), lambda *_: None,
                  ucudnn.Graphs([[[]]]))  # fmt: skip
        return self.random.choice(things)

    def numbers(self, count, good=lambda random: random.randint(-1, 5)):
        """An array of so many integers, nearly."""
        count = max(0, count + (self.random.choice([-1, 1]) if self.errs() else 0))
        found = [self.integer() if self.errs() else good(self.random) for _ in range(count)]
        if self.errs():
            return self.thing()
        if self.random.random() < 0.5 and all(-(2**31) <= number < 2**31 for number in found):
            return torch.tensor(found, dtype=self.random.choice([torch.int64, torch.int32]))
        return found

    def graphs(self):
        """Graphs in some form, or None if they were refused."""
        random = self.random
        counts = [random.randint(1, 6) for _ in range(random.randint(1, 4))]
        total = sum(counts)
        rows = random.choice([None, None, "leaves", self.numbers(total, lambda random: random.choice([-1, 0]))])
        kinds = random.choice([None, None, self.numbers(total, lambda random: random.randint(0, 2))])
        more = {"rows": rows, "kinds": kinds}
        if self.errs(3):
            more = {name: self.thing() for name in more}
        form = "thing" if self.errs() else random.choice(["lists", "table", "edges"])
        if form == "thing":
            return ucudnn.Graphs(self.thing(), counts=random.choice([None, self.thing()]), **more)
        if form == "edges":
            is_right = counts[0] > 1 and not self.errs(9)
            joined = sorted(random.sample(range(counts[0]), 2)) if is_right else [0, total - 1]
            edges = [self.numbers(1, lambda _, end=end: end) for end in joined]
            try:
                edges = torch.stack([torch.as_tensor(edge) for edge in edges])
            except (TypeError, ValueError, RuntimeError, OverflowError):
                pass  # stays a list
            return ucudnn.Graphs.from_edges(edges, counts if not self.errs(3) else self.numbers(len(counts)), **more)
        width = random.randint(1, 3)
        if form == "table":
            firsts = [vertex for count in counts for vertex in range(count)]
            table = [self.numbers(width, lambda random, most=first - 1: random.randint(-1, most)) for first in firsts]
            table = [row.tolist() if isinstance(row, torch.Tensor) else row for row in table]
            return ucudnn.Graphs(table, counts=self.numbers(len(counts)) if self.errs(3) else counts, **more)
        children = []
        for count in counts:
            below = lambda vertex, count=count: lambda random: random.randint(-1, count if self.errs() else vertex - 1)
            children.append([self.numbers(random.choice([0, 1, 2, width]), below(vertex)) for vertex in range(count)])
        return ucudnn.Graphs(children, **more)

    def net(self):
        random = self.random
        owner = torch.nn.Module()
        owner.linear, owner.vector = torch.nn.Linear(2, 2), torch.nn.Parameter(torch.zeros(2))
        owner.table = torch.nn.Parameter(torch.zeros(4, 2))
        width = lambda: self.integer() if self.errs() else 2
        states = {f"s{number}": width() for number in range(random.randint(0, 2))}
        wrong = lambda: random.choice([self.integer(), self.thing()])
        arity = lambda: wrong() if self.errs() else random.choice([0, 1, 2, "any", "any"])
        arities = [arity() for _ in range(random.randint(1, 3))]
        functions = [(arity, self.write) for arity in arities]
        if self.errs():
            functions = self.thing()
        loss = random.choice([None, None, "y0"])
        return ucudnn.VertexNet(states, functions, None if self.errs() else owner, loss=loss)

    def value(self, values):
        return self.thing() if self.errs() else self.random.choice(values)

    def write(self, v):
        """A random function, which may have the wrong values anywhere."""
        random, values = self.random, [v.pull("x0", 2)]
        own = lambda: random.choice(values)
        index = lambda: self.value(values) if self.errs(5) else v.pull_index("i")
        states = list(v._net.states)
        state = lambda: random.choice(states) if states and not self.errs() else "s7"
        unary = ("sigmoid", "tanh", "relu", "exp", "sum", "mean", "max", "softmax", "sum_elements", "softmax_elements")
        makes = [
            lambda: v.pull(random.choice(["x0", "x1"]), self.integer() if self.errs() else 2),
            lambda: v.lookup(random.choice(["table", "linear.weight", "vector"]), index()),
            lambda: getattr(v.gather(random.randint(0, max(v.children_count - 1, 0))), state()),
            lambda: getattr(v.children(), state()),
            lambda: v.matmul("linear.weight", self.value(values)),
            lambda: v.bias("vector", self.value(values)),
            lambda: v.linear("nothing" if self.errs() else "linear", self.value(values)),
            lambda: own() + self.value(values),
            lambda: self.value(values) - own(),
            lambda: own() / self.value(values),
            lambda: own() * random.choice([2, 0.5, -1, 1e300, float("inf")]),
            lambda: own() - random.choice([2, 0.5, 1e-300]),
            lambda: getattr(own(), random.choice(unary))(),
            lambda: v.concat([self.value(values), self.value(values)]),
            lambda: own()[self.thing()] if self.errs(9) else own()[random.randint(-3, 3) : random.randint(-3, 5)],
            lambda: random.choice(own().chunk(self.thing() if self.errs(9) else random.choice([1, 2, 3]))),
        ]
        for _ in range(random.randint(1, 12)):
            try:
                made = random.choice(makes)()
                if isinstance(made, ucudnn.Value):
                    values.append(made)
            except (*ACCEPTED, AttributeError):
                if self.errs():
                    raise

        def fitting():
            value = self.value(values)
            if isinstance(value, ucudnn.Value) and not self.errs():
                value = value.sum() if value.is_of_children else value
                value = value[:2] if value.width >= 2 else v.concat([value, value])
            return value

        for name in states:
            if not self.errs():
                v.scatter(**{name: fitting()})
        for number in range(random.randint(1, 2)):
            v.push(**{"7" if self.errs() else f"y{number}": fitting()})

    def call(self, net, graphs):
        random = self.random
        batch = graphs.batch(self.numbers(random.randint(1, 3), lambda random: random.randrange(max(len(graphs), 1))))
        rows = len(batch.rows) + (random.choice([1, -1]) if self.errs() else 0)
        inputs = {}
        for name, width in net._declaration.pulls.items():
            rows = max(rows, 0)
            inputs[name] = torch.randn(rows, width) if width else torch.randint(-1 if self.errs() else 0, 2, (rows,))
            if self.errs():
                inputs[name] = self.thing()
            elif width and random.random() < 0.3:
                inputs[name].requires_grad_()
        if self.errs():
            inputs["z"] = self.thing()
        if random.random() < 0.2:
            labels = torch.randint(-3, 9, (3,)) if self.errs(5) else torch.randint(-1, 2, (len(batch.vertices),))
            return net.step(self.thing() if self.errs() else batch, labels=labels, lr=0.1, **inputs)
        outputs = net(self.thing() if self.errs() else batch, **inputs)
        for output in outputs:
            assert output.shape[0] == len(batch.vertices)
        loss = sum(output.sum() for output in outputs)
        if loss.requires_grad:
            loss.backward()
        return None


def attack(first, count):
    """Returns how many graphs, nets and calls were accepted."""
    accepted = {"graphs": 0, "nets": 0, "calls": 0}
    graphs, net = ucudnn.Graphs([[[]], [[], [0]], [[], [], [0, 1]]]), None
    for number in range(first, first + count):
        hostile = Hostile(number)

        def tried(what, make, number=number):
            try:
                made = make()
            except ACCEPTED as refused:
                assert "failure inside" not in str(refused), (number, refused)
                return None
            except AttributeError as missing:
                assert str(missing).startswith("the net has no state 's7'"), (number, missing)
                return None
            except Exception as error:
                raise AssertionError(f"case {number}, {what}") from error
            accepted[what] += 1
            return made

        graphs = tried("graphs", hostile.graphs) or graphs
        if number % 2:  # making a net takes longer
            net = tried("nets", hostile.net) or net
        if net is not None:
            tried("calls", lambda hostile=hostile, net=net, graphs=graphs: hostile.call(net, graphs))
    return accepted


def attack_all():
    accepted = attack(0, CASES)
    print(accepted)
    # Most are refused, and not all: else the cases would try little.
    for what, count in accepted.items():
        assert CASES // 20 < count < CASES, (what, count)


class HostilePrograms(Programs):
    def test_nothing_crashes_or_hangs(self):
        self.run_functions("attack_all()")


if __name__ == "__main__":
    unittest.main()
