"""Every refusal of the package, with its whole text."""

import numbers
import unittest

import torch
import ucudnn
from torch.nn import functional
from ucudnn import NotSupported, Refused
from ucudnn._functions import _NAMED

FLOATS = "float32, float64, float16, bfloat16"


#: The last owner.
OWNED = []


class Owner(torch.nn.Module):
    """Parameters for functions to name."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.plain = torch.nn.Linear(4, 3, bias=False)
        self.cube = torch.nn.Parameter(torch.zeros(2, 2, 2))
        self.one, self.norm = torch.nn.Parameter(torch.ones(1)), torch.nn.LayerNorm(3)
        self.word = "not a tensor"
        OWNED[:] = [self]


def written(function, slots="any", states=None):
    """What makes a net of one function."""
    return lambda: ucudnn.VertexNet({"h": 4} if states is None else states, {slots: function}, Owner())


def other_value():
    """A value of another function."""
    values = []
    ucudnn.VertexNet({}, {0: lambda v: (values.append(v.pull("x", 4)), v.push(y=values[0]))})
    return values[0]


def x(v, width=4):
    return v.pull("x", width)


#: Refusals of functions of any number of children; the function's place stands before each text.
FUNCTIONS = {
    "a value is known only when the net runs: a vertex function cannot depend on it": lambda v: bool(x(v)),
    "a value is known only when the net runs: a vertex function cannot depend on it ": lambda v: x(v) == 0,
    "a value is known only when the net runs: a vertex function cannot depend on it  ": lambda v: 1 > x(v),
    "a value has no elements to go through: use chunk, or a slice": lambda v: list(x(v)),
    "add: the two values belong to different vertex functions": lambda v: x(v) + other_value(),
    "sub: the two values belong to different vertex functions": lambda v: x(v) - other_value(),
    "mul: the two values belong to different vertex functions": lambda v: x(v) * other_value(),
    "add: widths 4 and 3; they are equal, or one is 1": lambda v: x(v) + v.pull("z", 3),
    "sub: widths 4 and 3; they are equal, or one is 1": lambda v: x(v) - v.pull("z", 3),
    "mul: widths 3 and 4; they are equal, or one is 1": lambda v: v.pull("z", 3) * v.children().h,
    "div: widths 4 and 3; they are equal, or one is 1": lambda v: x(v) / v.pull("z", 3),
    "maximum: takes a value of this vertex function, not 1.0": lambda v: x(v).maximum(1.0),
    "minimum: takes a value of this vertex function, not <a vertex's 4 numbers>": lambda v: x(v).minimum(other_value()),
    "**: a constant exponent is accepted; (y * x.log()).exp() is x to the power of a value": lambda v: x(v) ** x(v),
    "**: a constant exponent is accepted; (x * log(number)).exp() is a number to the power of x": lambda v: 2 ** x(v),
    "**: a constant is finite, not nan": lambda v: x(v) ** float("nan"),
    "**: a constant exponent is accepted; (y * x.log()).exp() is x to the power of a value ":
        lambda v: x(v) ** OWNED[-1].one,
    "+: takes a value or a number, not <an index>": lambda v: x(v) + v.pull_index("i"),
    "layer_norm 'linear': a LayerNorm of [4] is accepted, not one of no shape": lambda v: v.layer_norm("linear", x(v)),
    "layer_norm 'norm': a LayerNorm of [4] is accepted, not one of [3]": lambda v: v.layer_norm("norm", x(v)),
    "/: no parameter divides a value, and so not 'linear.bias'; keep its reciprocal, and multiply":
        lambda v: x(v, 3) / OWNED[-1].linear.bias,
    "+: takes a parameter of the module in the net's `parameters`, and no other tensor": lambda v: x(v) + torch.zeros(4),
    "*: takes a parameter of the module in the net's `parameters`, and no other tensor":
        lambda v: torch.ones(1, requires_grad=True) * x(v),
    "linear: takes a parameter of the module in the net's `parameters`, and no other tensor":
        lambda v: torch.nn.Linear(4, 2)(x(v)),
    "matmul: takes a parameter of the module in the net's `parameters`, and no other tensor":
        lambda v: torch.zeros(2, 4) @ x(v),
    "gain: parameter 'linear.bias' is [3]; it is a vector of x's width, 4": lambda v: v.gain("linear.bias", x(v)),
    "parameter 'plain.bias': the module does without it": lambda v: v.bias("plain.bias", x(v)),
    "torch's relu of values: no inplace is accepted": lambda v: functional.relu(x(v), inplace=True),
    "torch's sum of values: no dtype is accepted": lambda v: torch.sum(x(v), dtype=torch.float64),
    "torch's div of values: no rounding_mode is accepted": lambda v: torch.div(x(v), x(v), rounding_mode="floor"),
    "torch's sum of values: dim 1 of a value of [4]; -1 to 0 are accepted": lambda v: torch.sum(x(v), 1),
    "torch's sum of values: keepdim=False is accepted over the children: a vertex's value is left":
        lambda v: torch.sum(v.children().h, 0, keepdim=True),
    "torch's softmax of values: no dtype is accepted": lambda v: torch.softmax(x(v), 0, torch.float16),
    "torch's softmax of values: dim None of a value of [4]; -1 to 0 are accepted": lambda v: functional.softmax(x(v)),
    "torch's softmax of values: dim -3 of a value of [children, 4]; -2 to 1 are accepted":
        lambda v: torch.softmax(v.children().h, -3),
    "torch's sum of values: keepdim=True is accepted: a value of each child keeps its elements' axis":
        lambda v: torch.sum(v.children().h, -1),
    "torch's chunk of values: over the elements alone is accepted, dim=-1": lambda v: torch.chunk(v.children().h, 2),
    "torch's cat of values: over the elements alone is accepted, dim=-1": lambda v: torch.cat([x(v), v.children().h]),
    "torch's split of values: parts that make up a width of 4 are accepted, not [1, 2]":
        lambda v: torch.split(x(v), [1, 2]),
    "torch's split of values: parts that make up a width of 4 are accepted, not [-1, 5]":
        lambda v: torch.split(x(v), [-1, 5]),
    "torch's matmul of values: a value of the vertex is accepted; linear takes those of children":
        lambda v: OWNED[-1].plain.weight @ v.children().h,
    "torch's neg of values: a value is accepted, not Index": lambda v: torch.neg(v.pull_index("i")),
    "torch's add of values: a value is accepted, not int": lambda v: torch.add(v.pull_index("i"), 1),
    "torch's layer_norm of values: a shape of [4] is accepted, not [3]": lambda v: torch.nn.LayerNorm(3)(x(v)),
    "torch's embedding of values: an index is accepted, as from pull_index": lambda v: torch.nn.Embedding(3, 4)(x(v)),
    "torch's embedding of values: no padding_idx is accepted":
        lambda v: torch.nn.Embedding(3, 4, padding_idx=0)(v.pull_index("i")),
    "torch's dropout of values: a net draws no random numbers; apply it to what is pulled and pushed":
        lambda v: torch.nn.Dropout()(x(v)),
    "torch's matmul of values: a matrix among the parameters times a value is accepted": lambda v: torch.matmul(x(v), x(v)),
    "torch's tanh of values: a value is accepted, not Index": lambda v: torch.tanh(v.pull_index("i")),
    "+: takes a value or a number, not 'one'": lambda v: x(v) + "one",
    "+: takes a value or a number, not '2'": lambda v: x(v) + "2",
    "-: takes a value or a number, not None": lambda v: x(v) - None,
    "*: takes a value or a number, not [2]": lambda v: [2] * x(v),
    "/: takes a value or a number, not {}": lambda v: x(v) / {},
    "+: a constant is finite, not inf": lambda v: x(v) + float("inf"),
    "-: a constant is finite, not -inf": lambda v: float("-inf") - x(v),
    "*: a constant is finite, not nan": lambda v: float("nan") * x(v),
    "/: a constant is finite, not inf": lambda v: x(v) / float("inf"),
    "/: 0.0 has no reciprocal that is finite": lambda v: x(v) / 0,
    "/: 1e-320 has no reciprocal that is finite": lambda v: x(v) / 1e-320,
    "+: a constant is finite in float64, and this one is not": lambda v: x(v) + 10**400,
    "*: a constant is finite in float64, and this one is not": lambda v: -(10**5000) * x(v),
    "[2]: slices of neighbours are accepted, as in value[8:16]": lambda v: x(v)[2],
    "['h']: slices of neighbours are accepted, as in value[8:16]": lambda v: x(v)["h"],
    "[slice(None, None, 2)]: slices of neighbours are accepted, as in value[8:16]": lambda v: x(v)[::2],
    "[slice(None, None, -1)]: slices of neighbours are accepted, as in value[8:16]": lambda v: x(v)[::-1],
    "[3:3] of width 4 is empty": lambda v: x(v)[3:3],
    "[4:4] of width 4 is empty": lambda v: x(v)[5:9],
    "[3:1] of width 4 is empty": lambda v: x(v)[-1:1],
    "chunk: width 4 has no 3 equal parts": lambda v: x(v).chunk(3),
    "chunk: width 4 has no 0 equal parts": lambda v: x(v).chunk(0),
    "chunk: width 4 has no -2 equal parts": lambda v: x(v).chunk(-2),
    "chunk: width 4 has no 2.0 equal parts": lambda v: x(v).chunk(2.0),
    "meanChildren: takes a value of each child, as from children(); this one is the vertex's": lambda v: x(v).mean(),
    "maxChildren: takes a value of each child, as from children(); this one is the vertex's": lambda v: x(v).max(),
    "input 'not one': a name is an identifier": lambda v: v.pull("not one", 4),
    "input 3: a name is an identifier": lambda v: v.pull(3, 4),
    "input '7i': a name is an identifier": lambda v: v.pull_index("7i"),
    "input 'for': no word of Python's, and none that begins with an underscore, is accepted":
        lambda v: v.pull("for", 4),
    "input 'self': a call of the net has an argument of this name": lambda v: v.pull("self", 4),
    "input 'batch': a call of the net has an argument of this name": lambda v: v.pull("batch", 4),
    "input 'labels': a call of the net has an argument of this name": lambda v: v.pull_index("labels"),
    "input 'lr': a call of the net has an argument of this name": lambda v: v.pull("lr", 1),
    "input 'weight_decay': a call of the net has an argument of this name": lambda v: v.pull("weight_decay", 1),
    "input 'x' has the widths 4 and 3; it has one": lambda v: (x(v), x(v, 3)),
    "input 'x' has the widths 4 and 0; it has one": lambda v: (x(v), v.pull_index("x")),
    "pull 'x': a width is at least 1, not 0": lambda v: x(v, 0),
    "pull 'x': a width is at least 1, not -4": lambda v: x(v, -4),
    "pull 'x': a width is at least 1, not 4.0": lambda v: x(v, 4.0),
    "pull 'x': a width is at least 1, not '4'": lambda v: x(v, "4"),
    "pull 'x': a width is 1 to 65536, not 4294967300": lambda v: x(v, 2**32 + 4),
    "concat: a width is 1 to 65536, not 4294967292": lambda v: v.concat([x(v, 2**31 - 2), x(v, 2**31 - 2)]),
    "output 'class': no word of Python's, and none that begins with an underscore, is accepted":
        lambda v: v.push(**{"class": x(v)}),
    "output '_y': no word of Python's, and none that begins with an underscore, is accepted":
        lambda v: v.push(_y=x(v)),
    "output 'y' has the widths 4 and 2; it has one": lambda v: (v.push(y=x(v)), v.push(y=x(v)[:2])),
    "output 'a b': a name is an identifier": lambda v: v.push(**{"a b": x(v)}),
    "lookup 'plain.weight': takes an index, as from pull_index, not <a vertex's 4 numbers>":
        lambda v: v.lookup("plain.weight", x(v)),
    "lookup 'plain.weight': takes an index, as from pull_index, not 2": lambda v: v.lookup("plain.weight", 2),
    "lookup: parameter 'linear.bias' is a vector; a matrix has rows to look up":
        lambda v: v.lookup("linear.bias", v.pull_index("i")),
    f"torch's stack: no value of a vertex function is accepted there, but in {', '.join(_NAMED)}":
        lambda v: torch.stack([x(v), x(v)]),
    f"torch's relu_: no value of a vertex function is accepted there, but in {', '.join(_NAMED)}":
        lambda v: torch.relu_(x(v)),
    f"torch's __rmatmul__: no value of a vertex function is accepted there, but in {', '.join(_NAMED)}":
        lambda v: x(v) @ torch.zeros(4, 2),
    "gather: this function is for any number of children; children() gives all of them": lambda v: v.gather(0),
    "matmul: parameter 'plain.weight' is [3, 4], and x has the width 3": lambda v: v.matmul("plain.weight", x(v, 3)),
    "matmul: parameter 'linear.bias' is [3], and x has the width 4": lambda v: v.matmul("linear.bias", x(v)),
    "parameter: a name in the net's `parameters` is accepted, such as 'W.weight', not Parameter":
        lambda v: v.matmul(OWNED[-1].linear.weight, x(v)),
    "linear: a name in the net's `parameters` is accepted, such as 'W.weight', not Linear":
        lambda v: v.linear(OWNED[-1].linear, x(v)),
    "layer_norm: a name in the net's `parameters` is accepted, such as 'W.weight', not LayerNorm":
        lambda v: v.layer_norm(OWNED[-1].norm, x(v)),
    "bias: parameter 'linear.bias' is [3]; it is a vector of x's width, 4": lambda v: v.bias("linear.bias", x(v)),
    "bias: parameter 'plain.weight' is [3, 4]; it is a vector of x's width, 4": lambda v: v.bias("plain.weight", x(v)),
    "parameter 'nothing.weight': the module has none; it has cube, one, linear.weight, linear.bias, plain.weight, norm.weight, norm.bias":
        lambda v: v.linear("nothing", x(v)),
    "parameter 'cube': a tensor of 1 or 2 dimensions is accepted": lambda v: v.matmul("cube", x(v)),
    "parameter 'word': a tensor of 1 or 2 dimensions is accepted": lambda v: v.matmul("word", x(v)),
    "matmul: takes a value of this vertex function, not 5": lambda v: v.matmul("plain.weight", 5),
    "bias: takes a value of this vertex function, not None": lambda v: v.bias("linear.bias", None),
    "concat: takes at least one value": lambda v: v.concat([]),
    "concat: takes a value of this vertex function, not 1.5": lambda v: v.concat([x(v), 1.5]),
    "concat: takes a value of this vertex function, not <a vertex's 4 numbers>":
        lambda v: v.concat([x(v), other_value()]),
    "scatter: no state 'c'; the net's states: h": lambda v: v.scatter(c=x(v)),
    "scatter: state 'h' has the width 4, not 2": lambda v: v.scatter(h=x(v)[:2]),
    "scatter: takes a value of this vertex function, not 1": lambda v: v.scatter(h=1),
    "push: takes a value of this vertex function, not <a child's 4 numbers>": lambda v: v.push(y=_of_other_children()),
    "push: takes a value of this vertex function, not 'x'": lambda v: v.push(y="x"),
}  # fmt: skip


def _of_other_children():
    values = []
    ucudnn.VertexNet({"h": 4}, {"any": lambda v: (values.append(v.children().h), v.scatter(h=v.pull("x", 4)),
                                                  v.push(y=values[0].sum()))})  # fmt: skip
    return values[0]


def _declared(functions, states=None):
    return lambda: ucudnn.VertexNet({"h": 4} if states is None else states, functions, Owner())


def _many(count):
    def function(v):
        y = x(v)
        for _ in range(count - 2):
            y = y.tanh()
        v.push(y=y)

    return function


def _of(v):
    v.scatter(h=x(v))
    v.push(y=v.children().h.sum())


def _concat_too_wide(v):
    z = v.pull("z", 40000)
    v.push(y=v.concat([z, z])[:4])


def _very_long():
    owner = torch.nn.Module()
    owner.W = torch.nn.Parameter(torch.zeros(1, 1).expand(2**32 + 1, 4))
    return ucudnn.VertexNet({}, {0: lambda v: v.push(y=v.matmul("W", x(v)))}, owner)


#: Refusals when a net is made, with the whole text.
NETS = {
    "function 0, for 2 children: gather: slot 2; this function has slots 0 to 1": written(lambda v: v.gather(2), 2),
    "function 0, for 2 children: gather: slot -1; this function has slots 0 to 1": written(lambda v: v.gather(-1), 2),
    "function 0, for 2 children: gather: slot '0'; this function has slots 0 to 1": written(lambda v: v.gather("0"), 2),
    "function 0, for any children: scatter: no state 'h'; the net's states: none":
        written(lambda v: v.scatter(h=x(v)), states={}),
    "function 1, for 2 children: add: widths 4 and 3; they are equal, or one is 1":
        _declared({0: _of, 2: lambda v: x(v) + v.pull("z", 3)}),
    "function 1, for any children: input 'x' has the widths 4 and 5; it has one":
        _declared({0: _of, "any": lambda v: x(v, 5)}),
    "function 0, for 0 children: parameter 'linear.weight': the module has none; it has none":
        lambda: ucudnn.VertexNet({}, {0: lambda v: v.linear("linear", x(v))}),
    'functions: a number of slots or "any" is accepted, not -1': _declared({-1: _of}),
    'functions: a number of slots or "any" is accepted, not \'all\'': _declared({"all": _of}),
    'functions: a number of slots or "any" is accepted, not 1.0': _declared({1.0: _of}),
    'functions: a number of slots or "any" is accepted, not None': _declared([(None, _of)]),
    "functions: a vertex has at most 65535 children, not 4294967296": _declared({2**32: _of}),
    "functions: a mapping or a sequence of pairs is accepted, not 5": _declared(5),
    "functions: pairs of a number of slots and a function are accepted, not []": _declared([[]]),
    "functions: pairs of a number of slots and a function are accepted, not (0, 5)": _declared({0: 5}),
    "states: a mapping of names to widths is accepted, not 5": _declared({0: _of}, 5),
    "state 'h': a width is 1 to 65536, not 4294967297": _declared({0: _of}, {"h": 2**32 + 1}),
    "state 'h': a width is a whole number, not 2.5": _declared({0: _of}, {"h": 2.5}),
    "state 3: a name is an identifier": _declared({0: _of}, {3: 4}),
    "state '_h': no word of Python's, and none that begins with an underscore, is accepted":
        _declared({0: _of}, {"_h": 4}),
    "function 0, for 0 children: parameter 'W': a size is at most 2147483647, not 4294967297": _very_long,
    "parameters: a module is accepted, not dict": lambda: ucudnn.VertexNet({}, {0: x}, {}),
    "loss: no output []; the net's: none": lambda: ucudnn.VertexNet({}, {0: x}, loss=[]),
    "loss: no output 'scores'; the net's: y":
        lambda: ucudnn.VertexNet({}, {0: lambda v: v.push(y=x(v))}, loss="scores"),
    "loss: no output 'scores'; the net's: none": lambda: ucudnn.VertexNet({}, {0: x}, loss="scores"),
    # From the library.
    "a net has 1 to 16 functions, not 0": _declared({}),
    "functionCount is 17; 0 to 16 are accepted": _declared([("any", _of)] * 17),
    "a net has 1 to 64 outputs, not 0": written(x),
    "pushCount is 65; 0 to 64 are accepted": written(lambda v: v.push(**{f"y{n}": x(v) for n in range(65)})),
    "pullCount is 65; 0 to 64 are accepted": written(lambda v: [v.pull(f"x{n}", 4) for n in range(65)]),
    "stateCount is 9; 0 to 8 are accepted": written(_of, states={f"h{n}" if n else "h": 4 for n in range(9)}),
    "state 'h': a width is 1 to 65536, not 0": _declared({0: lambda v: v.push(y=x(v))}, {"h": 0}),
    "state 'h': a width is 1 to 65536, not -1": _declared({0: lambda v: v.push(y=x(v))}, {"h": -1}),
    "state 'h': a width is 1 to 65536, not 65537": _declared({0: lambda v: v.push(y=x(v))}, {"h": 65537}),
    "input 0: a width is 0 to 65536, not 65537": written(lambda v: v.push(y=x(v, 65537)[:4])),
    "function 0: a vertex has at most 65535 children, not 65536": written(lambda v: v.push(y=x(v)), 65536),
    "function 0: operationCount is 513; 0 to 512 are accepted": written(_many(513)),
    "function 0: operationCount is 514; 0 to 512 are accepted": written(_many(514)),
    "function 0: a function has 1 to 512 operations, not 0": _declared({0: lambda v: None, "any": _of}),
    "function 0: state 0 is not scattered; function 0 takes it from any child":
        written(lambda v: v.push(y=v.children().h.sum())),
    "function 1: state 0 is not scattered; function 0 takes it from any child":
        _declared({"any": _of, 0: lambda v: v.push(y=x(v))}),
    "function 0, operation 2: `scatter 0, %0`: state 0 is scattered by operation 1 already; once is accepted":
        written(lambda v: [v.scatter(h=y) for y in [x(v)] * 2] + [v.push(y=x(v))]),
    "function 0, operation 2: `push 0, %0`: output 0 is pushed by operation 1 already; once is accepted":
        written(lambda v: [v.push(y=y) for y in [x(v)] * 2]),
    "function 0, operation 1: `push 0, %0`: %0 is each child's; output 0 takes a value of the vertex":
        written(lambda v: v.push(y=v.children().h)),
    "function 0, operation 1: `scatter 0, %0`: %0 is each child's; state 0 takes a value of the vertex":
        written(lambda v: [v.scatter(h=v.children().h), v.push(y=x(v))]),
    "function 0, operation 1: `concat %0, %0`: a width of 80000; at most 65536 is accepted": written(_concat_too_wide),
}  # fmt: skip


def graphs(*arguments, **more):
    return lambda: ucudnn.Graphs(*arguments, **more)


def from_edges(*arguments, **more):
    return lambda: ucudnn.Graphs.from_edges(*arguments, **more)


def loader(**options):
    return lambda: ucudnn.Graphs(ONE).loader(**options)


ONE = [[[], [0]]]
LARGEST = 2**31 - 1
#: Refusals when graphs, batches or loaders are made.
GRAPHS = {
    "children of graph 0: integers are accepted, not torch.float32": graphs([[[0.5], [0.0]]]),
    "children of graph 1: integers are accepted, not torch.bool": graphs([[[]], torch.tensor([[True]])]),
    "children of graph 0: integers are accepted, not torch.complex64":
        graphs([torch.zeros(1, 1, dtype=torch.complex64)]),
    "children of graph 0: -1 to 2147483647 are accepted, not -2 to -2": graphs([[[-2]]]),
    "children of graph 0: -1 to 2147483647 are accepted, not 0 to 2147483648": graphs([[[0], [2**31]]]),
    "children of graph 0: [vertices, slots] is accepted, not [2]": graphs([torch.tensor([0, -1])]),
    "children of graph 0: [vertices, slots] is accepted, not [1, 1, 1]": graphs([[[[1]]]]),
    "children of graph 0: [vertices, slots] is accepted, not [2, 1, 0]": graphs([[[[]], [[]]]]),
    "children: a sequence of graphs is accepted, not int": graphs(5),
    "children of graph 0: an array or a sequence of sequences is accepted; object of type 'int' has no len()":
        graphs([[1, 2]]),
    "children of graph 1: an array or a sequence of sequences is accepted; object of type 'NoneType' has no len()":
        graphs([[[]], None]),
    "children has 2 rows, and counts add up to 3": graphs(torch.zeros(2, 1, dtype=torch.int64), counts=[1, 2]),
    "children: 2 dimensions are accepted, not 1": graphs([0, 1], counts=[2]),
    "counts: 1 dimensions are accepted, not 2": graphs([[-1]], counts=[[1]]),
    "counts: integers are accepted, not torch.float32": graphs([[-1]], counts=[1.0]),
    "counts: -1 to 2147483647 are accepted, not -2 to 3": graphs([[-1]], counts=[3, -2]),
    "graph 1 has 0 vertices; it has at least 1": graphs([[[]], [], [[]]]),
    "graph 0 has -1 vertices; it has at least 1": graphs([[-1]], counts=[-1, 2]),
    "graph 2 has 0 vertices; it has at least 1": from_edges([[], []], [1, 1, 0]),
    "graph 1 has -1 vertices; it has at least 1": from_edges([[0], [1]], [3, -1]),
    "graph 1 has 16777217 vertices; it has at most 16777216": from_edges([[], []], [1, 2**24 + 1]),
    "counts add up to 2147483648; at most 2147483647 vertices are accepted": from_edges([[], []], [2**24] * 128),
    'rows: None, "leaves" or an array is accepted, not \'roots\'': graphs(ONE, rows="roots"),
    "rows has 3 numbers, and there are 2 vertices": graphs(ONE, rows=[0, 1, 0]),
    "rows: 1 dimensions are accepted, not 2": graphs(ONE, rows=[[0, 1]]),
    "rows: integers are accepted, not torch.float32": graphs(ONE, rows=[0.0, 1.0]),
    "kinds has 1 numbers, and there are 2 vertices": graphs(ONE, kinds=[0]),
    "kinds: 0 to 255 are accepted, not 0 to 256": graphs(ONE, kinds=[0, 256]),
    "kinds: 0 to 255 are accepted, not -1 to 1": graphs(ONE, kinds=[1, -1]),
    "kinds: 1 dimensions are accepted, not 0": graphs(ONE, kinds=0),
    "edge_index: 2 dimensions are accepted, not 1": from_edges([0, 1], [2]),
    "edge_index is [2, edges], not [3, 1]": from_edges([[0], [1], [2]], [3]),
    "edge_index: 0 to 1 are accepted, not 0 to 2": from_edges([[0], [2]], [2]),
    "edge_index: 0 to 1 are accepted, not -1 to 0": from_edges([[-1], [0]], [2]),
    "edge_index: the edge from 1 to 2 joins two graphs": from_edges([[0, 1], [1, 2]], [2, 1]),
    "edge_index: integers are accepted, not torch.float32": from_edges([[0.0], [1.0]], [2]),
    # From the library.
    "graph 0: vertex 1, slot 0: child 2; -1 to 1 are accepted": graphs([[[], [2]]]),
    "graph 1: vertex 0, slot 1: child 5; -1 to 1 are accepted": graphs([[[]], [[1, 5], []]]),
    "graph 0: vertex 0 is its own descendant by 0 → 0": graphs([[[0]]]),
    "graph 1: vertex 1 is its own descendant by 1 → 3 → 2 → 1": graphs([[[]], [[], [3], [1], [2]]]),
    "graph 0: vertex 0 is its own descendant by 0 → 1 → 2 → 3 → 4 → 5 → 6 → 7 → … → 0":
        graphs([[[(vertex + 1) % 20] for vertex in range(20)]]),
    "graph 0: vertex 1 is its own descendant by 1 → 2 → 1": from_edges([[0, 1, 2], [1, 2, 1]], [3]),
    "graph 0: vertex 1 pulls row 2; -1 to 1 are accepted": graphs(ONE, rows=[0, 2]),
    "ids: 0 to 0 are accepted, not 0 to 1": lambda: ucudnn.Graphs(ONE).batch([0, 1]),
    "ids: 0 to 0 are accepted, not -1 to -1": lambda: ucudnn.Graphs(ONE).batch([-1]),
    "ids: 0 to -1 are accepted, not 0 to 0": lambda: ucudnn.Graphs([]).batch([0]),
    "ids: 0 to 0 are accepted, not -7 to -7": lambda: ucudnn.Graphs(ONE).batch([-7]),
    "ids: 1 dimensions are accepted, not 0": lambda: ucudnn.Graphs(ONE).batch(0),
    "ids: integers are accepted, not torch.bool": lambda: ucudnn.Graphs(ONE).batch([True]),
    "ids: 0 to 0 are accepted, not 2**63 and more":
        lambda: ucudnn.Graphs(ONE).batch(torch.tensor([2**64 - 1], dtype=torch.uint64)),
    "ids: a batch has at least one graph": lambda: ucudnn.Graphs(ONE).batch([]),
    "ids: 0 to 0 are accepted, not 3 to 3": lambda: ucudnn.Graphs(ONE).select([3]),
    "batch_size: 1 or more is accepted, not 0": loader(batch_size=0),
    "batch_size: 1 or more is accepted, not True": loader(batch_size=True),
    "batch_size: 1 or more is accepted, not 1.5": loader(batch_size=1.5),
    "prefetch_factor: 0 or more is accepted, not -1": loader(prefetch_factor=-1),
    "batch_sampler makes all batches: batch_size, shuffle, sampler and drop_last are not accepted with it":
        loader(batch_sampler=[[0]], drop_last=True),
    "batch_sampler makes all batches: batch_size, shuffle, sampler and drop_last are not accepted with it ":
        loader(batch_sampler=[[0]], batch_size=2),
    "static: batch_size says how many graphs a batch has at most; batch_sampler is not accepted with it":
        loader(batch_sampler=[[0]], static=True),
    "static: True or a number of vertices, 1 to 16777216, is accepted, not 0": loader(static=0),
    "static: True or a number of vertices, 1 to 16777216, is accepted, not None": loader(static=None),
    "sampler: what iter() takes is accepted, not int": loader(sampler=5),
    "batch_sampler: what iter() takes is accepted, not int": loader(batch_sampler=5),
    "sampler has an order: shuffle is not accepted with it": loader(sampler=[0], shuffle=True),
    "generator: a torch.Generator is accepted, not int": loader(shuffle=True, generator=1),
    "collate_fn: a function of a batch is accepted, not list": loader(collate_fn=[]),
    "device: cpu and cuda are accepted, not meta": loader(device="meta"),
    "device: cpu and cuda are accepted, not 'gpu'": loader(device="gpu"),
}  # fmt: skip


class Model(torch.nn.Module):
    def __init__(self, loss=None, arities=(0, 1)):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.table = torch.nn.Parameter(torch.zeros(5, 3))
        functions = {arity: self.vertex for arity in arities}
        self.net = ucudnn.VertexNet({}, functions, self, loss=loss)

    @staticmethod
    def vertex(v):
        v.push(y=v.linear("linear", v.pull("x", 4)) + v.lookup("table", v.pull_index("i")))

    def of(self, children=ONE, step=None, kinds=None, **inputs):
        """What calls the net with these inputs in place of right ones; or makes a step."""
        given = {"x": torch.zeros(2, 4), "i": torch.zeros(2, dtype=torch.int64)} | inputs
        given = {name: tensor for name, tensor in given.items() if tensor is not None}

        def call():
            batch = ucudnn.Graphs(children, kinds=kinds).batch([0])
            return self.net(batch, **given) if step is None else self.net.step(batch, **given, **step)

        return call


def changed(change):
    """What calls a net whose module was changed."""
    model = Model()
    change(model)
    return model.of()


def _narrow(model):
    model.linear.weight = torch.nn.Parameter(torch.zeros(3, 5))


def _mixed(model):
    model.linear.bias = torch.nn.Parameter(torch.zeros(3).half())


def _integral(model):
    model.linear.weight = torch.nn.Parameter(torch.zeros(3, 4, dtype=torch.int32), requires_grad=False)


def _elsewhere(model):
    model.linear.to("meta")


def _replaced(model):
    model.linear.bias = None


def _turned(model):
    model.linear.weight = torch.nn.Parameter(torch.zeros(4, 3).T)


STEP = {"labels": torch.tensor([0, -1]), "lr": 0.5}


def _refused_step(loss="y", change=None, **step):
    model = Model(loss)
    if change:
        change(model)
    return model.of(step=STEP | step)


#: Refusals when a net runs.
CALLS = {
    "a net is called with a batch, from Graphs.batch, not with Graphs": lambda: Model().net(ucudnn.Graphs(ONE)),
    "a net is called with a batch, from Graphs.batch, not with list": lambda: Model().net([0]),
    "inputs none were given; the net's are x, i": Model().of(x=None, i=None),
    "inputs x, i, z were given; the net's are x, i": Model().of(z=torch.zeros(1)),
    "inputs z were given; the net's are none":
        lambda: written(lambda v: [v.push(y=v.children().h.sum()), v.scatter(h=v.children().h.sum())])()(
            ucudnn.Graphs(ONE).batch([0]), z=torch.zeros(1)),
    "3 inputs in order and none by name were given; the net's are x, i":
        lambda: Model().net(ucudnn.Graphs(ONE).batch([0]), *[torch.zeros(2, 4)] * 3),
    "1 inputs in order and x by name were given; the net's are x, i":
        lambda: Model().net(ucudnn.Graphs(ONE).batch([0]), torch.zeros(2, 4), x=torch.zeros(2, 4)),
    "inputs x were given; the net's are x, i": lambda: Model().net(ucudnn.Graphs(ONE).batch([0]), torch.zeros(2, 4)),
    "x: a tensor is accepted, not list": Model().of(x=[[0.0] * 4] * 2),
    "x is of torch.sparse_coo; a dense tensor is accepted, of torch.strided": Model().of(x=torch.zeros(2, 4).to_sparse()),
    "x is a nested tensor; a dense tensor is accepted, of torch.strided":
        Model().of(x=torch.nested.nested_tensor([torch.zeros(4), torch.zeros(4)])),
    "x is [2, 5]; [2, 4] is accepted": Model().of(x=torch.zeros(2, 5)),
    "x is [3, 4]; [2, 4] is accepted": Model().of(x=torch.zeros(3, 4)),
    "x is [8]; [2, 4] is accepted": Model().of(x=torch.zeros(8)),
    "x is of torch.float64; torch.float32 is accepted here": Model().of(x=torch.zeros(2, 4).double()),
    "x is of torch.int64; torch.float32 is accepted here": Model().of(x=torch.zeros(2, 4).long()),
    "i is [2, 1]; [2] is accepted": Model().of(i=torch.zeros(2, 1).long()),
    "i is of torch.int32; torch.int64 is accepted here": Model().of(i=torch.zeros(2).int()),
    "i is of torch.float32; torch.int64 is accepted here": Model().of(i=torch.zeros(2)),
    "i: a tensor is accepted, not int": Model().of(i=3),
    "linear.weight is [3, 5]; [3, 4] is accepted": changed(_narrow),
    "linear.bias is of torch.float16; torch.float32 is accepted here": changed(_mixed),
    f"linear.weight is of torch.int32; {FLOATS} are accepted": changed(_integral),
    "linear.bias: a tensor is accepted, not NoneType": changed(_replaced),
    # From the library.
    "input 1, row 1: index 5 of parameter 2; 0 to 4 are accepted": Model().of(i=torch.tensor([0, 5])),
    "input 1, row 0: index -1 of parameter 2; 0 to 4 are accepted": Model().of(i=torch.tensor([-1, 0])),
    "graph 0: vertex 2 has 2 slots; the net's functions take 0, 1":
        Model().of([[[], [0], [0, 1]]], x=torch.zeros(3, 4), i=torch.zeros(3).long()),
    "graph 0: vertex 1 has the kind 7; the net has 2 functions": Model().of(kinds=[0, 7]),
    "graph 0: vertex 1 has 1 slots; its function 0 takes 0": Model().of(kinds=[0, 0]),
    "graph 0: vertex 1 has an empty slot; function 0, for any number of children, has none":
        Model(arities=["any"]).of([[[], [0, -1]]]),
    # Steps.
    "step: the net was made without loss=, the name of the output with the scores": _refused_step(None),
    "step: parameter 'linear.weight' is not contiguous": _refused_step(change=_turned),
    "labels: integers [2] are accepted, not torch.float32 [2]": _refused_step(labels=torch.zeros(2)),
    "labels: integers [2] are accepted, not torch.int64 [3]": _refused_step(labels=torch.zeros(3).long()),
    "labels: integers [2] are accepted, not torch.int64 [2, 1]": _refused_step(labels=torch.zeros(2, 1).long()),
    "labels: integers [2] are accepted, not torch.bool [2]": _refused_step(labels=torch.tensor([True, False])),
    "labels is of torch.sparse_coo; a dense tensor is accepted, of torch.strided":
        _refused_step(labels=torch.tensor([0, 1]).to_sparse()),
    "labels: a tensor is accepted, not list": _refused_step(labels=[0, 1]),
    "vertex 0 has the label 4294967296; -1 to 2 are accepted": _refused_step(labels=torch.tensor([2**32, 0])),
    "vertex 1 has the label -4294967296; -1 to 2 are accepted": _refused_step(labels=torch.tensor([0, -(2**32)])),
    "step: lr: a number is accepted, not str": _refused_step(lr="0.1"),
    "step: lr: a finite number that float32 holds is accepted, not inf": _refused_step(lr=10**400),
    "step: lr: a number is accepted, not Tensor": _refused_step(lr=torch.zeros(2)),
    "step: lr: a finite number that float32 holds is accepted, not 1e+39": _refused_step(lr=1e39),
    "step: weight_decay: a finite number that float32 holds is accepted, not nan":
        _refused_step(weight_decay=float("nan")),
    "vertex 1 has the label 3; -1 to 2 are accepted": _refused_step(labels=torch.tensor([0, 3])),
    "vertex 0 has the label -2; -1 to 2 are accepted": _refused_step(labels=torch.tensor([-2, 0])),
}  # fmt: skip
NOT_YET = {
    "labels is on meta; nets run on the CPU and on CUDA devices": _refused_step(labels=torch.zeros(2, dtype=int, device="meta")),
    "x is on meta; nets run on the CPU and on CUDA devices": Model().of(x=torch.zeros(2, 4, device="meta")),
    "linear.weight is on meta; nets run on the CPU and on CUDA devices": changed(_elsewhere),
}


class Whole:
    """A whole number as NumPy's are: of no type of Python's."""

    def __init__(self, number):
        self._number = number

    def __int__(self):
        return self._number

    def __lt__(self, other):
        return self._number < other

    def __gt__(self, other):
        return self._number > other

    def __le__(self, other):
        return self._number <= other

    def __ge__(self, other):
        return self._number >= other


numbers.Integral.register(Whole)


class Refusals(unittest.TestCase):
    maxDiff = None

    def refuse(self, cases, kind=Refused):
        """Cases with one text have other spaces at its end."""
        for text, case in cases.items():
            text = text.rstrip()
            with self.subTest(text):
                with self.assertRaises(ValueError) as error:
                    case()
                self.assertEqual(str(error.exception), text)
                self.assertIs(type(error.exception), kind)

    def test_vertex_functions(self):
        place = "function 0, for any children: "
        self.refuse({place + text: written(function) for text, function in FUNCTIONS.items()})

    def test_nets(self):
        self.refuse(NETS)

    def test_graphs(self):
        self.refuse(GRAPHS)

    def test_what_is_no_array(self):
        for case in (graphs([[]], counts=["one"]), from_edges([[0], [1, 2]], [2]), graphs(ONE, rows=object()),
                     lambda: ucudnn.Graphs(ONE).batch(None), lambda: ucudnn.Graphs(ONE).batch(["0"]),
                     lambda: ucudnn.Graphs(ONE).batch([2**70]),
                     lambda: ucudnn.Graphs(ONE).batch(torch.tensor([0]).to_sparse()),
                     lambda: ucudnn.Graphs(ONE).batch(torch.quantize_per_tensor(torch.zeros(1), 1, 0, torch.quint8))):  # fmt: skip
            with self.assertRaisesRegex(Refused, "^(counts|edge_index|rows|ids): no array of integers: "):
                case()

    def test_what_is_no_sequence(self):
        net = lambda *arguments: lambda: ucudnn.VertexNet(*arguments)
        of_graphs = [graphs(5), graphs(None), graphs([5]), graphs([[1, 2]]), graphs([[[0], 1]])]
        of_graphs.append(graphs([[[0], [1, "2"]]]))
        of_nets = [net({}, 5), net({}, [_of]), net({}, [[]]), net({}, [[_of]]), net(5, {}), net({}, {0: 5})]
        for place, case in enumerate([*of_graphs, *of_nets]):
            with self.subTest(place), self.assertRaises((Refused, TypeError)):
                case()

    def test_counts_of_edges(self):
        with self.assertRaises(Refused):
            from_edges([[0], [1]], [3, -1])()
        # No memory is taken for as many vertices as these.
        with self.assertRaises(Refused):
            from_edges([[], []], [2**31 - 1] * 1000)()

    def test_calls(self):
        self.refuse(CALLS)

    def test_what_is_not_supported_yet(self):
        self.refuse(NOT_YET, NotSupported)
        self.assertTrue(issubclass(NotSupported, NotImplementedError) and issubclass(NotSupported, Refused))

    def test_a_state_that_is_not_there_is_an_attribute_that_is_not_there(self):
        for take in (lambda v: v.gather(0).c, lambda v: v.children().c):
            with self.assertRaises(AttributeError) as error:
                written(take, 1)()
            self.assertEqual(str(error.exception), "the net has no state 'c'; its states: h")

    def test_an_error_of_the_user_s_own_comes_through(self):
        with self.assertRaises(ZeroDivisionError):
            written(lambda v: 1 / 0)()
        with self.assertRaises(KeyError):
            written(lambda v: {}["key"])()

    def test_a_package_has_no_other_attributes(self):
        with self.assertRaises(AttributeError) as error:
            ucudnn.nothing  # noqa: B018
        self.assertEqual(str(error.exception), "module 'ucudnn' has no attribute 'nothing'")

    def test_what_was_refused_leaves_all_as_it_was(self):
        model = Model()
        right = model.of(x=torch.ones(2, 4))
        expected = right().y
        for case in (model.of(i=torch.tensor([0, 9])), model.of(x=torch.zeros(1)), model.of([[[], [0], [0, 1]]])):
            with self.assertRaises(Refused):
                case()
            self.assertTrue(torch.equal(right().y, expected))


class Names(unittest.TestCase):
    def test_names_of_methods_are_outputs_too(self):
        net = written(lambda v: v.push(count=x(v), index=2 * x(v), batch=x(v)))()
        found = net(ucudnn.Graphs([[[]]]).batch([0]), x=torch.ones(1, 4))
        self.assertEqual(found.index.tolist(), [[2.0] * 4])


    def test_outputs_and_states_may_be_named_self(self):
        write = lambda v: (v.scatter(**{"self": x(v)}), v.push(**{"self": v.children().self.sum()}))
        found = written(write, states={"self": 4})()(ucudnn.Graphs([[[], [0]]]).batch([0]), x=torch.ones(2, 4))
        self.assertEqual(getattr(found, "self").tolist(), [[0.0] * 4, [1.0] * 4])


class Numbers(unittest.TestCase):
    """Numbers that C's types do not hold, and whole numbers that are none of Python's own."""

    def test_numbers_of_other_types_are_whole_numbers(self):
        write = lambda v: v.push(y=x(v, Whole(4)) + v.gather(0).h)
        net = written(write, Whole(1), {"h": Whole(4)})
        with self.assertRaisesRegex(Refused, "state 0 is not scattered"):
            net()
        graphs = ucudnn.Graphs([[[], [0]]] * 3)
        self.assertEqual(len(graphs.loader(Whole(2), prefetch_factor=Whole(0))), 2)
        self.assertEqual(graphs.batch([0], static=Whole(2)).most_vertices, 2)

    def test_constants(self):
        functions = (lambda v: x(v) / 0, lambda v: x(v) / 1e-320, lambda v: x(v) + 10**400, lambda v: x(v) * -(10**400))
        for place, function in enumerate(functions):
            with self.subTest(place), self.assertRaises(Refused):
                written(lambda v, function=function: v.push(y=function(v)))()

    def test_widths_and_slots(self):
        for width in (2**32 + 4, 2**31, 2**64 + 4):
            with self.subTest(width), self.assertRaises(Refused):
                written(lambda v, width=width: v.push(y=x(v, width)))()
            with self.subTest(slots=width), self.assertRaises(Refused):
                written(lambda v: v.push(y=x(v)), width)()
            with self.subTest(state=width), self.assertRaises(Refused):
                written(lambda v: v.push(y=x(v)), states={"h": width})()

    def test_widths_of_states_are_integers(self):
        for width in (2.5, "4", None):
            with self.subTest(width), self.assertRaises((Refused, TypeError)):
                written(lambda v: v.push(y=x(v)), states={"h": width})()

    def test_labels(self):
        with self.assertRaises(Refused):
            _refused_step(labels=torch.tensor([2**32, 0]))()
        with self.assertRaises((Refused, TypeError)):
            _refused_step(labels=[0, 1])()


if __name__ == "__main__":
    unittest.main()
