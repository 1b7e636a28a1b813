"""PyTorch's functions, called with values of a vertex function: each becomes operations of the net."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._library import Refused
from .vertex import OPERATIONS, Index, Value

#: In these modules and classes, a function's name says what the function computes.
_HOMES = (torch, torch.nn.functional, torch.Tensor, torch._C._nn)


def call(function: Callable[..., Any], arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """What a function of PyTorch's makes of these arguments, some of which are values."""
    name = getattr(function, "__name__", str(function))
    is_torchs = any(getattr(home, name, None) is function for home in _HOMES)
    of_values = _FUNCTIONS.get(name[2:-2] if name.endswith("__") else name) if is_torchs else None
    if of_values is None:
        raise Refused(f"torch's {name}: no value of a vertex function is accepted there, but in {', '.join(_NAMED)}")
    signature = inspect.signature(of_values)
    try:
        signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise Refused(f"torch's {name} of values: {signature} is accepted: {error}") from None
    return of_values(*arguments, **keywords)


def _as_given(name, **given):
    """Refuses arguments that ask for more than the function's value."""
    for argument, value in given.items():
        if value:
            raise Refused(f"torch's {name} of values: no {argument} is accepted")


def _value(name, x):
    if not isinstance(x, Value):
        raise Refused(f"torch's {name} of values: a value is accepted, not {type(x).__name__}")
    return x


def _is_over_children(name, x, dim):
    """Whether `dim` goes over the children. A vertex's value is [width], and a child's [children, width]."""
    count = 2 if _value(name, x).is_of_children else 1
    if not isinstance(dim, int) or not -count <= dim < count:
        sizes = f"[children, {x.width}]" if count == 2 else f"[{x.width}]"
        raise Refused(f"torch's {name} of values: dim {dim!r} of a value of {sizes}; {-count} to {count - 1} are accepted")
    return dim % count < count - 1


def _over_elements(name, x, dim):
    if _is_over_children(name, x, dim):
        raise Refused(f"torch's {name} of values: over the elements alone is accepted, dim=-1")
    return x


def _of_one(name):
    def of_one(input, *, inplace=False, out=None):
        _as_given(name, inplace=inplace, out=out is not None)
        return getattr(_value(name, input), name)()

    return of_one


def _of_two(name, forward, reflected):
    """An operator; `reflected` is its method where the tensor or the number stands on the left."""

    def of_two(input, other, *, alpha=1, rounding_mode=None, out=None):
        _as_given(name, alpha=alpha != 1, rounding_mode=rounding_mode, out=out is not None)
        if isinstance(input, Value):
            return getattr(input, forward)(other)
        return getattr(_value(name, other), reflected)(input)

    return of_two


def _pow(input, exponent, *, out=None):
    return _POWER(input, exponent, out=out)


def _square(input):
    return _value("square", input) * input


def _sum(input, dim=None, keepdim=False, *, dtype=None, out=None):
    return _reduced("sum", input, dim, keepdim, dtype, out)


def _mean(input, dim=None, keepdim=False, *, dtype=None, out=None):
    return _reduced("mean", input, dim, keepdim, dtype, out)


def _reduced(name, x, dim, keepdim, dtype, out):
    """The sum or the mean, over all without `dim`."""
    _as_given(name, dtype=dtype, out=out is not None)
    if dim is not None and _is_over_children(name, x, dim):
        if keepdim:
            raise Refused(f"torch's {name} of values: keepdim=False is accepted over the children: a vertex's value is left")
        return getattr(x, name)()
    over_elements = _value(name, x).sum_elements() if name == "sum" else x.sum_elements() / x.width
    if not x.is_of_children:
        return over_elements
    if dim is None:
        return getattr(over_elements, name)()
    if not keepdim:
        raise Refused(f"torch's {name} of values: keepdim=True is accepted: a value of each child keeps its elements' axis")
    return over_elements


def _softmax(input, dim=None, _stacklevel=3, dtype=None):
    # torch.softmax has the type in the third place.
    _as_given("softmax", dtype=dtype or isinstance(_stacklevel, torch.dtype))
    return input.softmax() if _is_over_children("softmax", input, dim) else input.softmax_elements()


def _cat(tensors, dim=0, *, out=None):
    _as_given("cat", out=out is not None)
    values = [value for value in tensors if isinstance(value, Value)]
    _over_elements("cat", next((value for value in values if value.is_of_children), values[0]), dim)
    return values[0]._function.concat(tensors)


def _chunk(input, chunks, dim=0):
    return _over_elements("chunk", input, dim).chunk(chunks)


def _split(tensor, split_size_or_sections, dim=0):
    x, sizes = _over_elements("split", tensor, dim), split_size_or_sections
    if isinstance(sizes, int) and sizes > 0:
        sizes = [min(sizes, x.width - first) for first in range(0, x.width, sizes)]
    if not isinstance(sizes, Sequence) or not all(isinstance(size, int) and size > 0 for size in sizes) or sum(sizes) != x.width:
        raise Refused(f"torch's split of values: parts that make up a width of {x.width} are accepted, not {sizes!r}")
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    return tuple(x[end - size : end] for end, size in zip(ends, sizes, strict=True))


def _linear(input, weight, bias=None):
    vertex = _value("linear", input)._function
    y = vertex.matmul(vertex._named("linear", weight), input)
    return y if bias is None else vertex.bias(vertex._named("linear", bias), y)


def _matmul(input, other, *, out=None):
    _as_given("matmul", out=out is not None)
    if not isinstance(other, Value) or isinstance(input, Value):
        raise Refused("torch's matmul of values: a matrix among the parameters times a value is accepted")
    if other.is_of_children:
        raise Refused("torch's matmul of values: a value of the vertex is accepted; linear takes those of children")
    return other._function.matmul(other._function._named("matmul", input), other)


def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    x = _value("layer_norm", input)
    if list(normalized_shape) != [x.width]:
        raise Refused(f"torch's layer_norm of values: a shape of [{x.width}] is accepted, not {list(normalized_shape)}")
    names = [None if tensor is None else x._function._named("layer_norm", tensor) for tensor in (weight, bias)]
    return x._function._normalized(x, *names, eps)


def _embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if not isinstance(input, Index):
        raise Refused("torch's embedding of values: an index is accepted, as from pull_index")
    _as_given("embedding", padding_idx=padding_idx is not None, max_norm=max_norm is not None,
              scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)  # fmt: skip
    return input._function.lookup(input._function._named("embedding", weight), input)


def _dropout(input, p=0.5, training=True, inplace=False, *, train=None):
    # torch.dropout has another name for it.
    if (training if train is None else train) and p:
        raise Refused("torch's dropout of values: a net draws no random numbers; apply it to what is pulled and pushed")
    return input


_OPERATORS = {
    "add": ("__add__", "__radd__"), "sub": ("__sub__", "__rsub__"), "mul": ("__mul__", "__rmul__"),
    "div": ("__truediv__", "__rtruediv__"), "maximum": ("maximum", "maximum"), "minimum": ("minimum", "minimum"),
}  # fmt: skip
_POWER = _of_two("pow", "__pow__", "__rpow__")
#: Other names of the same functions.
_AGAIN = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "truediv": "div", "concat": "cat",
    "concatenate": "cat", "negative": "neg",
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _of_one(name) for name in OPERATIONS if hasattr(Value, name) and name not in ("sum", "softmax", *_OPERATORS)},
    **{name: _of_two(name, *methods) for name, methods in _OPERATORS.items()},
    "pow": _pow, "neg": lambda input: -_value("neg", input), "square": _square,
    "reciprocal": lambda input: 1.0 / _value("reciprocal", input),
    "rsqrt": lambda input: 1.0 / _value("rsqrt", input).sqrt(),
    "sum": _sum, "mean": _mean, "softmax": _softmax, "cat": _cat, "chunk": _chunk, "split": _split, "linear": _linear,
    "matmul": _matmul, "mv": lambda input, vec, *, out=None: _matmul(input, vec, out=out), "layer_norm": _layer_norm,
    "embedding": _embedding, "dropout": _dropout,
}  # fmt: skip
#: The names that a message gives.
_NAMED = sorted(_FUNCTIONS)
_FUNCTIONS |= {name: _FUNCTIONS[same] for name, same in _AGAIN.items()}
# A tensor on the right: its operator is asked when the value's has not answered.
_FUNCTIONS |= {f"r{name}": functools.partial(lambda of_two, input, other: of_two(other, input), _FUNCTIONS[name])
               for name in _OPERATORS}  # fmt: skip
