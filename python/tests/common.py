"""What several tests share: an interpreter of a net's canonical text, random nets and graphs, and measures of error."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import typing
import unittest

import torch
import ucudnn
from ucudnn.vertex import OPERATIONS

#: Another seed for all random cases.
SEED = os.environ.get("UCUDNN_TEST_SEED", "1")
TESTS = pathlib.Path(__file__).resolve().parent
#: The folder of the package. What starts Python anew has it on the path.
PACKAGE = pathlib.Path(ucudnn.__file__).resolve().parent.parent
#: The operations of two values' elements, and the functions of each element of one. Their methods have their names.
EXTREMES = ("maximum", "minimum")
FUNCTIONS = [name for name in OPERATIONS if name in vars(ucudnn.Value) and name not in ("sum", "softmax", *EXTREMES)]
#: Those that take positive numbers alone.
OF_POSITIVE = ("log", "sqrt")
#: Seconds after which a process is taken to hang. Nothing takes a part of it.
HANGS = 300


def seeded(*names):
    """A source of random numbers for the case of these names. torch begins with a seed of it too."""
    source = random.Random(f"{SEED} {names}")
    torch.manual_seed(source.getrandbits(32))
    return source


def function(name):
    """torch's function of an operation's name."""
    return getattr(torch, name, None) or getattr(torch.nn.functional, name)


def run_python(code):
    """Runs code in a Python of its own, with these tests on its path. Returns its exit status and its text."""
    path = os.pathsep.join([str(PACKAGE), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code], env=os.environ | {"PYTHONPATH": path}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        text, _ = process.communicate(timeout=HANGS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its own children too
        raise AssertionError(f"still runs after {HANGS} s: {process.communicate()[0]}") from None
    return process.returncode, text


class Programs(unittest.TestCase):
    """Tests that run functions of their module in a process of its own: a crash or a hang is a failure."""

    def run_functions(self, *calls):
        """calls: as they are written, "name(arguments)"."""
        module = type(self).__module__
        code = "".join(f"{module}.{call}; print('{number}')\n" for number, call in enumerate(calls))
        status, text = run_python(f"import {module}\n{code}")
        reached = text.splitlines()[-1:]
        self.assertEqual((status, reached), (0, [f"{len(calls) - 1}"]), text)


def in_child(body):
    """Runs a function in a forked child, where it must not raise."""
    child = os.fork()
    if child == 0:
        try:
            body()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def error(found, expected):
    """The norm of the difference over the norm of what is expected."""
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm())


class Graph(typing.NamedTuple):
    """An input graph in plain Python."""

    #: The child in each slot of each vertex; -1 for none.
    children: list
    #: The row that each vertex pulls; -1 for none.
    rows: list
    #: The number of each vertex's function, or None: the number of slots decides.
    kinds: list | None = None

    @property
    def row_count(self):
        return max(self.rows) + 1


def tree(*children):
    """A graph whose vertices pull the row of their number."""
    return Graph([list(row) for row in children], list(range(len(children))))


def random_tree(random, leaves, most=2):
    """A tree whose inner vertices have two children, or two to `most`, and whose leaves alone pull."""
    children, rows, roots = [[] for _ in range(leaves)], list(range(leaves)), list(range(leaves))
    while len(roots) > 1:
        count = random.randint(2, min(most, len(roots)))
        first = random.randrange(len(roots) - count + 1)
        children.append(roots[first : first + count])
        rows.append(-1)
        roots[first : first + count] = [len(children) - 1]
    return Graph(children, rows)


def as_graphs(graphs):
    """Graphs as Graphs, from the children as lists."""
    kinds = None if graphs[0].kinds is None else [kind for graph in graphs for kind in graph.kinds]
    return ucudnn.Graphs([graph.children for graph in graphs], rows=[row for graph in graphs for row in graph.rows],
                         kinds=kinds)  # fmt: skip


def pulled(graph, x):
    """The row of x that each vertex pulls; zeros for none."""
    return [x[row] if row >= 0 else x.new_zeros(x.shape[1:]) for row in graph.rows]


class Operation(typing.NamedTuple):
    name: str
    #: The numbers of values.
    values: list
    parameter: int | None
    #: What else stands there.
    numbers: list


class Text:
    """A net's canonical text, read."""

    def __init__(self, text):
        #: The number of slots of each function, None for any, and its operations.
        self.functions = []
        for line in filter(None, map(str.strip, text.splitlines())):
            word, _, rest = line.partition(" ")
            if word in ("states", "pulls", "pushes"):
                setattr(self, word, [int(number) for number in rest.split()])
            elif word == "parameters":
                self.parameters = [tuple(int(number) for number in size.split("x")) for size in rest.split()]
            elif word == "function":
                slots = rest.removesuffix(":")
                self.functions.append((None if slots == "any" else int(slots), []))
            else:
                name, _, operands = line.rpartition("= ")[2].partition(" ")
                operands = operands.split(", ")
                values = [int(operand[1:]) for operand in operands if operand.startswith("%")]
                parameters = [int(operand[1:]) for operand in operands if operand.startswith("P")]
                numbers = [operand for operand in operands if operand[0] not in "%P"]
                numbers = [float(number) if name in ("scale", "shift", "power") else int(number) for number in numbers]
                operation = Operation(name, values, *(parameters or [None]), numbers)
                self.functions[-1][1].append(operation)

    def kind_of(self, slots):
        """The function of a vertex with so many slots: the one for just as many, else the first for any number."""
        taken = [number for number, _ in self.functions]
        return taken.index(slots if slots in taken else None)


class Interpreter:
    """Runs a net's text vertex by vertex, with torch's operations, so that autograd has the gradients.

    A vertex's value is [width], one of its children [children, width]; an empty slot is no child.
    """

    def __init__(self, text, graphs, parameters, pulls):
        self.net, self.parameters, self.pulls = Text(text), parameters, pulls
        #: How near a number came to a place where a derivative jumps, without being there.
        self.nearest_kink = float("inf")
        #: The names of the operations that ran.
        self.names = set()
        outputs, first_row = [[] for _ in self.net.pushes], 0
        for graph in graphs:
            for to, found in zip(outputs, self._graph(graph, first_row), strict=True):
                to.extend(found)
            first_row += graph.row_count
        #: Each output, [vertices, width].
        self.outputs = [torch.stack(output) for output in outputs]

    def _graph(self, graph, first_row):
        """The rows of each output."""
        states, pushed = {}, {}
        waiting = list(range(len(graph.children)))
        while waiting:
            is_ready = lambda vertex: all(child < 0 or child in states for child in graph.children[vertex])
            for vertex in filter(is_ready, waiting):
                slots = graph.children[vertex]
                kind = graph.kinds[vertex] if graph.kinds else self.net.kind_of(len(slots))
                of_children = [states.get(child) for child in slots]
                row = first_row + graph.rows[vertex] if graph.rows[vertex] >= 0 else None
                states[vertex], pushed[vertex] = self._vertex(kind, of_children, row)
            waiting = [vertex for vertex in waiting if vertex not in states]
        of_vertices = [pushed[vertex] for vertex in range(len(graph.children))]
        return [[of_vertex[output] for of_vertex in of_vertices] for output in range(len(self.net.pushes))]

    def _vertex(self, kind, of_children, row):
        zeros = lambda widths: [torch.zeros(width, dtype=torch.float64) for width in widths]
        states, pushed, values = zeros(self.net.states), zeros(self.net.pushes), []
        for operation in self.net.functions[kind][1]:
            self.names.add(operation.name)
            inputs, numbers = [values[value] for value in operation.values], operation.numbers
            if operation.name == "scatter":
                states[numbers[0]] = inputs[0]
            elif operation.name == "push":
                pushed[numbers[0]] = inputs[0]
            values.append(self._value(operation, inputs, of_children, row))
        return states, pushed

    def _value(self, operation, inputs, of_children, row):
        numbers = operation.numbers
        parameter = None if operation.parameter is None else self.parameters[operation.parameter]
        x, y, *_ = *inputs, None, None
        match operation.name:
            case "pull":
                zeros = torch.zeros(self.net.pulls[numbers[0]], dtype=torch.float64)
                return zeros if row is None else self.pulls[numbers[0]][row]
            case "pullIndex":
                return None if row is None else int(self.pulls[numbers[0]][row])
            case "lookup":
                return torch.zeros(parameter.shape[1], dtype=torch.float64) if x is None else parameter[x]
            case "gather":
                states, width = of_children[numbers[0]], self.net.states[numbers[1]]
                return torch.zeros(width, dtype=torch.float64) if states is None else states[numbers[1]]
            case "children":
                none = torch.zeros(0, self.net.states[numbers[0]], dtype=torch.float64)
                there = [states[numbers[0]] for states in of_children if states is not None]
                return torch.stack(there) if there else none
            case "matmul":
                return x @ parameter.T
            case "bias":
                return x + parameter
            case "add":
                return x + y
            case "sub":
                return x - y
            case "mul":
                return x * y
            case "scale":
                return x * numbers[0]
            case "shift":
                return x + numbers[0]
            case "gain":
                return x * parameter
            case "div":
                return x / y
            case "power":
                return x ** numbers[0]
            case name if name in EXTREMES:
                self._see((x - y).abs())
                return function(name)(x, y)
            case name if name in FUNCTIONS:
                if name == "relu":
                    self._see(x.abs())
                return function(name)(x)
            case "sumChildren":
                return x.sum(0)
            case "meanChildren":
                return x.mean(0) if len(x) else x.sum(0)
            case "maxChildren":
                return self._greatest(x) if len(x) else x.sum(0)
            case "softmaxChildren":
                return x.softmax(0)
            case "softmax":
                return x.softmax(-1)
            case "sum":
                return x.sum(-1, keepdim=True)
            case "concat":
                of_children = [value for value in inputs if value.dim() == 2]
                count = [len(of_children[0])] if of_children else []
                return torch.cat([value.expand(*count, value.shape[-1]) for value in inputs], -1)
            case "slice":
                return x[..., numbers[0] : numbers[0] + numbers[1]]
            case "scatter" | "push":
                return None
        raise AssertionError(f"{operation.name} is not known")

    def _greatest(self, x):
        """The greatest child, from the first that has it."""
        greatest = x.detach().amax(0)
        self._see(greatest - x.detach())
        first = (x.detach() == greatest).int().argmax(0)
        return x.gather(0, first[None])[0]

    def _see(self, distances):
        distances = distances.detach()[distances.detach() > 0]
        if len(distances):
            self.nearest_kink = min(self.nearest_kink, float(distances.min()))


class RandomNet(torch.nn.Module):
    """A net of random vertex functions. Its parameters are P0, P1, … in the order of their first use."""

    #: Slots of the functions: for graphs whose vertices have no kinds, and for others.
    ARITIES = (["any"], [0, "any"], [0, 2], [0, 1, 2], [0, 3], [0, 2, "any"], [1, "any"], [0, 4, 1])
    ARITIES_OF_KINDS = ([0, 0, 2, 2], ["any", "any", 2], [0, 1, 1, "any", "any"], ["any", 0, 3, 0])

    def __init__(self, random, arities, dtype=torch.float64):
        super().__init__()
        self.random, self.dtype, self.arities = random, dtype, arities
        widths = lambda most: [random.choice([1, 1, 2, 3, 4, 5, 8, 17]) for _ in range(random.randint(1, most))]
        self.states = {f"s{number}": width for number, width in enumerate(widths(3))}
        self.pulled = {f"x{number}": width for number, width in enumerate(widths(2))}
        if random.random() < 0.5:
            self.pulled["i"] = 0
        self.pushed = {f"y{number}": width for number, width in enumerate(widths(3))}
        self.count = 0
        write = lambda is_last: lambda vertex: _Writer(random, self, vertex).write(is_last)
        functions = [(arity, write(place == len(arities) - 1)) for place, arity in enumerate(arities)]
        self.net = ucudnn.VertexNet(self.states, functions, self)
        self.used = [getattr(self, f"P{number}") for number in range(self.count)]

    def parameter(self, *size):
        """The name of a parameter of this size, an old one or a new one. Its numbers are at most 1."""
        same = [number for number in range(self.count) if getattr(self, f"P{number}").shape == size]
        if same and (self.random.random() < 0.4 or self.count >= 60):
            return f"P{self.random.choice(same)}"
        name = f"P{self.count}"
        numbers = (torch.rand(size, dtype=torch.float64) * 2 - 1) / (size[1] ** 0.5 if len(size) == 2 else 1)
        setattr(self, name, torch.nn.Parameter(numbers.to(self.dtype)))
        self.count += 1
        return name

    def inputs(self, rows):
        """Random inputs for a batch with so many rows."""
        table = min((len(p) for p in self.used if p.dim() == 2), default=1)
        floats = lambda width: (torch.rand(rows, width, dtype=torch.float64) * 2 - 1).to(self.dtype)
        return {name: floats(width) if width else torch.randint(table, (rows,)) for name, width in self.pulled.items()
                if name in self.names}  # fmt: skip

    @property
    def names(self):
        """The inputs that some function pulls, in the order of their first use."""
        return self.net._declaration.pulls

    @property
    def outputs(self):
        """The names of the outputs likewise."""
        return list(self.net._declaration.pushes)


class _Writer:
    """Writes a random function, of values that do not grow without bound."""

    MOST = 30.0

    def __init__(self, random, net, vertex):
        self.random, self.net, self.vertex = random, net, vertex
        #: Values, and a bound of their numbers.
        self.values = []

    def write(self, is_last):
        random, net, vertex = self.random, self.net, self.vertex
        self.take(is_last)
        for _ in range(random.randint(2, 16)):
            self.add_operation()
        scatters = {name: self.fitting(width, 1.0) for name, width in net.states.items()}
        # A function need not push all outputs, but each is pushed by one.
        pushed = net.net_pushes = getattr(net, "net_pushes", set())
        names = [name for name in net.pushed if random.random() < 0.8 or (is_last and name not in pushed)]
        pushed.update(names)
        pushes = {name: self.fitting(net.pushed[name], self.MOST) for name in names}
        for end, values in random.sample([(vertex.scatter, scatters), (vertex.push, pushes)], 2):
            end(**values)

    def keep(self, value, bound):
        if bound > self.MOST:
            value, bound = value.tanh(), 1.0
        self.values.append((value, bound))

    def take(self, is_last):
        random, net, vertex = self.random, self.net, self.vertex
        for name, width in net.pulled.items():
            # Some tensor has the net's type: a net that takes none runs in float.
            if random.random() < 0.7 or (is_last and name == "x0"):
                if width:
                    self.keep(vertex.pull(name, width), 1.0)
                else:
                    # Indices are below the fewest rows of all matrices, and a table of one row would test little.
                    table = net.parameter(random.randint(3, 6), random.choice([1, 3, 4]))
                    self.keep(vertex.lookup(table, vertex.pull_index(name)), 1.0)
        for slot in range(max(vertex.children_count, 0)):
            for name in net.states:
                if random.random() < 0.7:
                    self.keep(getattr(vertex.gather(slot), name), 1.0)
        for name in net.states:
            if vertex.children_count < 0 or random.random() < 0.2:
                self.keep(getattr(vertex.children(), name), 1.0)
        if not self.values:
            name, width = next((name, width) for name, width in net.pulled.items() if width)
            self.keep(vertex.pull(name, width), 1.0)

    def some(self, is_wanted=lambda value: True):
        """A value that is wanted, and its bound; rather a late one."""
        wanted = [pair for pair in self.values if is_wanted(pair[0])]
        return wanted[max(self.random.randrange(len(wanted)) for _ in range(2))] if wanted else None

    def add_operation(self):
        random, net, vertex = self.random, self.net, self.vertex
        (x, bound), (y, other) = self.some(), self.some()
        meets = self.some(lambda value: value.width in (x.width, 1) or x.width == 1)
        of_children = self.some(lambda value: value.is_of_children)
        match random.randrange(21):
            case 0 | 1:
                rows = random.choice([1, 2, 3, 5, 8])
                self.keep(vertex.matmul(net.parameter(rows, x.width), x), bound * x.width**0.5)
            case 2:
                self.keep(vertex.bias(net.parameter(x.width), x), bound + 1)
            case 3:
                self.keep(x + meets[0], bound + meets[1])
            case 4:
                self.keep(x - meets[0], bound + meets[1])
            case 5 | 6:
                self.keep(x * meets[0], bound * meets[1])
            case 7:
                constant = random.choice([-1.0, 0.5, random.uniform(-2, 2)])
                self.keep(x * constant, bound * abs(constant))
            case 8:
                constant = random.choice([1.0, -0.25, random.uniform(-2, 2)])
                self.keep(x + constant, bound + abs(constant))
            case 9 | 10 | 11 | 12:
                name = random.choice(FUNCTIONS)
                ends = [-bound, bound]
                if name in OF_POSITIVE:
                    x, ends = x * x + 0.5, [0.5, bound * bound + 0.5]
                # They are greatest at an end.
                most = float(function(name)(torch.tensor(ends)).abs().max())
                if most <= self.MOST:
                    self.keep(getattr(x, name)(), most)
            case 13:
                self.keep(*random.choice([(x.softmax_elements(), 1.0), (x.sum_elements(), bound * x.width)]))
            case 14:
                self.keep(vertex.concat([x, y]), max(bound, other))
            case 18:
                self.keep(vertex.gain(net.parameter(x.width), x), bound)
            case 19:
                z = meets[0]
                divided = (x / (z * z + 0.5), 2 * bound)
                self.keep(*random.choice([divided, (x.maximum(z), max(bound, meets[1])), (x.minimum(z), max(bound, meets[1]))]))
            case 20:
                exponent = random.choice([-1, -0.5, 3, random.uniform(-2, 2)])
                self.keep((x * x + 0.5) ** exponent, max(0.5**exponent, (bound * bound + 0.5) ** exponent))
            case 15:
                first = random.randrange(x.width)
                self.keep(x[first : random.randint(first + 1, x.width)], bound)
            case _ if of_children:
                value, bound = of_children
                name = random.choice(["sum", "mean", "max", "softmax"])
                self.keep(getattr(value, name)(), bound * (12 if name == "sum" else 1))

    def fitting(self, width, most):
        """A value of the vertex, of this width and within a bound."""
        value, bound = self.some()
        if value.is_of_children:
            name = self.random.choice(["sum", "mean", "max"])
            value, bound = getattr(value, name)(), bound * (12 if name == "sum" else 1)
        if value.width > width:
            value = value[:width]
        if value.width < width:
            value, bound = self.vertex.matmul(self.net.parameter(width, value.width), value), bound * value.width**0.5
        return value if bound <= most else value.tanh()


def random_graph(random, arities, has_kinds, leaves_pull=False):
    """A graph for functions of these numbers of slots."""
    while True:
        graph = _any_random_graph(random, arities, has_kinds, leaves_pull)
        widths = {len(row) for row in graph.children}
        # In a graph whose rows are equally long, a row of -1 alone means a leaf.
        if len(widths) > 1 or not any(row and max(row) < 0 for row in graph.children):
            return graph


def _any_random_graph(random, arities, has_kinds, leaves_pull):
    count = random.choice([1, 2, 3, 5, 8, 12])
    shape = random.choice(["chain", "star", "caterpillar", "tree", "shared"])
    roots, children, kinds = [], [], []
    for vertex in range(count):
        match shape:
            case "chain":
                wanted = [vertex - 1] if vertex else []
            case "star":
                wanted = list(range(vertex)) if vertex == count - 1 else []
            case "caterpillar":  # each second vertex is a leaf on the body
                wanted = [] if vertex % 2 == 0 else [vertex - 1, vertex - 2] if vertex > 1 else [0]
            case "tree":
                wanted = [roots.pop(random.randrange(len(roots))) for _ in range(random.randint(0, min(3, len(roots))))]
            case "shared":
                wanted = [random.randrange(vertex) for _ in range(random.randint(0, 4))] if vertex else []
        fitting = [kind for kind, arity in enumerate(arities) if arity == "any" or arity >= len(wanted)]
        if random.random() < 0.9:  # no empty slot
            fitting = [kind for kind in fitting if arities[kind] in ("any", len(wanted))] or fitting
        kind = random.choice(fitting or [arities.index(max(arity for arity in arities if arity != "any"))])
        arity = arities[kind]
        if arity != "any":
            wanted = wanted[:arity] + [-1] * (arity - len(wanted))
        random.shuffle(wanted)
        roots.append(vertex)
        children.append(wanted)
        kinds.append(kind)
    # The numbers of vertices need not rise from children to parents.
    number = list(range(count))
    if random.random() < 0.5:
        random.shuffle(number)
    renamed, renamed_kinds = [None] * count, [None] * count
    for vertex in range(count):
        renamed[number[vertex]] = [-1 if child < 0 else number[child] for child in children[vertex]]
        renamed_kinds[number[vertex]] = kinds[vertex]
    return Graph(renamed, list(range(count)), renamed_kinds if has_kinds else None)


def with_rows(random, graph, way):
    """The graph with the rows that its vertices pull: of each its own (None), "leaves", or an array."""
    count = len(graph.children)
    if way is None:
        return graph
    if way == "leaves":
        leaves = [vertex for vertex in range(count) if not graph.children[vertex]]
        return graph._replace(rows=[leaves.index(vertex) if vertex in leaves else -1 for vertex in range(count)])
    return graph._replace(rows=[random.randint(-1, random.randint(0, count - 1)) for _ in range(count)])


def random_graphs(random, graphs, way):
    """Graphs as Graphs, in one of the forms that hold them. `way` is where their rows came from."""
    rows = way if way in (None, "leaves") else [row for graph in graphs for row in graph.rows]
    kinds = None if graphs[0].kinds is None else [kind for graph in graphs for kind in graph.kinds]
    slots = {len(row) for graph in graphs for row in graph.children} - {0}
    all_empty = any(row and max(row) < 0 for graph in graphs for row in graph.children)
    forms = ["lists"]
    if len(slots) <= 1 and not all_empty:
        forms += ["table", "tables"]
    if not any(child < 0 for graph in graphs for row in graph.children for child in row):
        forms += ["edges"]
    form, width = random.choice(forms), max(slots, default=1)
    if form == "lists":
        return ucudnn.Graphs([graph.children for graph in graphs], rows=rows, kinds=kinds)
    if form == "edges":
        first, edges = 0, []
        for graph in graphs:
            edges += [(first + child, first + parent) for parent, row in enumerate(graph.children) for child in row]
            first += len(graph.children)
        edges = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
        return ucudnn.Graphs.from_edges(edges, [len(graph.children) for graph in graphs], rows=rows, kinds=kinds)
    tables = [torch.tensor([row or [-1] * width for row in graph.children]) for graph in graphs]
    if form == "tables":
        return ucudnn.Graphs(tables, rows=rows, kinds=kinds)
    return ucudnn.Graphs(torch.cat(tables), counts=[len(table) for table in tables], rows=rows, kinds=kinds)
