"""The cells of the table, and their order: the most valuable first.

A cell is a mode (eager, graphs, compile) of a run. A run is a process: a configuration under a policy, in a round. A
group's policies take turns with plain, forwards in one round and backwards in the next (A B C, C B A, …), and are
compared with that group's plain runs only. In NCHW one more plain run takes its turn: of the same network in
channels_last, which a program could use instead of the library.
"""

from dataclasses import dataclass

from harness.arguments import is_like
from harness.rounds import in_turn

MODES = ("eager", "graphs", "compile")
NETWORKS = ("resnet50", "alexnet", "resnet18", "vgg16", "unet", "resnext50", "wide_resnet50", "inception_v3", "densenet121",
            "convnext_t", "efficientnet_b0", "mobilenet_v3", "resnet18_3d", "nnunet_3d", "segresnet", "regnet_y", "vae_decoder", "latent_unet")  # fmt: skip
LAYOUTS = ("nchw", "channels_last")
PRECISIONS = ("half", "tf32", "bfloat16", "float")
LIMITS = ("0", "8MiB", "64MiB", "512MiB")
TOTAL = "512MiB"
PLAIN = "plain"
# The plain run in channels_last among the runs in NCHW. Runs in channels_last have a plain run of their own.
BESIDE = "plain beside nchw"
# More than any GPU has, so that only its own needs bound a convolution's workspace.
UNLIMITED = "1024GiB"


def policies():
    """Each policy's variables for libucudnn.so."""
    found = {"unset": {}}
    for limit in (*LIMITS, "unlimited"):
        variables = {"UCUDNN_WORKSPACE_LIMIT": UNLIMITED if limit == "unlimited" else limit}
        found[limit] = variables
        found[f"undivided {limit}"] = variables | {"UCUDNN_BATCH_SIZE_POLICY": "undivided"}
    return found | {f"division {TOTAL}": {"UCUDNN_TOTAL_WORKSPACE_SIZE": TOTAL}}


POLICIES = policies()
HEADLINE = ("unset", "64MiB", "undivided 64MiB")
REST = tuple(policy for policy in POLICIES if policy not in HEADLINE)
# The policies that show whether micro-batches gain by keeping a layer's data in the L2 cache.
CACHE = ("unlimited", "undivided unlimited")


@dataclass(frozen=True)
class Run:
    network: str
    layout: str
    precision: str
    benchmark: str
    modes: tuple
    group: str  # policies of a group share plain runs
    policy: str
    round: int

    @property
    def configuration(self):
        return (self.network, self.layout, self.precision, self.benchmark)

    @property
    def name(self):
        return "/".join((*self.configuration, "+".join(self.modes), self.policy, f"round {self.round}"))

    def cells(self):
        return [(*self.configuration, mode, self.group, self.policy, self.round) for mode in self.modes]


def phases():
    """Lists of configurations, modes and policies, the most valuable first. All rounds of a list run before the next
    list begins. Modes in one tuple share a process."""
    together = ("eager", "graphs")
    everything = [(layout, precision) for layout in LAYOUTS for precision in PRECISIONS]
    head, rest, full = ("headline", HEADLINE), ("rest", REST), ("full", tuple(POLICIES))
    first, others = NETWORKS[:1], NETWORKS[1:]
    base = [("nchw", "half")]

    def stage(networks, pairs, benchmark, modes, group):
        return [(network, *pair, benchmark, modes, *group) for pair in pairs for network in networks]

    yield stage(first, base, "off", together, full) + stage(others, base, "off", together, head)
    yield stage(first, base, "on", together, head)
    yield stage(first, everything[1:], "off", together, head)
    yield stage(first, base, "off", ("compile",), head)
    yield stage(["vgg16"], base, "off", together, ("cache", CACHE))
    yield stage(others, everything[1:], "off", together, head)
    yield stage(first, everything[1:], "off", together, rest)
    yield stage(first, everything[1:], "on", together, head)
    yield stage(others, everything, "on", together, head)
    yield stage(first, everything[1:], "off", ("compile",), head) + stage(others, everything, "off", ("compile",), head)
    yield stage(others, everything, "off", together, rest)
    yield stage(first, everything, "on", together, rest)
    yield stage(others, everything, "on", together, rest)
    yield stage(NETWORKS, everything, "on", ("compile",), head)
    for benchmark in ("off", "on"):
        yield stage(NETWORKS, everything, benchmark, ("compile",), rest)


def turns(rounds, modes, patterns=()):
    """Runs in order, as lists that belong together: plain is compared with runs near it.

    Only runs in these modes. `patterns` choose cells by `network/layout/precision/benchmark/mode/policy`, and their
    plain runs with them.
    """
    for begin in range(0, rounds, 2):
        for phase in phases():
            for number in range(begin, min(begin + 2, rounds)):
                for *configuration, its_modes, group, names in phase:
                    its_modes = tuple(mode for mode in its_modes if mode in modes)
                    its_modes, names = wanted(configuration, its_modes, names, patterns)
                    if its_modes:
                        rest = (its_modes, group)
                        turn = [Run(*configuration, *rest, policy, number + 1) for policy in (PLAIN, *names)]
                        if other := beside(configuration):
                            turn.insert(1, Run(*other, *rest, BESIDE, number + 1))
                        yield in_turn(turn, number)


def beside(configuration):
    """The configuration in channels_last that one in NCHW is compared with; `None` for other layouts."""
    network, layout, *others = configuration
    return (network, "channels_last", *others) if layout == "nchw" else None


def wanted(configuration, modes, names, patterns):
    """The modes and policies that match a pattern; all if there are no patterns."""

    def fits(mode, policy):
        return is_like("/".join((*configuration, mode, policy)), patterns)

    return (
        tuple(mode for mode in modes if any(fits(mode, policy) for policy in names)),
        tuple(policy for policy in names if any(fits(mode, policy) for mode in modes)),
    )
