"""What gpu.sh's runs left, as text: `checked REPORT` sums up a run with UCUDNN_CHECK=1, `table FOLDER` all runs."""

import json
import pathlib
import sys

HEADER = ["network", "batch", "type", "format", "limit", "plain ms", "with us", "speed-up", "plain MiB", "with us",
          "divided", "slower", "planning s", "norms"]  # fmt: skip
LEFT = {0, 2, 3, 4}


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def is_divided(plan):
    return sum(part["count"] for part in plan["parts"]) > 1


def checked(report):
    found = events(pathlib.Path(report))
    divisions = {e["division"] for e in found if e["event"] in ("asked", "ran") and is_divided(e)}
    runs = [e for e in found if e["event"] == "checked"]
    errors = [e["error"] for e in runs if e["error"] is not None]
    over = [e for e in runs if e["error"] is not None and e["error"] > e["tolerance"]]
    print(f"{len(runs)} runs of plans, {sum(e['division'] in divisions for e in runs)} of them divided, largest "
          f"difference {max(errors, default=0):.1e}, {len(over)} over the tolerance, "
          f"{len(runs) - len(errors)} not comparable")  # fmt: skip
    for event in over[:5]:
        print(f"         {event['kernel']}: {event['division']}: {event['error']:.1e}")
    if over or not runs:
        sys.exit(1)


def row(folder, network, kind, layout, limit):
    name = f"{network}-{kind}-{layout}-{limit}"
    files = [folder / f"{name}-{run}.json" for run in ("plain", "with")]
    if not all(file.exists() for file in files):
        return [network, "", kind, layout, limit] + ["–"] * (len(HEADER) - 5)
    plain, ours = (json.loads(file.read_text()) for file in files)
    pairs = list(zip(plain["kernels"], ours["kernels"], strict=True))
    norms = max(abs(b["norm"] - a["norm"]) / a["norm"] if a["norm"] and b["norm"] else float("inf") for a, b in pairs)
    plans = {e["kernel"]: e for e in events(folder / f"{name}-with.jsonl") if e["event"] in ("asked", "ran")}
    slower = sum(b["median_ms"] > 1.05 * a["median_ms"] for a, b in pairs)
    return [
        network, str(plain["kernels"][0]["x"][0]), kind, layout, limit,
        f"{plain['total_ms']:.2f}", f"{ours['total_ms']:.2f}", f"{plain['total_ms'] / ours['total_ms']:.2f}×",
        f"{plain['workspace_total'] / 2**20:.1f}", f"{ours['workspace_total'] / 2**20:.1f}",
        f"{sum(map(is_divided, plans.values()))}/{len(pairs)}", str(slower), f"{ours['asking_ms'] / 1e3:.1f}",
        f"{norms:.0e}",
    ]  # fmt: skip


def table(folder):
    folder = pathlib.Path(folder)
    print((folder / "gpu.txt").read_text().strip())
    print("Milliseconds an iteration, MiB of workspace of all kernels, seconds of planning; divided: kernels whose\n"
          "plan has several micro-batches; slower: kernels more than 5% slower than plain; norms: the largest\n"
          "relative difference of two kernels' results in their norms. float is cuDNN's default, which allows TF32;\n"
          "fma is float without it; half is with tensor cores.\n")  # fmt: skip
    rows = [HEADER] + [row(folder, *line.split()) for line in (folder / "runs.txt").read_text().splitlines()]
    widths = [max(len(r[column]) for r in rows) for column in range(len(HEADER))]
    for r in rows:
        print("  ".join(cell.ljust(w) if c in LEFT else cell.rjust(w)
                        for c, (cell, w) in enumerate(zip(r, widths))).rstrip())  # fmt: skip
    print("\n" + (folder / "checks.txt").read_text(), end="")


if __name__ == "__main__":
    {"checked": checked, "table": table}[sys.argv[1]](sys.argv[2])
