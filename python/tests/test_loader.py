"""Loaders: the same batches and trainings as loops without one, made on a thread that ends and hands on what it raised."""

import gc
import itertools
import threading
import traceback
import typing
import unittest
import weakref

import torch
import torch.nn.functional as F
import ucudnn
from common import HANGS, Programs, as_graphs, in_child, random_tree, run_python, seeded

COUNT = 23


def setting():
    """Trees, a row of numbers for each word, and a class for each vertex."""
    random = seeded("loader")
    graphs = as_graphs([random_tree(random, random.randint(1, 9)) for _ in range(COUNT)])
    return graphs, torch.randn(graphs.rows, 5), torch.randint(3, (graphs.vertices,))


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.tree, self.head = ucudnn.nn.NaryTreeLSTM(5, 4), torch.nn.Linear(4, 3)

    def forward(self, batch, x):
        """Scores of the batch's own vertices; a static batch has more rows."""
        return self.head(self.tree(batch, x)[0][: len(batch.vertices)])


class Scorer(torch.nn.Module):
    """For `step`."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.W, self.U = torch.nn.Linear(5, 3), torch.nn.Linear(3, 3)

        def vertex(v):
            s = v.linear("W", v.pull("x", 5)) + v.linear("U", v.children().s.tanh().sum())
            v.scatter(s=s)
            v.push(scores=s)

        self.net = ucudnn.VertexNet({"s": 3}, {"any": vertex}, self, loss="scores")


def generator():
    return torch.Generator().manual_seed(5)


def threads():
    return [thread.name for thread in threading.enumerate() if thread.name == "ucudnn.Loader"]


def padded(tensor, rows):
    return torch.cat([tensor, tensor.new_zeros(rows - len(tensor), *tensor.shape[1:])])


def told(batch):
    """What a batch tells of itself."""
    return [its.tolist() for its in (batch.vertices, batch.rows, batch.offsets, batch.roots)]


class Orders(unittest.TestCase):
    def setUp(self):
        self.graphs, *_ = setting()

    def check(self, loader, id_lists):
        self.assertEqual(len(loader), len(id_lists))
        found = [(len(batch), told(batch)) for batch in loader]
        self.assertEqual(found, [(len(ids), told(self.graphs.batch(ids))) for ids in id_lists])

    def test_batches_are_those_of_the_same_numbers(self):
        graphs, inner = self.graphs, list(torch.arange(COUNT).split(4))
        for ahead in (0, 1, 3, 30):
            for static in (False, True):
                with self.subTest(ahead=ahead, static=static):
                    make = lambda **more: graphs.loader(prefetch_factor=ahead, static=static, **more)  # noqa: B023
                    self.check(make(batch_size=4), inner)
                    self.check(make(batch_size=4, drop_last=True), inner[:-1])
                    self.check(make(), list(torch.arange(COUNT).split(1)))
                    self.check(make(batch_size=COUNT + 1), [range(COUNT)])
                    self.check(make(batch_size=COUNT + 1, drop_last=True), [])
                    self.check(make(batch_size=2, sampler=[3, 3, 1]), [[3, 3], [1]])
                    self.check(make(batch_size=2, sampler=torch.tensor([3, 2, 1]), drop_last=True), [[3, 2]])
                    sampler = torch.utils.data.SubsetRandomSampler([1, 5, 9], generator())
                    expected = torch.tensor([1, 5, 9])[torch.randperm(3, generator=generator())]
                    self.check(make(batch_size=2, sampler=sampler), list(expected.split(2)))
        self.check(graphs.loader(batch_sampler=[[0, 1], torch.tensor([5]), (2,)]), [[0, 1], [5], [2]])
        self.assertEqual(list(graphs.select([]).loader(4, static=True)), [])

    def test_each_epoch_is_shuffled_by_the_generator(self):
        loader, again = self.graphs.loader(5, shuffle=True, generator=generator()), generator()
        for _ in range(2):
            self.check(loader, list(torch.randperm(COUNT, generator=again).split(5)))
        state = torch.get_rng_state()
        found = [told(batch) for batch in self.graphs.loader(5, shuffle=True)]
        torch.set_rng_state(state)
        self.assertEqual(found, [told(self.graphs.batch(ids)) for ids in torch.randperm(COUNT).split(5)])

    def test_collate_fn_says_what_is_given(self):
        for static in (False, True):
            loader = self.graphs.loader(4, static=static, collate_fn=lambda batch: (len(batch), batch.rows))
            expected = [(len(ids), self.graphs.batch(ids).rows.tolist()) for ids in torch.arange(COUNT).split(4)]
            self.assertEqual([(count, rows.tolist()) for count, rows in loader], expected)


class Pair(typing.NamedTuple):
    x: torch.Tensor
    words: list


class Items(unittest.TestCase):
    def test_a_device_is_where_tensors_of_any_place_go(self):
        graphs, x, _ = setting()
        leaf = torch.zeros(2, requires_grad=True)
        given = {"pair": Pair(x, ["word"]), "list": [x, (x, 1)], "leaf": leaf}
        (item,) = graphs.loader(COUNT, collate_fn=lambda batch: given, device="cpu")
        self.assertEqual(item.keys(), given.keys())
        self.assertIs(type(item["pair"]), Pair)
        self.assertEqual(item["pair"].words, ["word"])
        for one in (item["pair"].x, item["list"][0], item["list"][1][0]):
            self.assertTrue(torch.equal(one, x))
        self.assertTrue(item["leaf"].is_leaf and item["leaf"].requires_grad)
        (item,) = graphs.loader(COUNT, collate_fn=lambda batch: given)
        self.assertIs(item, given)


class Trainings(unittest.TestCase):
    """Losses and parameters have the bits of a loop without a loader."""

    BATCH, EPOCHS = 4, 2

    def same(self, train, make, loader):
        """Trains a model with the loader's batches and a twin with those of the same numbers, in the same order."""
        graphs, words, labels = setting()
        model, twin = make(), make()
        losses, expected, orders = [], [], generator()
        optimizers = [torch.optim.Adam(each.parameters(), 0.05) for each in (model, twin)]
        for _ in range(self.EPOCHS):
            for batch, x, y in loader(graphs, words, labels):
                losses.append(float(train(model, optimizers[0], batch, x, y)))
            for ids in torch.randperm(COUNT, generator=orders).split(self.BATCH):
                batch = graphs.batch(ids)
                expected.append(float(train(twin, optimizers[1], batch, words[batch.rows], labels[batch.vertices])))
        self.assertEqual(losses, expected)
        self.assertLess(losses[-1], losses[0])
        for one, its in zip(model.parameters(), twin.parameters(), strict=True):
            self.assertTrue(torch.equal(one, its))

    @staticmethod
    def train(model, optimizer, batch, x, y):
        optimizer.zero_grad()
        x = padded(x, getattr(batch, "most_vertices", len(x)))
        loss = F.cross_entropy(model(batch, x), y)
        loss.backward()
        optimizer.step()
        return loss

    @staticmethod
    def step(model, _, batch, x, y):
        x = padded(x, getattr(batch, "most_vertices", len(x)))
        return model.net.step(batch, x=x, labels=y, lr=0.1)

    def loaders(self, **options):
        """Makes one loader, whose next epoch each call gives."""
        made = []

        def loader(graphs, words, labels):
            if not made:
                samples = lambda batch: (batch, words[batch.rows], labels[batch.vertices])
                made.append(graphs.loader(self.BATCH, shuffle=True, generator=generator(), collate_fn=samples, **options))
            return made[0]

        return loader

    def test_are_the_same(self):
        for static, ahead in ((False, 0), (False, 1), (False, 3), (True, 0), (60, 1), (True, 2)):
            for train, make in ((self.train, Classifier), (self.step, Scorer)):
                with self.subTest(static=static, ahead=ahead, net=make.__name__):
                    self.same(train, make, self.loaders(static=static, prefetch_factor=ahead))

    def test_threads_of_one_loader_are_the_same(self):
        graphs, words, _ = setting()
        model, loader = Classifier(), graphs.loader(self.BATCH)
        run = lambda batches: [model(batch, words[batch.rows]).detach() for batch in batches]
        expected = run(graphs.batch(ids) for ids in torch.arange(COUNT).split(self.BATCH))
        found = [None] * 3
        each = [threading.Thread(target=lambda place=place: found.__setitem__(place, run(loader))) for place in range(3)]
        for thread in each:
            thread.start()
        for thread in each:
            thread.join()
        for its in found:
            self.assertTrue(all(map(torch.equal, its, expected)))


class Ahead(unittest.TestCase):
    def test_the_next_batch_is_made_while_the_program_has_one(self):
        graphs, *_ = setting()
        for static in (False, True):
            begun = [threading.Event() for _ in range(COUNT)]
            numbers, makers = iter(range(COUNT)), set()

            def collate(batch):
                makers.add(threading.current_thread())  # noqa: B023
                begun[next(numbers)].set()  # noqa: B023
                return batch

            for number, batch in enumerate(graphs.loader(static=static, collate_fn=collate)):
                # This waits for ever if the batch is made when it is asked for.
                self.assertTrue(begun[min(number + 1, COUNT - 1)].wait(HANGS))
                self.assertFalse(any(event.is_set() for event in begun[number + 2 :]))
                self.assertEqual(told(batch), told(graphs.batch([number])))
            self.assertEqual(len(makers), 1)
            self.assertNotIn(threading.current_thread(), makers)

    def test_batches_are_set_for_the_nets_that_ran(self):
        graphs = ucudnn.Graphs([[[], [], [0, 1]]] * COUNT, rows="leaves")
        loader, last = graphs.loader(), set()
        for model in (Classifier(), Classifier()):
            ahead, ran = [], []
            for batch in loader:
                ahead.append(set(batch._prepared.of))
                model(batch, torch.ones(2, 5))
                ran.append(batch._prepared.asked)
            self.assertTrue(all(its == ran[0] for its in ran))
            self.assertEqual(ahead[0], last)
            self.assertEqual(ahead[-1], ran[0])
            self.assertTrue(last.isdisjoint(ran[0]))
            last = ran[0]

    def test_a_net_that_takes_other_graphs_does_not_stop_the_loader(self):
        graphs = ucudnn.Graphs([[[], [0]], [[], [], [0, 1]], [[], [0]]])
        chain = ucudnn.VertexNet({}, {0: lambda v: v.push(y=v.pull("x", 1)), 1: lambda v: v.push(y=v.pull("x", 1))})
        for number, batch in enumerate(graphs.loader(prefetch_factor=0)):
            x = torch.ones(len(batch.rows), 1)
            if number == 1:
                with self.assertRaisesRegex(ucudnn.Refused, "has 2 slots"):
                    chain(batch, x=x)
            else:
                self.assertTrue(torch.equal(chain(batch, x=x).y, x))

    def test_static_batches_take_turns(self):
        graphs, words, _ = setting()
        model, loader = Classifier(), graphs.loader(2, static=True, prefetch_factor=2)
        self.assertEqual(len(loader.batches), 3)
        given = []
        for batch in loader:
            given.append(batch)
            model(batch, padded(words[batch.rows], batch.most_vertices))
        self.assertEqual(set(given), set(loader.batches))
        self.assertTrue(all(one is other for one, other in zip(given, given[3:])))
        self.assertEqual(len({batch.most_vertices for batch in given}), 1)
        self.assertEqual(graphs.loader(2).batches, ())

    def test_static_batches_are_as_small_as_they_are_told_to_be(self):
        leaves = lambda counts: ucudnn.Graphs([[[]] * count for count in counts])
        graphs = leaves([5, 5, 1, 5, 1, 5])
        loader = graphs.loader(2, sampler=[2, 4, 4], static=3)
        self.assertEqual([batch.most_vertices for batch in loader.batches], [3, 3])
        self.assertEqual([told(batch) for batch in loader], [told(graphs.batch(ids)) for ids in ([2, 4], [4])])
        with self.assertRaisesRegex(ucudnn.Refused, "has 10 vertices; it was made for at most 9"):
            leaves([5, 5, 5]).loader(2, static=9)

    def test_a_run_backward_behind_the_turn_is_refused(self):
        graphs, words, _ = setting()
        model, waiting = Classifier(), []
        for batch in graphs.loader(2, static=True):
            waiting.append(model(batch, padded(words[batch.rows], batch.most_vertices)))
        with self.assertRaisesRegex(ucudnn.Refused, "set to other graphs since this run forward"):
            waiting[0].sum().backward()
        waiting[-1].sum().backward()

    def test_it_is_refused_before_the_thread_has_set_the_batch(self):
        graphs, words, _ = setting()
        model, may_go_on, count = Classifier(), threading.Event(), itertools.count()

        def held(batch):
            if next(count) == 2:
                self.assertTrue(may_go_on.wait(HANGS))
            return batch

        epoch = iter(graphs.loader(2, static=True, prefetch_factor=2, collate_fn=held))
        batch = next(epoch)
        scores = model(batch, padded(words[batch.rows], batch.most_vertices))
        next(epoch)
        with self.assertRaisesRegex(ucudnn.Refused, "set to other graphs since this run forward"):
            scores.sum().backward()
        may_go_on.set()
        epoch.close()


class Strange(Exception):
    pass


def fails(batch):
    if len(batch.vertices) % 2:
        raise Strange("an odd batch")
    return batch


class Failures(unittest.TestCase):
    def tearDown(self):
        self.assertEqual(threads(), [])

    def test_what_collate_fn_raises_comes_from_next_with_its_traceback(self):
        graphs = ucudnn.Graphs([[[]], [[], []], [[]], [[], []], [[]]])
        for options in ({}, {"static": True}, {"prefetch_factor": 0}, {"static": True, "prefetch_factor": 3}):
            with self.subTest(**options):
                epoch, seen = iter(graphs.loader(collate_fn=fails, **options)), []
                for _ in range(len(graphs)):
                    try:
                        seen.append(len(next(epoch).vertices))
                    except Strange as error:
                        seen.append(str(error))
                        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
                        self.assertEqual(names[-1], "fails")
                self.assertEqual(seen, ["an odd batch", 2] * 2 + ["an odd batch"])
                self.assertRaises(StopIteration, next, epoch)

    def test_what_is_raised_holds_no_batch(self):
        graphs, *_ = setting()
        for raised in (Strange, SystemExit, KeyboardInterrupt):
            made = []

            def collate(batch):
                made.append(weakref.ref(batch))  # noqa: B023
                raise raised  # noqa: B023

            gc.disable()
            try:
                with self.assertRaises(raised):
                    for _ in graphs.loader(COUNT, collate_fn=collate):
                        pass
                self.assertEqual([batch() for batch in made], [None])
            finally:
                gc.enable()

    def test_a_stop_iteration_does_not_end_the_loop(self):
        graphs, *_ = setting()
        with self.assertRaisesRegex(RuntimeError, "raised StopIteration"):
            list(graphs.loader(collate_fn=lambda batch: next(iter([]))))

    def test_a_batch_that_is_refused_is_refused_in_its_turn(self):
        graphs = ucudnn.Graphs([[[]], [[], [0], [1]], [[]]])
        epoch = iter(graphs.loader(static=1))
        self.assertEqual(len(next(epoch).vertices), 1)
        with self.assertRaisesRegex(ucudnn.Refused, "has 3 vertices; it was made for at most 1"):
            next(epoch)
        self.assertEqual(told(next(epoch)), told(graphs.batch([2])))
        epoch.close()
        epoch = iter(graphs.loader(batch_sampler=[[0], [7]]))
        self.assertEqual(len(next(epoch)), 1)
        with self.assertRaisesRegex(ucudnn.Refused, "ids: 0 to 2 are accepted, not 7 to 7"):
            next(epoch)
        epoch.close()

    def test_what_a_sampler_raises_comes_from_next_in_its_turn(self):
        graphs, *_ = setting()

        def numbers():
            yield from range(3)
            raise Strange

        for ahead in range(6):
            for static in (False, True):
                epoch = iter(graphs.loader(sampler=numbers(), static=static, prefetch_factor=ahead))
                self.assertEqual([told(next(epoch)) for _ in range(3)], [told(graphs.batch([number])) for number in range(3)])
                self.assertRaises(Strange, next, epoch)
                self.assertRaises(StopIteration, next, epoch)

    def test_an_interrupted_next_leaves_no_batch_out(self):
        graphs, *_ = setting()
        for ahead in (1, 2):
            epoch = iter(graphs.loader(3, static=True, prefetch_factor=ahead))
            found = [told(next(epoch))]
            results, epoch._results = epoch._results, Interrupted()
            self.assertRaises(KeyboardInterrupt, next, epoch)
            epoch._results = results
            for batch in epoch:
                self.assertIsInstance(batch, ucudnn.StaticBatch)
                found.append(told(batch))
            self.assertEqual(found, [told(graphs.batch(ids)) for ids in torch.arange(COUNT).split(3)])


class Interrupted:
    """Results for which one waits in vain."""

    def get(self):
        raise KeyboardInterrupt


class Ends(unittest.TestCase):
    def tearDown(self):
        self.assertEqual(threads(), [])

    def setUp(self):
        self.graphs, *_ = setting()

    def test_an_epoch_that_is_left_leaves_no_thread(self):
        for options in ({}, {"static": True}, {"prefetch_factor": 5}):
            loader = self.graphs.loader(**options)
            for number, _ in enumerate(loader):
                if number == 2:
                    self.assertEqual(len(threads()), 1)
                    break
            self.assertEqual(threads(), [])
            with self.assertRaises(Strange):
                for _ in loader:
                    raise Strange
            self.assertEqual(threads(), [])
            self.assertEqual(sum(1 for _ in loader), COUNT)
            self.assertEqual(threads(), [])

    def test_an_epoch_without_a_holder_ends(self):
        epoch = iter(self.graphs.loader())
        next(epoch)
        del epoch
        self.assertEqual(threads(), [])
        circle = [iter(self.graphs.loader())]
        circle.append(circle)
        del circle
        gc.collect()

    def test_a_closed_epoch_stops(self):
        for ahead in (0, 2):
            epoch = iter(self.graphs.loader(prefetch_factor=ahead))
            next(epoch)
            for _ in range(2):
                epoch.close()
                self.assertEqual(threads(), [])
                self.assertRaises(StopIteration, next, epoch)

    def test_batches_that_were_made_for_nobody_are_free(self):
        made = []
        collate = lambda batch: made.append(weakref.ref(batch)) or batch
        gc.disable()
        try:
            for _ in self.graphs.loader(prefetch_factor=3, collate_fn=collate):
                break
            del _
            self.assertGreaterEqual(len(made), 1)
            self.assertEqual([batch for batch in made if batch()], [])
        finally:
            gc.enable()


class SeveralEpochs(unittest.TestCase):
    def test_of_plain_batches_run_at_once(self):
        graphs, words, _ = setting()
        model, loader = Classifier(), graphs.loader(4)
        expected = [model(graphs.batch(ids), words[graphs.batch(ids).rows]) for ids in torch.arange(COUNT).split(4)]
        for one, other, its in zip(loader, loader, expected, strict=True):
            self.assertIsNot(one, other)
            self.assertTrue(torch.equal(model(one, words[one.rows]), its))
            self.assertTrue(torch.equal(model(other, words[other.rows]), its))

    def test_of_static_batches_are_refused(self):
        graphs, *_ = setting()
        loader = graphs.loader(4, static=True)
        first = iter(loader)
        with self.assertRaisesRegex(ucudnn.Refused, "has not ended, and its static batches take turns in one at a time"):
            iter(loader)
        self.assertEqual(told(next(first)), told(graphs.batch(range(4))))
        first.close()
        for batch, ids in zip(loader, torch.arange(COUNT).split(4), strict=True):
            self.assertEqual(told(batch), told(graphs.batch(ids)))
        self.assertEqual(len(list(loader)), len(loader))


# In processes of their own.


def forked():
    """A child begins an epoch of its own, whatever the parent's thread does."""
    torch.set_num_threads(2)
    for options in ({}, {"static": True}):
        graphs, words, _ = setting()
        model = Classifier()
        loader = graphs.loader(4, collate_fn=lambda batch: (batch, words[batch.rows]), **options)  # noqa: B023
        run = lambda: [model(batch, padded(x, getattr(batch, "most_vertices", len(x)))) for batch, x in loader]  # noqa: B023
        expected = run()
        for _ in range(5):
            epoch = iter(loader)
            next(epoch)

            def begin_anew():
                nonlocal epoch
                try:
                    next(epoch)
                    raise AssertionError("was accepted")
                except ucudnn.Refused as refused:
                    assert "forked since this epoch began" in str(refused), str(refused)
                for one, its in zip(run(), expected, strict=True):  # noqa: B023
                    torch.testing.assert_close(one, its, rtol=1e-5, atol=1e-6)  # a child has one thread
                del epoch

            in_child(begin_anew)
            assert len(list(epoch)) == len(loader) - 1


def ends():
    """Epochs that are under way when the program ends: held, in a circle, of static batches, and in a thread that waits for
    ever."""
    graphs, *_ = setting()
    epochs = [iter(graphs.loader()), iter(graphs.loader(prefetch_factor=9)), iter(graphs.loader(static=True))]
    for epoch in epochs:
        next(epoch)
    epochs += [epochs, iter(graphs.loader(collate_fn=lambda _: threading.Event().wait()))]
    return epochs


class Processes(Programs):
    def test_a_forked_child_begins_anew(self):
        self.run_functions("forked()")

    def test_a_program_ends_while_epochs_are_under_way(self):
        status, text = run_python("import test_loader; epochs = test_loader.ends(); print(len(test_loader.threads()))")
        self.assertEqual((status, text), (0, "4\n"))


if __name__ == "__main__":
    unittest.main()
