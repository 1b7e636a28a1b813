"""tree_gradients.py SEED: gradients of Child-Sum Tree-LSTMs in float, beside the CPU's in double.

Inputs change from call to call: with the same ones, values that are left of the call before are right.
"""

import random
import sys

import torch
import ucudnn
from harness.calls import largest, worst

TOLERANCE = 1e-5


def tree(draw, nodes):
    children = [[] for _ in range(nodes)]
    for node in range(nodes - 1):
        children[draw.randrange(node + 1, nodes)].append(node)
    return children


def cases(seed):
    """A name, the inputs, the units and the trees of each case."""
    for hidden in (1, 7, 8, 16, 20, 32, 33, 64, 65, 100, 128, 150, 256, 512):
        draw = random.Random(seed * 1000 + hidden)
        yield f"{hidden} units, five trees", 12, hidden, [tree(draw, nodes) for nodes in (17, 1, 1, 9, 120)]
    draw = random.Random(seed)
    for inputs in (1, 3, 16, 300):
        yield f"{inputs} inputs", inputs, 32, [tree(draw, nodes) for nodes in (17, 1, 9, 60)]
    for nodes in (2, 3, 5, 8, 30, 200):
        yield f"four trees of {nodes} nodes", 16, 32, [tree(draw, nodes) for _ in range(4)]
    for count in (1, 2, 8, 16, 31, 32, 33, 64, 200):
        yield f"{count} trees of 30 nodes", 16, 32, [tree(draw, 30) for _ in range(count)]
    for leaves in (1, 2, 3, 9, 40):
        yield f"a root with {leaves} leaves", 16, 32, [[[] for _ in range(leaves)] + [list(range(leaves))]] * 3


def results(net, batch, rows):
    net.zero_grad()
    rows = rows.requires_grad_()
    h, _ = net(batch, rows)
    h.square().sum().backward()
    return [h, rows.grad, *(parameter.grad.clone() for parameter in net.parameters())]


def main(seed):
    torch.manual_seed(seed)
    wrong = 0
    for name, inputs, hidden, trees in cases(seed):
        net = ucudnn.nn.ChildSumTreeLSTM(inputs, hidden).cuda()
        exact = ucudnn.nn.ChildSumTreeLSTM(inputs, hidden).double()
        exact.load_state_dict({key: value.double().cpu() for key, value in net.state_dict().items()})
        batch = ucudnn.Graphs(trees).batch(range(len(trees)))
        most, first = 0.0, None
        drawn = [torch.randn(len(batch.rows), inputs) for _ in range(2)]
        for rows in (*drawn, drawn[0]):
            got = results(net, batch, rows.cuda().clone())
            most = largest([most, worst(got, results(exact, batch, rows.double()))])
            first = first or got
        is_equal = all(map(torch.equal, got, first))
        is_wrong = not most < TOLERANCE or not is_equal
        wrong += is_wrong
        bits = "" if is_equal else ", other bits the next time"
        print(f"{'WRONG' if is_wrong else 'ok':6} {name}: {most:.1e} off{bits}")
    return wrong > 0


sys.exit(main(int(sys.argv[1])))
