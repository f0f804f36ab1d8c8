# SPDX-License-Identifier: BSL-1.0
"""Plans that recompute and move values, against peers' on the committed graphs: moves_peers.py ECHO_PLAN GRAPH…

The peers' plans are those of peer_plans.py, over a link of 25 GB/s each way; tests/replay.py judges them. `echo-plan` is then
asked for the least time, of recomputation and waits, within each peer's peak. Times are those of the model of
docs/formats.md. Written to bench/results/offload-peers.json."""
import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / each) for each in ("bench", "tests")]

import peer_plans  # noqa: E402
import replay  # noqa: E402
import results  # noqa: E402

GIGABYTES = 25
PEERS = {"pytorch": lambda peer: peer_plans.pytorch(peer, prefetch=False),
         "prefetch": lambda peer: peer_plans.pytorch(peer, prefetch=True), "torchtitan": peer_plans.torchtitan}
NAMES = {"pytorch": "PyTorch's pass, as it is by default", "prefetch": "PyTorch's pass with prefetching",
         "torchtitan": "torchtitan's sac_and_offload"}
BAR = 0.5


def of_peer(graph, peer, plan):
    """The peak in bytes and the added time, a part of a step. Errors: the plan is none."""
    verdict = replay.judge(graph, plan)
    if not verdict.ok:
        raise SystemExit(f"{graph['name']}: {verdict.violations[0]}")
    found, nodes = verdict.replay, peer.nodes
    again = sum(nodes[step.node].time_us for step in found.steps if step.recompute)
    waits = replay.waits(found.steps, found.reads, replay.read_link(plan["link"]), lambda n: nodes[n].time_us)
    return found.peak, (again + waits) / sum(node.time_us for node in nodes)


def of_echo(echo_plan, path, budget):
    """The added time of the plan within the budget, or None."""
    done = subprocess.run([echo_plan, path, "--budget", str(budget), "--offload", f"{GIGABYTES}GB/s", "--json"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{path}: echo-plan returned {done.returncode}")
    report = json.loads(done.stdout)
    return None if done.returncode else report["recompute_time_ratio"] + report["stall_time_ratio"]


def compare(echo_plan, path):
    graph = replay.load(path)
    peer = peer_plans.Peer(graph, 1e3 * GIGABYTES)
    row = {"graph": pathlib.Path(path).name.removesuffix(".json.gz")}
    asked = {}
    for name, plan_of in PEERS.items():
        plan = plan_of(peer) if peer.has_two_halves() else None
        if plan is None:
            row |= {f"{name} MB": None, f"{name} %": None, f"{name}: Echo %": None}
            continue
        peak, added = of_peer(graph, peer, plan)
        if peak not in asked:
            asked[peak] = of_echo(echo_plan, path, peak)
        mine = asked[peak]
        row |= {f"{name} MB": round(peak / 1e6, 1), f"{name} %": round(100 * added, 3),
                f"{name}: Echo %": None if mine is None else round(100 * mine, 3)}
    return row


def bars(rows):
    found = []
    for name, words in NAMES.items():
        asked = [row for row in rows if row[f"{name} MB"] is not None]
        met = [row for row in asked if row[f"{name}: Echo %"] is not None]
        ratios = [row[f"{name}: Echo %"] / row[f"{name} %"] for row in met if row[f"{name}: Echo %"] > 0 and row[f"{name} %"] > 0]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        found.append({"bar": f"added time at the peak of {words}, Echo ÷ peer, geometric mean", "value": round(mean, 4),
                      "limit": BAR, "passed": mean <= BAR, "counted": len(ratios), "worst": round(max(ratios), 3),
                      "Echo needs none": sum(row[f"{name}: Echo %"] == 0 for row in met),
                      "not met": ", ".join(row["graph"] for row in asked if row not in met)})
    return found


def main():
    echo_plan, *graphs = sys.argv[1:]
    rows = []
    for path in sorted(graphs, key=lambda path: pathlib.Path(path).name):
        rows.append(compare(echo_plan, path))
        print(rows[-1], flush=True)
    results.write("offload-peers", rows, bars=bars(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
