"""What the tests of every change cost, and find, by tier: `make ci-figures` writes it into CONTRIBUTING.md.

`python tests/ci_figures.py FILE` takes the CPU seconds of each test from the lines that `pytest --cpu FILE` wrote. It
fails if a test takes clearly more than its tier allows: mark it costly and say why it is worth its time, or make it
cheaper.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

from planting import ROOT, mutants, read

__all__ = ["main", "table"]

PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- figures of the tests: make ci-figures -->", "<!-- end of the figures -->"
TIERS = ("quick", "always", "costly")
"""Tests of less than a second; costly ones that run in every run; costly ones that run when what they read changed."""
LIMIT = 1.0
"""CPU seconds of a quick test."""
TOLERANCE = 1.5
"""A test is named where it took so many times the limit: one that shares a machine takes up to half as long again."""


def table(costs: list[tuple[str, str, float]]) -> str:
    """Tabulate tests, CPU seconds and planted bugs by tier.

    Args:
        costs: of each test its node id, tier and CPU seconds.
    """
    tiers = {name.partition("[")[0]: tier for name, tier, _ in costs}
    kills = Counter[str]()
    for mutant in map(read, mutants()):
        found = {tiers.get(test.partition("[")[0]) for test in mutant.tests}
        kills[next((tier for tier in TIERS if tier in found), "another")] += 1
    lines = ["| tier | tests | CPU seconds | planted bugs it finds |", "|---|---|---|---|"]
    for tier in TIERS:
        seconds = [cost for _, of, cost in costs if of == tier]
        lines.append(f"| {tier} | {len(seconds):,} | {sum(seconds):,.0f} | {kills[tier]} |")
    lines.append(f"| `thorough`, `slow`, or a whole file | | | {kills['another']} |")
    return "\n".join(lines)


def main(path: str) -> int:
    """Write the table of a run; 1 if a test that is not marked took much longer than a quick one may."""
    costs = [tuple(json.loads(line)) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    text = PAGE.read_text(encoding="utf-8")
    between = re.compile(rf"(?<={re.escape(BEGIN)}\n).*?(?={re.escape(END)})", re.DOTALL)
    PAGE.write_text(between.sub(lambda _: f"\n{table(costs)}\n\n", text), encoding="utf-8")
    slow = sorted((cost, name) for name, tier, cost in costs if tier == "quick" and cost > LIMIT * TOLERANCE)
    for cost, name in slow:
        print(f"{name}: {cost:.1f} CPU seconds; mark it costly, with a reason, or make it cheaper")
    return int(bool(slow))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
