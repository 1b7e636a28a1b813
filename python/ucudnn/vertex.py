"""What a vertex function is written with.

A vertex function is a Python function of one argument, the vertex. It is called once, when its net is made, with a
:class:`Vertex` whose values are symbols: what it does to them becomes the net's list of operations.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import NamedTuple

from ._library import Refused

# ucudnnVertexOp_t, in the header's order: an operation's number is its place.
OPERATIONS = (
    "pull", "pullIndex", "lookup", "gather", "children", "matmul", "bias", "add", "sub", "mul", "scale", "shift",
    "sigmoid", "tanh", "relu", "exp", "sumChildren", "meanChildren", "maxChildren", "softmaxChildren", "softmax",
    "sum", "concat", "slice", "scatter", "push", "gain", "div", "maximum", "minimum", "log", "sqrt", "power",
)  # fmt: skip
# The arguments of a net's call besides its inputs.
_TAKEN = ("self", "batch", "labels", "lr", "weight_decay", "optimizer")
_NUMBER = {name: number for number, name in enumerate(OPERATIONS)}
_C_INT = range(-(2**31), 2**31)


class Operation(NamedTuple):
    """An operation of ucudnn.h: its number, the places of its inputs, its arguments, its constant."""

    op: int
    inputs: tuple[int, ...] = ()
    arguments: tuple[int, ...] = ()
    constant: float = 0.0


class Value:
    """A vector of the vertex, or one of each child.

    `+`, `-`, `*` and `/` work element by element, with numbers too, and with vectors among the parameters; but no vector
    divides a value. `**` takes a number. `x[8:16]` is the value of these elements. A value of the vertex that meets a child's
    is used for every child. Widths are equal where they meet, or one of them is 1 and is used for every element. What does
    not fit raises :class:`ucudnn.Refused`.

    PyTorch's functions take values: `torch.tanh(x)`, `torch.cat([x, y], -1)`, `self.W(x)` with an `nn.Linear`. To them, a
    vertex's value is [width], and a child's [children, width]. What a net does not have is refused.
    """

    __slots__ = ("_function", "_place", "width", "is_of_children")
    __array_ufunc__ = None  # a NumPy number on the left leaves the work to these methods

    def __init__(self, function: Vertex, place: int, width: int, is_of_children: bool):
        self._function, self._place = function, place
        #: The number of elements.
        self.width = width
        #: Whether each child has one.
        self.is_of_children = is_of_children

    def __repr__(self):
        return f"<a {'child' if self.is_of_children else 'vertex'}'s {self.width} numbers>"

    def __getattr__(self, name: str):
        names = ", ".join(name for name in dir(type(self)) if not name.startswith("_"))
        raise AttributeError(f"a value of a vertex function has no {name!r}; it has {names}")

    def __len__(self):
        return self.width

    def __bool__(self):
        raise Refused("a value is known only when the net runs: a vertex function cannot depend on it")

    def __eq__(self, other):
        return bool(self)

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = object.__hash__

    def __iter__(self):
        raise Refused("a value has no elements to go through: use chunk, or a slice")

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        from ._functions import call  # needs torch

        return call(function, arguments, keywords or {})

    def _apply(self, name: str, width: int | None = None, is_of_children: bool | None = None, **more) -> Value:
        of_children = self.is_of_children if is_of_children is None else is_of_children
        return self._function._value(name, self.width if width is None else width, of_children, [self], **more)

    def _with(self, name: str, other: Value) -> Value:
        if other._function is not self._function:
            raise Refused(f"{name}: the two values belong to different vertex functions")
        if self.width != other.width and 1 not in (self.width, other.width):
            raise Refused(f"{name}: widths {self.width} and {other.width}; they are equal, or one is 1")
        of_children = self.is_of_children or other.is_of_children
        return self._function._value(name, max(self.width, other.width), of_children, [self, other])

    def _named(self, what: str, other) -> str | None:
        """The name of a parameter; None for what is no tensor, and for a tensor that is a number."""
        return self._function._named(what, other, may_be_number=True) if hasattr(other, "numel") else None

    def __add__(self, other: Value | float) -> Value:
        if isinstance(other, Value):
            return self._with("add", other)
        if name := self._named("+", other):
            return self._function.bias(name, self)
        number = _number("+", other)
        return self if number == 0 else self._apply("shift", constant=number)  # so sum() begins with a value

    __radd__ = __add__

    def __sub__(self, other: Value | float) -> Value:
        if isinstance(other, Value):
            return self._with("sub", other)
        return -(-self + other) if self._named("-", other) else self + -_number("-", other)

    def __rsub__(self, other: float) -> Value:
        return -self + (other if self._named("-", other) else _number("-", other))

    def __neg__(self) -> Value:
        return self * -1.0

    def __mul__(self, other: Value | float) -> Value:
        if isinstance(other, Value):
            return self._with("mul", other)
        if name := self._named("*", other):
            return self._function.gain(name, self)
        return self._apply("scale", constant=_number("*", other))

    __rmul__ = __mul__

    def __truediv__(self, other: Value | float) -> Value:
        if isinstance(other, Value):
            return self._with("div", other)
        if name := self._named("/", other):
            raise Refused(f"/: no parameter divides a value, and so not {name!r}; keep its reciprocal, and multiply")
        number = _number("/", other)
        if number == 0 or math.isinf(1.0 / number):
            raise Refused(f"/: {number} has no reciprocal that is finite")
        return self * (1.0 / number)

    def __rtruediv__(self, other: float) -> Value:
        return self**-1 * (other if self._named("/", other) else _number("/", other))

    def __pow__(self, exponent: float) -> Value:
        if isinstance(exponent, Value) or self._named("**", exponent):
            raise Refused("**: a constant exponent is accepted; (y * x.log()).exp() is x to the power of a value")
        number = _number("**", exponent)
        if number in (1, 2):
            return self if number == 1 else self * self
        return self.sqrt() if number == 0.5 else self._apply("power", constant=number)

    def __rpow__(self, other: float) -> Value:
        raise Refused("**: a constant exponent is accepted; (x * log(number)).exp() is a number to the power of x")

    def maximum(self, other: Value) -> Value:
        """The greater of two values, element by element. Where they are equal, each gets half of the gradient."""
        return self._with("maximum", self._function._taken("maximum", other))

    def minimum(self, other: Value) -> Value:
        """The lesser of two values, element by element. Where they are equal, each gets half of the gradient."""
        return self._with("minimum", self._function._taken("minimum", other))

    def __getitem__(self, key: slice) -> Value:
        if not isinstance(key, slice) or key.step not in (None, 1):
            raise Refused(f"[{key!r}]: slices of neighbours are accepted, as in value[8:16]")
        first, end, _ = key.indices(self.width)
        if end <= first:
            raise Refused(f"[{first}:{end}] of width {self.width} is empty")
        return self._apply("slice", end - first, arguments=(first, end - first))

    def chunk(self, chunks: int) -> tuple[Value, ...]:
        """Cuts the value into so many parts of equal width."""
        if not isinstance(chunks, int) or chunks < 1 or self.width % chunks:
            raise Refused(f"chunk: width {self.width} has no {chunks!r} equal parts")
        width = self.width // chunks
        return tuple(self[part * width : (part + 1) * width] for part in range(chunks))

    def sigmoid(self) -> Value:
        """1 / (1 + exp(-x))"""
        return self._apply("sigmoid")

    def tanh(self) -> Value:
        """tanh(x)"""
        return self._apply("tanh")

    def relu(self) -> Value:
        """max(x, 0)"""
        return self._apply("relu")

    def exp(self) -> Value:
        """exp(x)"""
        return self._apply("exp")

    def log(self) -> Value:
        """The logarithm to the base e."""
        return self._apply("log")

    def sqrt(self) -> Value:
        """The square root."""
        return self._apply("sqrt")

    def sum(self) -> Value:
        """A child's value: the sum over the children. The vertex's: the sum of its elements, of width 1."""
        return self._over_children("sumChildren") if self.is_of_children else self._apply("sum", 1)

    def mean(self) -> Value:
        """The mean over the children; zeros without children, as for the sum and the greatest."""
        return self._over_children("meanChildren")

    def max(self) -> Value:
        """The greatest over the children, element by element. The first child that has it gets the gradient."""
        return self._over_children("maxChildren")

    def softmax(self) -> Value:
        """A child's value: exp(x) over its sum over the children, element by element; a value of each child. The
        vertex's: exp(x) over its sum over the elements."""
        return self._apply("softmaxChildren" if self.is_of_children else "softmax")

    def sum_elements(self) -> Value:
        """The sum of the elements, of width 1, of each child or of the vertex."""
        return self._apply("sum", 1)

    def softmax_elements(self) -> Value:
        """exp(x) over its sum over the elements, of each child or of the vertex."""
        return self._apply("softmax")

    def _over_children(self, name: str) -> Value:
        if not self.is_of_children:
            raise Refused(f"{name}: takes a value of each child, as from children(); this one is the vertex's")
        return self._apply(name, is_of_children=False)


class Index:
    """An index of the vertex, from :meth:`ucudnn.Vertex.pull_index`."""

    __slots__ = ("_function", "_place")
    __torch_function__ = Value.__torch_function__

    def __init__(self, function: Vertex, place: int):
        self._function, self._place = function, place

    def __repr__(self):
        return "<an index>"


class States:
    """States of a child, or of each child: an attribute for each state of the net, a :class:`ucudnn.Value` of its width."""

    def __init__(self, vertex: Vertex, made: Callable[[int, int], Value]):
        self._vertex, self._made = vertex, made
        self._values: dict[str, Value] = {}

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):  # a copy has none of its own yet
            raise AttributeError(name)
        states = self._vertex._net.states
        if name not in states:
            raise AttributeError(f"the net has no state {name!r}; its states: {', '.join(states) or 'none'}")
        if name not in self._values:
            self._values[name] = self._made(list(states).index(name), states[name])
        return self._values[name]

    def __dir__(self) -> list[str]:
        return list(self._vertex._net.states)


class Symbols:
    """What the vertex functions of a net share: its states, and the inputs, outputs and parameters that they name."""

    def __init__(self, states: Mapping[str, int], owner):
        try:
            self.states = dict(states)
        except (TypeError, ValueError):
            raise Refused(f"states: a mapping of names to widths is accepted, not {states!r}") from None
        for name, width in self.states.items():
            _check_name("state", name)
            if not isinstance(width, Integral):  # NumPy's too
                raise Refused(f"state {name!r}: a width is a whole number, not {width!r}")
            if not 1 <= width <= 65536:
                raise Refused(f"state {name!r}: a width is 1 to 65536, not {width}")
            self.states[name] = int(width)
        #: The module of the parameters: `named(name)`, `size(name)` and `name_of(tensor)`.
        self.owner = owner
        self.pulls: dict[str, int] = {}  # widths; 0 for indices
        self.pushes: dict[str, int] = {}
        self.parameters: dict[str, tuple[int, int]] = {}  # rows, columns; 0 columns for a vector

    def parameter(self, name: str) -> tuple[int, tuple[int, int]]:
        """The number and the size of a parameter."""
        _check_named("parameter", name)
        if name not in self.parameters:
            size = self.owner.size(name)
            if size is None:
                raise Refused(f"parameter {name!r}: the module does without it")
            self.parameters[name] = size
        return list(self.parameters).index(name), self.parameters[name]

    @staticmethod
    def named(what: str, of: dict[str, int], name: str, width: int) -> int:
        """The number of an input or output."""
        _check_name(what, name)
        if what == "input" and name in _TAKEN:
            raise Refused(f"{what} {name!r}: a call of the net has an argument of this name")
        if of.setdefault(name, width) != width:
            raise Refused(f"{what} {name!r} has the widths {of[name]} and {width}; it has one")
        return list(of).index(name)


class Vertex:
    """The vertex whose function is written: what the function is called with.

    A parameter is named as the net's module names it: "W.weight", or "table" for one of its own. x is a value of the
    vertex, or one of each child, and so is the result then. A width is a number of elements, 1 to 65,536.

    Raises :class:`ucudnn.Refused` for a name that the module or the net does not have, a width that does not fit, and a value
    of another function.
    """

    def __init__(self, net: Symbols, children: int):
        self._net = net
        self._slots: dict[int, States] = {}
        self._children: States | None = None
        #: The number of slots for children; -1 for any number of children.
        self.children_count = children
        # The operations so far.
        self.operations: list[Operation] = []

    def _add(self, name: str, inputs: Sequence[int] = (), arguments: Sequence[int] = (), constant: float = 0.0) -> int:
        self.operations.append(Operation(_NUMBER[name], tuple(inputs), tuple(arguments), constant))
        return len(self.operations) - 1

    def _value(self, name, width, is_of_children, inputs=(), arguments=(), constant=0.0) -> Value:
        place = self._add(name, [value._place for value in inputs], arguments, constant)
        return Value(self, place, width, is_of_children)

    def _taken(self, what: str, value: Value) -> Value:
        if not isinstance(value, Value) or value._function is not self:
            raise Refused(f"{what}: takes a value of this vertex function, not {value!r}")
        return value

    def _named(self, what: str, tensor, may_be_number: bool = False) -> str | None:
        """The name of a parameter that PyTorch hands over as a tensor; None for a tensor that is a number."""
        if name := self._net.owner.name_of(tensor):
            return name
        if may_be_number and tensor.numel() == 1 and not tensor.requires_grad:
            return None
        raise Refused(f"{what}: takes a parameter of the module in the net's `parameters`, and no other tensor")

    def pull(self, name: str, width: int) -> Value:
        """The vertex's row of an input, [width]; zeros where it has none. The net is called with `name=tensor`, of shape
        [rows of the batch, width]."""
        if not isinstance(width, Integral) or width < 1:
            raise Refused(f"pull {name!r}: a width is at least 1, not {width!r}")
        width = int(width)
        check_held(f"pull {name!r}: a width is 1 to 65536", width)
        return self._value("pull", width, False, arguments=[self._net.named("input", self._net.pulls, name, width)])

    def pull_index(self, name: str) -> Index:
        """The vertex's index in an input of torch.int64, [rows of the batch]."""
        return Index(self, self._add("pullIndex", arguments=[self._net.named("input", self._net.pulls, name, 0)]))

    def lookup(self, parameter: str, index: Index) -> Value:
        """The row of a matrix [rows, columns] that the index names, [columns]; zeros where the vertex has no index."""
        if not isinstance(index, Index):
            raise Refused(f"lookup {parameter!r}: takes an index, as from pull_index, not {index!r}")
        number, (_, columns) = self._net.parameter(parameter)
        if columns == 0:
            raise Refused(f"lookup: parameter {parameter!r} is a vector; a matrix has rows to look up")
        return Value(self, self._add("lookup", [index._place], [number]), columns, False)

    def gather(self, slot: int) -> States:
        """The states of the child in a slot, from 0 on, as attributes: `v.gather(0).h`. Zeros where the slot is empty. A
        function for any number of children has no slots."""
        if self.children_count < 0:
            raise Refused("gather: this function is for any number of children; children() gives all of them")
        if not isinstance(slot, int) or not 0 <= slot < self.children_count:
            raise Refused(f"gather: slot {slot!r}; this function has slots 0 to {self.children_count - 1}")
        if slot not in self._slots:
            made = lambda state, width: self._value("gather", width, False, arguments=[slot, state])
            self._slots[slot] = States(self, made)
        return self._slots[slot]

    def children(self) -> States:
        """The states of each child, as attributes: a value [width] of each. An empty slot is no child: sum, mean, max
        and softmax over the children leave it out."""
        if self._children is None:
            self._children = States(self, lambda state, width: self._value("children", width, True, arguments=[state]))
        return self._children

    def matmul(self, parameter: str, x: Value) -> Value:
        """A matrix [rows, columns] times x [columns]: a value [rows]."""
        number, (rows, columns) = self._net.parameter(parameter)
        if self._taken("matmul", x).width != columns:
            raise Refused(f"matmul: parameter {parameter!r} is {_size(rows, columns)}, and x has the width {x.width}")
        return self._value("matmul", rows, x.is_of_children, [x], [number])

    def bias(self, parameter: str, x: Value) -> Value:
        """x plus a vector of x's width."""
        return self._with_vector("bias", parameter, x)

    def gain(self, parameter: str, x: Value) -> Value:
        """x times a vector of x's width, element by element."""
        return self._with_vector("gain", parameter, x)

    def _with_vector(self, name: str, parameter: str, x: Value) -> Value:
        number, (rows, columns) = self._net.parameter(parameter)
        if columns != 0 or self._taken(name, x).width != rows:
            raise Refused(f"{name}: parameter {parameter!r} is {_size(rows, columns)}; it is a vector of x's width, {x.width}")
        return self._value(name, rows, x.is_of_children, [x], [number])

    def linear(self, module: str, x: Value) -> Value:
        """What a torch.nn.Linear of this name does: its weight times x, plus its bias if it has one."""
        _check_named("linear", module)
        y = self.matmul(f"{module}.weight", x)
        return self.bias(f"{module}.bias", y) if self._net.owner.size(f"{module}.bias") else y

    def layer_norm(self, module: str, x: Value) -> Value:
        """What a torch.nn.LayerNorm of this name does over the elements (Ba et al., 2016, equation 4): (x - mean) /
        sqrt(variance + eps), times its weight, plus its bias, as far as it has them."""
        _check_named("layer_norm", module)
        its = self._net.owner.named(module)
        shape, width = list(getattr(its, "normalized_shape", ())), self._taken("layer_norm", x).width
        if shape != [width]:
            raise Refused(f"layer_norm {module!r}: a LayerNorm of [{width}] is accepted, not one of {shape or 'no shape'}")
        names = [f"{module}.{name}" for name in ("weight", "bias")]
        return self._normalized(x, *(name if self._net.owner.size(name) else None for name in names), its.eps)

    def _normalized(self, x: Value, gain: str | None, bias: str | None, eps: float) -> Value:
        distance = x - x.sum_elements() / x.width
        variance = (distance * distance).sum_elements() / x.width
        y = distance / (variance + eps).sqrt()
        y = self.gain(gain, y) if gain else y
        return self.bias(bias, y) if bias else y

    def concat(self, values: Sequence[Value]) -> Value:
        """The values one behind the other, as wide as all together. With a child's value among them it is a value of each
        child."""
        values = [self._taken("concat", value) for value in values]
        if not values:
            raise Refused("concat: takes at least one value")
        joined = values[0]
        for value in values[1:]:
            of_children = joined.is_of_children or value.is_of_children
            check_held("concat: a width is 1 to 65536", joined.width + value.width)
            joined = self._value("concat", joined.width + value.width, of_children, [joined, value])
        return joined

    def scatter(self, /, **states: Value) -> None:
        """Hands states on to the parents, each a value of the state's width: `v.scatter(h=h, c=c)`."""
        for name, value in states.items():
            if name not in self._net.states:
                raise Refused(f"scatter: no state {name!r}; the net's states: {', '.join(self._net.states) or 'none'}")
            width = self._net.states[name]
            if self._taken("scatter", value).width != width:
                raise Refused(f"scatter: state {name!r} has the width {width}, not {value.width}")
            self._add("scatter", [value._place], [list(self._net.states).index(name)])

    def push(self, /, **outputs: Value) -> None:
        """Gives outputs to the outside: each is an attribute of what the net returns, [vertices of the batch, width]. A
        vertex whose function does not push it has zeros there."""
        for name, value in outputs.items():
            number = self._net.named("output", self._net.pushes, name, self._taken("push", value).width)
            self._add("push", [value._place], [number])


def _size(rows: int, columns: int) -> str:
    """A parameter's size; a vector has no columns."""
    return f"[{rows}, {columns}]" if columns else f"[{rows}]"


def check_held(accepted: str, number: int) -> None:
    """Refuses a number that C's int does not hold; ctypes would cut it. The library checks the others."""
    if number not in _C_INT:
        raise Refused(f"{accepted}, not {number}")


def _check_named(what: str, name: str) -> None:
    if not isinstance(name, str):
        raise Refused(f"{what}: a name in the net's `parameters` is accepted, such as 'W.weight', not {type(name).__name__}")


def _check_name(what: str, name: str) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise Refused(f"{what} {name!r}: a name is an identifier")
    if keyword.iskeyword(name) or name.startswith("_"):
        raise Refused(f"{what} {name!r}: no word of Python's, and none that begins with an underscore, is accepted")


def _number(what: str, number: float) -> float:
    try:
        if isinstance(number, (str, bytes)):
            raise TypeError  # float would read it
        number = float(number)
    except OverflowError:  # an integer, whose digits may be too many to show
        raise Refused(f"{what}: a constant is finite in float64, and this one is not") from None
    except (TypeError, ValueError):
        raise Refused(f"{what}: takes a value or a number, not {number!r}") from None
    if not math.isfinite(number):
        raise Refused(f"{what}: a constant is finite, not {number}")
    return number
