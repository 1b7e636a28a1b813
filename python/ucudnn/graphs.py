"""Input graphs and batches of them."""

from __future__ import annotations

import array
import contextlib
import ctypes
import itertools
import json
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch

from . import _library
from ._kept import Kept
from ._library import Refused

if TYPE_CHECKING:
    from .loader import Loader

_LARGEST = 2**31 - 1
#: The most vertices of a graph.
_MOST_VERTICES = 1 << 24

#: Where all that describes graphs is, whatever PyTorch's default device is.
_CPU = torch.device("cpu")

#: So many numbers Python adds up, compares and counts on from sooner than torch does: each call there takes microseconds.
_FEW = 8

_NO_GRAPHS = "ids: a batch has at least one graph"

#: The batches, for the operators. A tensor also has a number that tells the graphs of its batch from others.
BATCHES = Kept("a batch")


def prepared_of(tensor):
    """The batch of a tensor. Refuses one that was set to other graphs since."""
    prepared, chosen = BATCHES.find(tensor)
    if prepared.chosen != chosen:
        raise Refused(
            "the batch was set to other graphs since this run forward, whose gradients are those of the graphs that it "
            "had: run backward before set(), or let each run that waits have a batch of its own"
        )
    return prepared


def _integers(what, numbers, dimensions=None, least=-1, most=_LARGEST):
    """A tensor of torch.int64 on the CPU, whose numbers are in a range."""
    if type(numbers).__module__ == "numpy" and getattr(getattr(numbers, "dtype", None), "kind", "") in ("i", "u"):
        # torch takes neither another order of bytes nor one that runs backwards.
        numbers = numbers.astype(numbers.dtype.newbyteorder("="), order="C")
    if type(numbers) is list and set(map(type, numbers)) == {int}:
        with contextlib.suppress(OverflowError):  # torch takes three times as long for these
            numbers = torch.frombuffer(array.array("q", numbers), dtype=torch.int64)
    try:
        tensor = torch.as_tensor(numbers, device=_CPU)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise Refused(f"{what}: no array of integers: {error}") from None
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise Refused(f"{what}: no array of integers: a tensor of {tensor.dtype} and {tensor.layout}")
    if tensor.numel() == 0:
        tensor = tensor.long()
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool:
        raise Refused(f"{what}: integers are accepted, not {tensor.dtype}")
    if dimensions is not None and tensor.dim() != dimensions:
        raise Refused(f"{what}: {dimensions} dimensions are accepted, not {tensor.dim()}")
    is_unsigned = tensor.dtype == torch.uint64
    if tensor.dtype != torch.int64:  # asking for what it is takes a microsecond
        tensor = tensor.to(torch.int64)
    tensor = tensor.contiguous()
    if is_unsigned and bool((tensor < 0).any()):  # 2**63 and more became negative
        raise Refused(f"{what}: {least} to {most} are accepted, not 2**63 and more")
    _check_range(what, tensor, least, most)
    return tensor


def _check_range(what, integers, least, most):
    if count := integers.numel():
        if count <= _FEW and integers.dim() == 1:
            numbers = integers.tolist()
            low, high = min(numbers), max(numbers)
        else:
            low, high = map(int, torch.aminmax(integers))
        if not least <= low <= high <= most:
            raise Refused(f"{what}: {least} to {most} are accepted, not {low} to {high}")


def _starts(counts):
    """[n + 1] The sums of the numbers before each, and of all."""
    return torch.cat([torch.zeros(1, dtype=torch.int64, device=_CPU), counts.cumsum(0)])


def _ranges(starts, counts):
    """starts[0], starts[0] + 1, … of counts[0] numbers, then those of the next; of tensors, or of lists of a few.
    (repeat_interleave would wake all of torch's threads, for whatever number.)"""
    if len(counts) <= _FEW:
        lists = (its if isinstance(its, list) else its.tolist() for its in (starts, counts))
        ranges = [torch.arange(start, start + count, device=_CPU) for start, count in zip(*lists, strict=True)]
        return ranges[0] if len(ranges) == 1 else torch.cat(ranges) if ranges else starts
    # Each number is the one before it and 1 more; where a range begins, it jumps. Ranges of none begin where the next does.
    ends = counts.cumsum(0)
    begins = ends - counts
    steps = torch.ones(int(ends[-1]) + 1, dtype=torch.int64, device=_CPU)
    steps[0] = 0
    steps.index_add_(0, begins, (starts - begins).diff(prepend=torch.zeros(1, dtype=torch.int64, device=_CPU)))
    return steps.cumsum_(0)[:-1]  # fresh memory would cost a page fault for each 4 KiB


def _repeated(values, counts):
    """values[0], counts[0] times, then the next. (repeat_interleave would hang in a forked child: it takes torch's
    threads, for whatever number.)"""
    total = int(counts.sum())
    return values[torch.bincount(counts.cumsum(0), minlength=total + 1).cumsum(0)[:total]]


# Bytes are pickled, no tensors. torch would share the memory of a tensor by a file's number; a tensor that is made to be
# pickled is gone, and its number closed, before a spawned worker gets it. And a process has few open files.


def _bytes(tensor):
    return None if tensor is None else ctypes.string_at(tensor.data_ptr(), tensor.nbytes)


def _tensor(data, dtype):
    if data is None:
        return None
    return torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.zeros(0, dtype=dtype, device=_CPU)


def _check_counts(counts):
    """Refuses numbers of vertices before memory is taken for them."""
    if counts.numel() and int(counts.min()) < 1:
        raise Refused(f"graph {int(counts.argmin())} has {int(counts.min())} vertices; it has at least 1")
    if counts.numel() and int(counts.max()) > _MOST_VERTICES:
        raise Refused(f"graph {int(counts.argmax())} has {int(counts.max())} vertices; it has at most {_MOST_VERTICES}")
    if int(counts.sum()) > _LARGEST:
        raise Refused(f"counts add up to {int(counts.sum())}; at most {_LARGEST} vertices are accepted")


class Graphs:
    """Input graphs, checked and levelled once. Edges go from child to parent.

    children: an array [vertices, slots] for each graph, of the children's numbers in the graph; -1 is an empty slot, and
    a row of -1 alone is a leaf, a vertex without slots. Or a sequence of sequences for each graph: the children of each
    vertex, of any number. Or, with `counts`, one array [all vertices, slots] for all graphs.

    rows: which row of the graph's inputs each vertex pulls. None: each its own. "leaves": the vertices without slots
    pull, in their order. Or an array [all vertices] of rows in the graph, -1 for none.

    kinds: the number of each vertex's function, an array [all vertices]. None: the number of its slots decides.

    counts: the number of vertices of each graph, [graphs].

    Arrays are lists, NumPy's or torch's, of integers of any type, and are copied. Raises :class:`ucudnn.Refused` for
    what is no array of integers, a number out of range, or a cycle.
    """

    def __init__(self, children: Any, *, rows: Any = None, kinds: Any = None, counts: Any = None):
        if counts is None:
            counts, slots, flat = _flattened(children)
        else:
            counts, table = _integers("counts", counts, 1), _integers("children", children, 2)
            if len(table) != int(counts.sum()):
                raise Refused(f"children has {len(table)} rows, and counts add up to {int(counts.sum())}")
            slots, flat = _of_table(table)
        if rows is not None and not isinstance(rows, str):
            rows = _integers("rows", rows, 1)
        self._make(counts, slots, flat, rows, None if kinds is None else _integers("kinds", kinds, 1))

    @classmethod
    def from_edges(cls, edge_index: Any, counts: Any, *, rows: Any = None, kinds: Any = None) -> Graphs:
        """Graphs in PyTorch Geometric's form.

        edge_index: [2, edges] leads from children, edge_index[0], to parents, edge_index[1], numbered through all graphs.
        A vertex's children are in the order of its edges; it has no empty slots.

        counts: the number of vertices of each graph, [graphs].

        Rows, kinds and errors are those of `Graphs`. An edge between two graphs is refused too.
        """
        counts, edges = _integers("counts", counts, 1), _integers("edge_index", edge_index, 2)
        _check_counts(counts)
        if len(edges) != 2:
            raise Refused(f"edge_index is [2, edges], not {list(edges.shape)}")
        total = int(counts.sum())
        _check_range("edge_index", edges, 0, total - 1)
        graph = _repeated(torch.arange(len(counts), device=_CPU), counts)
        child, parent = edges[:, torch.argsort(edges[1], stable=True)]
        strange = torch.nonzero(graph[child] != graph[parent])
        if len(strange):
            one = int(strange[0])
            raise Refused(f"edge_index: the edge from {int(child[one])} to {int(parent[one])} joins two graphs")
        made = cls.__new__(cls)
        if rows is not None and not isinstance(rows, str):
            rows = _integers("rows", rows, 1)
        kinds = None if kinds is None else _integers("kinds", kinds, 1)
        local = child - _starts(counts)[graph[parent]]
        made._make(counts, torch.bincount(parent, minlength=total), local, rows, kinds)
        return made

    def _make(self, counts, slots, children, rows, kinds):
        _check_counts(counts)
        total = int(counts.sum())
        self._first_vertex, self._first_child = _starts(counts), _starts(slots)
        self._children = children.to(torch.int32).contiguous()
        if isinstance(rows, str):
            if rows != "leaves":
                raise Refused(f'rows: None, "leaves" or an array is accepted, not {rows!r}')
            is_leaf = slots == 0
            before = _starts(is_leaf.long())[:-1]
            graph_before = before[self._first_vertex[:-1]] if len(counts) else before
            rows = torch.where(is_leaf, before - _repeated(graph_before, counts), -1)
        for what, array in (("rows", rows), ("kinds", kinds)):
            if array is not None and len(array) != total:
                raise Refused(f"{what} has {len(array)} numbers, and there are {total} vertices")
        if kinds is not None:
            _check_range("kinds", kinds, 0, 255)
        self._rows = None if rows is None else rows.to(torch.int32).contiguous()
        self._kinds = None if kinds is None else kinds.to(torch.uint8).contiguous()
        if rows is None:
            rows_of_graph = counts
        else:
            graph = _repeated(torch.arange(len(counts), device=_CPU), counts)
            rows_of_graph = torch.zeros(len(counts), dtype=torch.int64, device=_CPU).scatter_reduce(0, graph, rows + 1, "amax")
        self._first_row = _starts(rows_of_graph)
        slots_of_graph = self._first_child[self._first_vertex].diff()
        #: [5, graphs] What `_Chosen` has of each.
        self._of_each = torch.stack(
            [self._first_vertex[:-1], self._first_row[:-1], counts, rows_of_graph, slots_of_graph]
        )
        address = lambda tensor: None if tensor is None else tensor.data_ptr()
        description = _library.GraphsDescription(
            len(counts), *map(address, (self._first_vertex, self._first_child, self._children, self._kinds, self._rows))
        )
        self._handle = _library.made("CreateGraphs", ctypes.byref(description))
        weakref.finalize(self, _library.call, "DestroyGraphs", self._handle).atexit = False

    def __len__(self) -> int:
        return self._first_vertex.numel() - 1

    def __repr__(self) -> str:
        return f"<{len(self)} graphs of {self.vertices} vertices>"

    @property
    def vertices(self) -> int:
        """The number of vertices of all graphs."""
        return int(self._first_vertex[-1])

    @property
    def rows(self) -> int:
        """The number of rows of an input that has those of all graphs."""
        return int(self._first_row[-1])

    def batch(self, ids: Sequence[int] | torch.Tensor, static: bool | int = False) -> Batch:
        """The batch of these graphs, in this order; one may be there several times.

        ids: an array [graphs of the batch] of their numbers, of any type of integers.

        static: whether to make a :class:`StaticBatch`, which can be set to others, of at most as many graphs; a number
        is the most vertices that they have together. It is made for the largest graphs by default.

        Raises :class:`ucudnn.Refused` for no ids, one that is out of range, and too few vertices.
        """
        if static is False:
            return Batch(self, ids)
        return StaticBatch(self, ids, static)

    def loader(
        self,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int] | torch.Tensor] | None = None,
        drop_last: bool = False,
        generator: torch.Generator | None = None,
        collate_fn: Callable[[Batch], Any] | None = None,
        device: str | torch.device | None = None,
        static: bool | int = False,
        prefetch_factor: int = 1,
    ) -> Loader:
        """Batches in turn, as torch.utils.data.DataLoader gives them: while the program works with one, a thread makes the
        next::

            samples = lambda batch: (batch, words[batch.rows], labels[batch.vertices])
            for batch, x, y in graphs.loader(64, shuffle=True, collate_fn=samples):
                ...

        batch_size: the number of graphs of a batch. The last one of an epoch may have fewer, unless drop_last is set.

        shuffle: each epoch has the order of torch.randperm(len(graphs), generator=generator), else that of the numbers.
        sampler: the numbers of an epoch's graphs, in their order. batch_sampler: those of each batch.

        collate_fn: takes a batch, and gives what the iterator gives; by default the batch itself. It runs on the thread:
        random numbers there come from a generator of its own.

        device: where the tensors go that collate_fn gives, alone or in tuples, lists and dicts. To a CUDA device they are
        copied meanwhile. They are for the stream that is current at `next`; another one takes a `record_stream` of theirs,
        as for any tensor. What else collate_fn gives stays as it is: tensors in it on a CUDA device take a `record_stream`
        too. What collate_fn itself launches there runs on the loader's stream, behind what the current stream had when the
        epoch began. None: all stays where it is.

        static: as for :meth:`batch`; a number is the most vertices. The loader's `batches`, prefetch_factor + 1 static ones,
        take turns. A turn ends at the following `next`: all runs of the batch were launched by then, its replays on the
        stream that is current there, and the batch is set to other graphs behind them. Capture before the epoch begins, or
        with capture_error_mode="thread_local".

        prefetch_factor: how many batches are made ahead. 0: no thread; `next` makes the batch.

        A batch is also made for the nets that ran with the last ones, so that its first run finds it on their device. Runs
        may be on any streams: the memory of a batch is used again behind them.

        Raises :class:`ucudnn.Refused` for what is not accepted; `next` does for numbers that :meth:`batch` refuses.
        """
        from .loader import Loader  # which needs this module

        return Loader(self, batch_size, shuffle, sampler, batch_sampler, drop_last, generator, collate_fn, device, static,
                      prefetch_factor)  # fmt: skip

    def _most(self, ids, static):
        """Graphs, vertices, slots and levels that as many graphs have at most, and these have."""
        _, _, counts, _, slots = self._of_each
        count = ids.numel()
        most_of = lambda numbers: int(numbers.sort(descending=True).values[:count].sum()) * -(-count // len(numbers))
        most, children = most_of(counts), most_of(slots)
        _, vertices, of_vertices, _ = _Chosen(self, ids).sizes()  # one of these may be there several times
        most, children = max(most, vertices), max(children, of_vertices)
        if static is not True:
            if not isinstance(static, Integral) or not 0 < static <= _MOST_VERTICES:
                raise Refused(f"static: True or a number of vertices, 1 to {_MOST_VERTICES}, is accepted, not {static!r}")
            # No graph has more slots for each vertex than the one that has the most here.
            children = min(children, int((slots.long() * int(static) // counts).max()))
            most = min(most, int(static))
        sizes = _library.BatchSizes()
        _library.call("GetGraphsSizes", self._handle, ctypes.byref(sizes))
        return count, most, children, sizes.levels

    def select(self, ids: Sequence[int] | torch.Tensor) -> Graphs:
        """These graphs alone, in this order. Raises :class:`ucudnn.Refused` for a number out of range."""
        chosen = self._checked(ids)
        counts = self._first_vertex[chosen + 1] - self._first_vertex[chosen]
        vertices = _ranges(self._first_vertex[chosen], counts)
        slots = self._first_child[vertices + 1] - self._first_child[vertices]
        children = self._children[_ranges(self._first_child[vertices], slots)].long()
        of_vertices = lambda array: None if array is None else array[vertices].long()
        made = Graphs.__new__(Graphs)
        made._make(counts, slots, children, of_vertices(self._rows), of_vertices(self._kinds))
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the graphs' structure as JSON, for `ucudnn plot graphs`: {"graphs": [graph, …]}, a graph as a list of
        vertices, and a vertex as the list of its children, -1 for an empty slot."""
        ends, children = self._first_child.tolist(), self._children.tolist()
        vertices = [children[first:end] for first, end in itertools.pairwise(ends)]
        graphs = [vertices[first:end] for first, end in itertools.pairwise(self._first_vertex.tolist())]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"graphs": graphs}, file)

    def _checked(self, ids):
        return _integers("ids", ids, 1, 0, len(self) - 1)

    def __reduce__(self):
        counts, slots = self._first_vertex.diff(), self._first_child.diff()
        return _graphs_again, tuple(map(_bytes, (counts, slots, self._children, self._rows, self._kinds)))


def _graphs_again(counts, slots, children, rows, kinds):
    counts, slots = _tensor(counts, torch.int64), _tensor(slots, torch.int64)
    children, rows, kinds = _tensor(children, torch.int32), _tensor(rows, torch.int32), _tensor(kinds, torch.uint8)
    made = Graphs.__new__(Graphs)
    wide = lambda array: None if array is None else array.long()
    made._make(counts, slots, children.long(), wide(rows), wide(kinds))
    return made


def _of_table(table):
    """The slots of each vertex and their children, of an array [vertices, slots]."""
    is_leaf = (table < 0).all(1)
    return torch.where(is_leaf, 0, table.shape[1]), table[~is_leaf].reshape(-1)


def _flattened(graphs):
    """The vertices of each graph, the slots of each vertex, and their children."""
    try:
        graphs = list(graphs)
    except TypeError:
        raise Refused(f"children: a sequence of graphs is accepted, not {type(graphs).__name__}") from None
    counts, slots, children = [], [], []
    for number, graph in enumerate(graphs):
        try:
            counts.append(len(graph))
            widths = [len(row) for row in graph] if isinstance(graph, (list, tuple)) else []
        except TypeError as error:
            what = f"children of graph {number}"
            raise Refused(f"{what}: an array or a sequence of sequences is accepted; {error}") from None
        if len(set(widths)) > 1:
            slots.append(torch.tensor(widths, device=_CPU))
            flat = [child for row in graph for child in row]
            children.append(_integers(f"children of graph {number}", flat, 1))
            continue
        table = _integers(f"children of graph {number}", graph)
        if table.numel() == 0 and table.dim() < 3:  # vertices without slots
            table = table.reshape(len(graph), 0)
        if table.dim() != 2:
            raise Refused(f"children of graph {number}: [vertices, slots] is accepted, not {list(table.shape)}")
        of_table = _of_table(table)
        slots.append(of_table[0])
        children.append(of_table[1])
    none = torch.zeros(0, dtype=torch.int64, device=_CPU)
    return torch.tensor(counts, dtype=torch.int64, device=_CPU), torch.cat([none, *slots]), torch.cat([none, *children])


class Batch:
    """Graphs that run together, from :meth:`Graphs.batch`. Any net runs it, any number of times.

    It may be made in a worker of a DataLoader: what is sent holds its own graphs alone. Its tensors are of torch.int64,
    on the CPU.
    """

    #: [vertices of the batch] The number of each vertex among those of all graphs: `labels[batch.vertices]`.
    vertices: torch.Tensor
    #: [rows of the batch] The number of each input row among those of all graphs: `words[batch.rows]`.
    rows: torch.Tensor

    def __init__(self, graphs: Graphs, ids: Sequence[int] | torch.Tensor):
        self._choose(graphs, ids)

    def _choose(self, graphs, ids):
        chosen = graphs._checked(ids)
        if type(ids) is not list:
            chosen = chosen.clone()  # the caller's tensor may change, and nets read the numbers later
        if chosen.numel() == 0:
            raise Refused(_NO_GRAPHS)
        self._set(graphs, chosen)

    def _set(self, graphs, ids):
        chosen = _Chosen(graphs, ids)
        self._prepared = Prepared(graphs, ids, chosen.sizes())
        self._number = BATCHES.keep(self._prepared, self._prepared.chosen)
        self._graphs, self._ids = graphs, ids
        self.vertices = chosen.vertices()
        rows = chosen.rows()
        self.rows = self.vertices if rows is None else rows

    @property
    def offsets(self) -> torch.Tensor:
        """[graphs + 1] The first vertex of each graph in the batch, and the number of all."""
        return _starts(self._graphs._of_each[2, self._ids])

    # Tensors as long as inputs and outputs have rows.

    @property
    def _input_rows(self):
        return self.rows

    @property
    def _output_rows(self):
        return self.vertices

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        return f"<a batch of {len(self)} graphs, {len(self.vertices)} vertices>"

    @property
    def roots(self) -> torch.Tensor:
        """[roots] The vertices of the batch that are nobody's child: for trees one a graph, in the graphs' order."""
        graphs = self._graphs
        local = torch.zeros(len(self.vertices), dtype=torch.bool, device=_CPU)
        first, end = graphs._first_vertex[self._ids], graphs._first_vertex[self._ids + 1]
        of_child = graphs._first_child[first]
        counts = graphs._first_child[end] - of_child
        children = graphs._children[_ranges(of_child, counts)].long()
        children = torch.where(children < 0, -1, children + _repeated(self.offsets[:-1], counts))
        local[children[children >= 0]] = True
        return torch.nonzero(~local).flatten()

    def __reduce__(self):
        rows = None if self.rows is self.vertices else _bytes(self.rows)
        return _batch_again, (self._graphs.select(self._ids), _bytes(self.vertices), rows)


def _batch_again(graphs, vertices, rows):
    made = Batch.__new__(Batch)
    made._set(graphs, torch.arange(len(graphs), device=_CPU))
    # The numbers among those of all graphs that there were.
    made.vertices = _tensor(vertices, torch.int64)
    made.rows = made.vertices if rows is None else _tensor(rows, torch.int64)
    return made


class _Chosen:
    """What graphs have: [graphs] the first vertex and row among those of all graphs, and the numbers of both. Lists, of
    a few graphs."""

    def __init__(self, graphs, ids):
        self._has_rows, self._are_few = graphs._rows is not None, ids.numel() <= _FEW
        its = graphs._of_each.index_select(1, ids)
        its = its.tolist() if self._are_few else its.unbind()
        self._first_vertex, self._first_row, self._counts, self._row_counts, self._slots = its

    def sizes(self):
        """Graphs, vertices, slots, and no fewer levels than there are."""
        total, most = (sum, max) if self._are_few else (torch.sum, torch.max)
        return len(self._counts), int(total(self._counts)), int(total(self._slots)), int(most(self._counts))

    def vertices(self):
        """The number of each vertex among those of all graphs."""
        return _ranges(self._first_vertex, self._counts)

    def rows(self):
        """Likewise of each input row; None if each vertex has its own."""
        return _ranges(self._first_row, self._row_counts) if self._has_rows else None


class StaticBatch(Batch):
    """A batch that can be set to other graphs, from ``Graphs.batch(ids, static=True)``: a CUDA graph that captured runs
    of it then runs those when it is replayed.

    Inputs and outputs have `most_vertices` rows. Those that the batch has come first; what is behind them is not read,
    and zero in results. All runs launch what the largest batch needs: the closer that is to those that come, the better.

    copy.copy gives the batch itself: a captured run has one batch. copy.deepcopy and pickle make another static batch,
    with all its graphs, which is set on its own from then on.
    """

    #: The number of rows of inputs and outputs.
    most_vertices: int

    def __init__(self, graphs: Graphs, ids: Sequence[int] | torch.Tensor, static: bool | int):
        chosen = graphs._checked(ids)
        if chosen.numel() == 0:
            raise Refused(_NO_GRAPHS)
        self._begin(graphs, chosen, graphs._most(chosen, static))

    def _begin(self, graphs, ids, most):
        self._most = most
        self.most_vertices = most[1]
        self._all_rows = torch.empty(self.most_vertices, dtype=torch.int64, device=_CPU)
        self._prepared = None
        self._choose(graphs, ids)

    @property
    def _input_rows(self):
        return self._all_rows

    @property
    def _output_rows(self):
        return self._all_rows

    def set(self, ids: Sequence[int] | torch.Tensor) -> None:
        """Makes it the batch of these graphs. On a device, it is copied in the order of the current stream.

        A run backward is of the graphs that its run forward had: it comes before the batch is set to others. Else it
        raises :class:`ucudnn.Refused`. So does a run that torch.utils.checkpoint computes again, unless it has
        use_reentrant=True or was given a compiled function: nothing tells such a run from a new one.

        Raises :class:`ucudnn.Refused`, and changes nothing, for what :meth:`Graphs.batch` refuses and for more than the
        batch was made for.
        """
        self._choose(self._graphs, ids)

    def _set(self, graphs, ids):
        if self._prepared is None or not self._prepared.is_checked():
            sizes = _Chosen(graphs, ids).sizes()
            for name, size, most in zip(("graphs", "vertices", "children"), sizes, self._most):
                if size > most:
                    raise Refused(f"the batch has {size} {name}; it was made for at most {most}")
        if self._prepared is None:
            self._prepared = Prepared(graphs, ids, self._most, is_static=True)
        else:
            self._prepared.set(ids)
        self._number = BATCHES.keep(self._prepared, self._prepared.chosen)
        self._graphs, self._ids = graphs, ids

    # As those of other batches. They are seldom wanted each time.

    @property
    def vertices(self) -> torch.Tensor:
        """As a batch's, for the graphs that it has now."""
        return _Chosen(self._graphs, self._ids).vertices()

    @property
    def rows(self) -> torch.Tensor:
        """As a batch's, for the graphs that it has now."""
        rows = _Chosen(self._graphs, self._ids).rows()
        return self.vertices if rows is None else rows

    def __copy__(self):
        return self

    def __reduce__(self):
        return _static_batch_again, (self._graphs, _bytes(self._ids), self._most)


def _static_batch_again(graphs, ids, most):
    made = StaticBatch.__new__(StaticBatch)
    made._begin(graphs, _tensor(ids, torch.int64), most)
    return made


class Prepared:
    """A batch, and what nets made of it."""

    def __init__(self, graphs, ids, sizes, is_static=False):
        self.graphs, self.is_static = graphs, is_static
        self._choose(ids)
        #: Graphs, vertices, slots, and no fewer levels than there are. Of a static batch, the most.
        self.sizes = sizes
        #: The library's batch of each net that has one.
        self.of = {}
        #: The nets that asked for theirs.
        self.asked = set()

    def _choose(self, ids):
        self.ids = ids
        #: A number that tells these graphs from others.
        self.chosen = hash(_bytes(ids))

    def is_checked(self):
        """Whether the library refuses more than the sizes: a net that is not static may take more."""
        return bool(self.of) and all(native.is_static for native in self.of)

    def set(self, ids):
        """Other graphs. If a net refuses them, all have those that they had."""
        tried = []
        try:
            for native, batch in self.of.items():
                tried.append((native, batch))
                native.set_batch(batch, self.graphs, ids)
        except BaseException:
            for native, batch in tried:
                native.set_batch(batch, self.graphs, self.ids)
            raise
        self._choose(ids)

    def expire(self):
        """Other graphs will be set: runs backward of these are refused from now on, whoever sets them, and when."""
        self.chosen = None

    def set_ahead(self, natives):
        """Sets the batches of nets that will ask for theirs, on the current streams. Nobody else has this one yet."""
        for native in natives:
            if native.fits(self.sizes):
                with contextlib.suppress(Refused):  # the run says it, if there is one
                    self.of[native] = native.take_batch(self, is_ahead=True)

    def end_runs(self):
        """Says that all runs are launched: replays too, on the current streams. Whoever sets the batch on others may do so
        behind these alone."""
        for native, batch in self.of.items():
            native.end_runs(batch)

    def __del__(self):
        for native, batch in self.of.items():
            native.give_batch(batch)
