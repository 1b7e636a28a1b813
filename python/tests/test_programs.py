"""Nets in whole programs: DataLoader workers, threads, forked children, copies, several processes, memory."""

import copy
import gc
import os
import pickle
import resource
import tempfile
import threading
import unittest

import torch
import ucudnn
from common import HANGS, Programs, as_graphs, in_child, random_tree, seeded
from torch.nn.utils import parametrizations
from ucudnn import nn

COUNT = 24


def setting(dtype=torch.float64, count=COUNT):
    random = seeded("programs")
    graphs = as_graphs([random_tree(random, random.randint(2, 8)) for _ in range(count)])
    return nn.NaryTreeLSTM(5, 4).to(dtype), graphs, torch.randn(graphs.rows, 5, dtype=dtype)


def results(model, batch, x):
    """Outputs and all gradients."""
    x = x.detach().requires_grad_()
    outputs = model(batch, x)
    loss = sum((output**2).sum() for output in outputs)
    return [*outputs, *torch.autograd.grad(loss, (x, *model.parameters()))]


def assert_same(found, expected):
    for place, (one, its) in enumerate(zip(found, expected, strict=True)):
        assert torch.equal(one, its), place


def told(batch):
    """What a batch tells of itself."""
    return batch.vertices, batch.rows, batch.offsets, batch.roots


# Most are run in a process of their own.


def data_loader(method, workers):
    """Workers make batches and send them."""
    model, graphs, words = setting()
    sampler = list(torch.arange(COUNT).split(5))
    results(model, graphs.batch([0]), words[graphs.batch([0]).rows])  # the library runs before the workers begin
    loader = torch.utils.data.DataLoader(
        range(COUNT), batch_sampler=sampler, collate_fn=graphs.batch, num_workers=workers,
        timeout=HANGS if workers else 0, multiprocessing_context=method if workers else None,
    )  # fmt: skip
    for _ in range(2):
        received = list(loader)
        assert len(received) == len(sampler)
        for ids, batch in zip(sampler, received, strict=True):
            own = graphs.batch(ids)
            assert_same(told(batch), told(own))
            assert_same(results(model, batch, words[batch.rows]), results(model, own, words[own.rows]))


def many_batches_from_workers():
    """Batches that wait in the program hold no files open, of which a process has few."""
    _, graphs, _ = setting()
    count = 200
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, most))
    sampler = [[number % COUNT] for number in range(count)]
    loader = torch.utils.data.DataLoader(
        range(COUNT), batch_sampler=sampler, collate_fn=graphs.batch, num_workers=2, timeout=HANGS
    )
    received = list(loader)
    for ids, batch in zip(sampler, received, strict=True):
        assert_same(told(batch), told(graphs.batch(ids)))


class Running(torch.utils.data.Dataset):
    """Workers that run a net themselves."""

    def __init__(self, model, graphs, words):
        self.model, self.graphs, self.words = model, graphs, words

    def __len__(self):
        return COUNT

    def __getitem__(self, id):
        batch = self.graphs.batch([id])
        with torch.no_grad():
            return self.model(batch, self.words[batch.rows])[0]


def workers_that_run(method):
    model, graphs, words = setting()
    data = Running(model, graphs, words)
    expected = [data[id] for id in range(COUNT)]
    loader = torch.utils.data.DataLoader(
        data, batch_size=None, num_workers=2, timeout=HANGS, multiprocessing_context=method
    )
    for found, its in zip(loader, expected, strict=True):
        torch.testing.assert_close(found, its, rtol=1e-12, atol=1e-12)  # a worker has one thread


def _compare(graphs, batch, model, words, expected):
    assert_same(told(batch), told(graphs.batch([4, 4, 0])))
    torch.testing.assert_close(results(model, batch, words[batch.rows]), expected, rtol=1e-12, atol=1e-12)


def arguments_of_a_spawned_process():
    """Graphs and a batch go to a new process as they are, also one that came by pickle."""
    model, graphs, words = setting()
    batch = graphs.batch([4, 4, 0])
    expected = [found.detach() for found in results(model, batch, words[batch.rows])]
    for its in (batch, pickle.loads(pickle.dumps(batch))):
        process = torch.multiprocessing.get_context("spawn").Process(
            target=_compare, args=(graphs, its, model, words, expected)
        )
        process.start()
        process.join()
        assert process.exitcode == 0, process.exitcode


def in_threads(action, count=4):
    failed = []

    def run(number):
        try:
            action(number)
        except BaseException as error:  # noqa: B036 - the main thread raises it
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def threads_of_one_net_and_batch():
    model, graphs, words = setting()
    batch = graphs.batch(range(COUNT))
    inputs = [words[batch.rows] * (number + 1) for number in range(4)]
    expected = [results(model, batch, x) for x in inputs]

    def run(number):
        for _ in range(40):
            assert_same(results(model, batch, inputs[number]), expected[number])

    in_threads(run)


def threads_of_new_nets_and_batches():
    model, graphs, words = setting()
    random = seeded("threads")
    lists = [[random.randrange(COUNT) for _ in range(random.randint(1, 20))] for _ in range(12)]
    expected = [results(model, graphs.batch(ids), words[graphs.batch(ids).rows]) for ids in lists]

    def run(number):
        own = copy.deepcopy(model)
        for _ in range(4):
            for place, ids in enumerate(lists):
                batch = graphs.batch(ids)
                assert_same(results((own, model)[number % 2], batch, words[batch.rows]), expected[place])

    in_threads(run)


def threads_that_refuse():
    """The reason of a refusal is the calling thread's."""
    graphs = ucudnn.Graphs([[[], [0]]])

    def run(number):
        net = ucudnn.VertexNet({}, {number + 2: lambda v: v.push(y=v.pull("x", 1))})
        for _ in range(200):
            try:
                net(graphs.batch([0]), x=torch.zeros(2, 1))
                raise AssertionError("was accepted")
            except ucudnn.Refused as refused:
                text = f"graph 0: vertex 0 has 0 slots; the net's functions take {number + 2}"
                assert str(refused) == text, str(refused)

    in_threads(run)


def forked_child():
    """A child that was forked after a run runs too, with what it inherited and with what it makes."""
    torch.set_num_threads(2)
    # torch's own threads run in the parent, and no child has them.
    torch.ones(1 << 20).exp()
    torch.arange(3).repeat_interleave(torch.tensor([2, 0, 1]))
    model, graphs, words = setting()
    edges, counts = [[0, 1, 3, 4], [2, 2, 4, 5]], [3, 3]
    of_edges = told(ucudnn.Graphs.from_edges(edges, counts, rows="leaves").batch([1, 0]))
    batch = graphs.batch(range(COUNT))
    expected = results(model, batch, words[batch.rows])
    waiting, roots = model(batch, words[batch.rows])[0], batch.roots.tolist()

    def child():
        nonlocal model, graphs, batch
        close = lambda found: [torch.testing.assert_close(one, its, rtol=1e-12, atol=1e-12)
                               for one, its in zip(found, expected, strict=True)]  # fmt: skip
        close(results(model, batch, words[batch.rows]))
        again = graphs.batch(range(COUNT))
        assert_same(told(again), told(batch))
        assert again.roots.tolist() == roots
        close(results(model, again, words[again.rows]))
        close(results(copy.deepcopy(model), copy.deepcopy(batch), words[batch.rows]))
        close(results(model, pickle.loads(pickle.dumps(batch)), words[batch.rows]))
        assert_same(told(ucudnn.Graphs.from_edges(edges, counts, rows="leaves").batch([1, 0])), of_edges)
        selected = graphs.select(range(COUNT))
        close(results(model, selected.batch(range(COUNT)), words[batch.rows]))
        waiting.sum().backward()
        del model, graphs, batch, again
        gc.collect()

    in_child(child)
    assert_same(results(model, batch, words[batch.rows]), expected)


def copies():
    """Pickled and deep copies of nets, modules, graphs and batches."""
    model, graphs, words = setting()
    ids = [3, 1, 1, 7]
    batch = graphs.batch(ids)
    expected = results(model, batch, words[batch.rows])
    by_pickle = [lambda thing, protocol=protocol: pickle.loads(pickle.dumps(thing, protocol)) for protocol in (2, 5)]
    for copied in (*by_pickle, copy.deepcopy):
        again = copied(batch)
        assert_same(told(again), told(batch))
        assert len(again) == len(batch) and repr(again) == repr(batch)
        assert_same(results(model, again, words[again.rows]), expected)
        of_again = copied(again)
        assert_same(results(model, of_again, words[of_again.rows]), expected)
        other = copied(graphs)
        assert (len(other), other.vertices, other.rows) == (len(graphs), graphs.vertices, graphs.rows)
        assert_same(results(model, other.batch(ids), words[batch.rows]), expected)
        twin = copied(model)
        assert_same(results(twin, batch, words[batch.rows]), expected)
        assert twin.net.text() == model.net.text() and repr(twin) == repr(model)
        # The copy reads its own parameters.
        with torch.no_grad():
            twin.U_f.bias += 1
        assert not torch.equal(twin(batch, words[batch.rows])[0], model(batch, words[batch.rows])[0])
        assert_same(results(model, batch, words[batch.rows]), expected)
        # Both together stay together.
        pair = copied({"model": model, "batch": batch, "x": words[batch.rows]})
        assert_same(results(pair["model"], pair["batch"], pair["x"]), expected)
        # A net alone brings the module whose parameters it reads.
        alone = copied(model.net)
        assert torch.equal(alone(batch, x=words[batch.rows]).h, expected[0])


def state_dicts():
    model, graphs, words = setting()
    batch = graphs.batch([0, 1, 2])
    expected = results(model, batch, words[batch.rows])
    layers = ("W_iou", "U_iou", "U_f")
    assert list(model.state_dict()) == [f"{layer}.{part}" for layer in layers for part in ("weight", "bias")]
    other = nn.NaryTreeLSTM(5, 4).double()
    with tempfile.TemporaryFile() as file:
        torch.save(model.state_dict(), file)
        file.seek(0)
        other.load_state_dict(torch.load(file, weights_only=True))
    assert_same(results(other, batch, words[batch.rows]), expected)
    with tempfile.TemporaryFile() as file:
        torch.save(model, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    assert_same(results(other, batch, words[batch.rows]), expected)
    # Parameters may change their places: assign, and a type and back.
    other.load_state_dict({name: tensor.clone() for name, tensor in model.state_dict().items()}, assign=True)
    assert_same(results(other, batch, words[batch.rows]), expected)
    other.half().double()
    other.load_state_dict(model.state_dict())
    assert_same(results(other, batch, words[batch.rows]), expected)


def called_with_other_parameters():
    model, graphs, words = setting()
    batch = graphs.batch([4, 5])
    x = words[batch.rows]
    other = nn.NaryTreeLSTM(5, 4).double()
    given = {name: tensor.detach().clone().requires_grad_() for name, tensor in other.named_parameters()}
    found = torch.func.functional_call(model, given, (batch, x))
    assert_same(found, other(batch, x))
    expected = torch.autograd.grad(other(batch, x)[0].sum(), list(other.parameters()))
    assert_same(torch.autograd.grad(found[0].sum(), list(given.values())), expected)
    assert not torch.equal(model(batch, x)[0], found[0])


def parametrized():
    model, graphs, words = setting()
    batch = graphs.batch(range(6))
    x = words[batch.rows]
    parametrizations.weight_norm(model.U_iou)
    parametrizations.spectral_norm(model.U_f)
    model.eval()
    plain = nn.NaryTreeLSTM(5, 4).double()
    given = {f"{layer}.{part}": getattr(getattr(model, layer), part)
             for layer in ("W_iou", "U_iou", "U_f") for part in ("weight", "bias")}  # fmt: skip
    torch.testing.assert_close(given["U_iou.weight"], setting()[0].U_iou.weight)
    expected = torch.func.functional_call(plain, given, (batch, x))
    assert_same(model(batch, x), expected)
    of_expected = torch.autograd.grad(expected[0].sum(), list(model.parameters()), allow_unused=True)
    found = torch.autograd.grad(model(batch, x)[0].sum(), list(model.parameters()), allow_unused=True)
    for one, its in zip(found, of_expected, strict=True):
        torch.testing.assert_close(one, its, rtol=1e-12, atol=1e-14)
    assert float(model.U_iou.parametrizations.weight.original0.abs().sum()) > 0
    parametrizations.weight_norm(plain.W_iou)
    results(copy.deepcopy(plain), batch, x)


def rank_of_ddp(rank, world, file):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=world)
    model, graphs, words = setting()
    module = torch.nn.parallel.DistributedDataParallel(model)
    ids = list(range(COUNT))
    for _ in range(2):
        batch = graphs.batch(ids[rank::world])
        module.zero_grad()
        sum((output**2).sum() for output in module(batch, words[batch.rows])).backward()
    own = setting()[0]
    batch = graphs.batch(ids)
    sum((output**2).sum() for output in own(batch, words[batch.rows])).backward()
    for one, its in zip(model.parameters(), own.parameters(), strict=True):
        torch.testing.assert_close(one.grad, its.grad / world, rtol=1e-12, atol=1e-13)  # DDP takes the mean
    torch.distributed.destroy_process_group()


def distributed():
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank_of_ddp, (2, os.path.join(folder, "store")), nprocs=2)


def resident():
    """Bytes of memory that the process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


#: Above what any allocator keeps back; 1,800 runs that each lost their memory would lose 30 times as much.
MOST_GROWTH = 64 << 20


def memory_of_runs():
    random = seeded("memory")
    graphs = as_graphs([random_tree(random, 32) for _ in range(8)])
    model = nn.NaryTreeLSTM(8, 32)

    def run(number):
        batch = graphs.batch([number % 8, (number + 3) % 8, number % 5])
        x = torch.randn(len(batch.rows), 8, requires_grad=True)
        outputs = model(batch, x)
        # What a run keeps is some MiB; some runs never come back.
        assert sum(output.nbytes for output in outputs) > 40_000
        if number % 3:
            outputs[0].sum().backward()
        with torch.no_grad():
            model(batch, x)

    from ucudnn.graphs import BATCHES
    from ucudnn.net import _RESERVES

    for number in range(200):
        run(number)
    before = resident()
    for number in range(1800):
        run(number)
    gc.collect()
    assert resident() - before < MOST_GROWTH, resident() - before
    assert not BATCHES._objects and not _RESERVES._objects


def memory_of_objects():
    def make():
        random = seeded("objects")
        graphs = as_graphs([random_tree(random, 64) for _ in range(20)])
        model = nn.NaryTreeLSTM(8, 64)
        batch = graphs.batch(range(20))
        copied = pickle.loads(pickle.dumps(batch))
        model(batch, torch.randn(len(batch.rows), 8))[0].sum().backward()
        # A net as large again, since this batch does not fit the first.
        more = graphs.batch([*range(20), *range(20)])
        model(more, torch.randn(len(more.rows), 8))[0].sum().backward()
        model(copied, torch.randn(len(batch.rows), 8))

    for _ in range(20):
        make()
    gc.collect()
    before = resident()
    for _ in range(100):
        make()
    gc.collect()
    assert resident() - before < MOST_GROWTH, resident() - before


def end_with_everything_alive():
    """The end of a program, in any order."""
    global kept
    model, graphs, words = setting()
    batch = graphs.batch([0, 1])
    output = model(batch, words[batch.rows])[0]
    kept = [model, graphs, batch, output]
    kept.append(kept)


class Workers(Programs):
    def test_forked_workers_make_batches_and_run_nets(self):
        calls = ("data_loader('fork', 2)", "workers_that_run('fork')", "many_batches_from_workers()")
        self.run_functions(*calls)

    def test_spawned_workers_make_batches_and_run_nets(self):
        calls = ("data_loader('spawn', 2)", "workers_that_run('spawn')", "arguments_of_a_spawned_process()")
        self.run_functions(*calls)

    def test_a_loader_without_workers_makes_batches(self):
        data_loader(None, 0)


class Threads(Programs):
    def test_threads_share_and_make_nets_and_batches(self):
        names = ("threads_of_one_net_and_batch", "threads_of_new_nets_and_batches", "threads_that_refuse")
        self.run_functions(*(f"{name}()" for name in names))

    def test_a_forked_child_runs(self):
        self.run_functions("forked_child()")


class Copies(unittest.TestCase):
    def test_nets_graphs_and_batches_are_copied(self):
        copies()

    def test_state_dicts_go_round(self):
        state_dicts()

    def test_a_call_may_bring_other_parameters(self):
        called_with_other_parameters()

    def test_parameters_may_be_parametrized(self):
        parametrized()


class Processes(Programs):
    def test_two_processes_have_one_s_gradients(self):
        self.run_functions("distributed()")


class Memory(Programs):
    def test_runs_and_objects_take_no_more_and_more_memory(self):
        self.run_functions("memory_of_runs()", "memory_of_objects()")

    def test_a_program_may_end_with_everything_alive(self):
        self.run_functions("end_with_everything_alive()")


if __name__ == "__main__":
    unittest.main()
