"""Where the default's intervals are right: coverage by stratum on many networks, `python -m bench.strata`.

Each run draws 10,000 records of a network, releases them by `planned` with simulated noise, and reads the release by
`noise_aware` as it stands. Printed are coverage in per cent ± standard error by run (mean width) of every stratum of
every network, relation and epsilon; the same over all of them; and what does not hold what must hold: entries,
marginals and conditionals 93 to 97 %, strata of 100 numbers or more 90 %, entries at 0 or 1 85 %.

`--output STEM` writes tidy rows as STEM.parquet and STEM.csv. `--compare BEFORE.parquet` sets the run, or what
`--read` names in place of a run, beside an earlier one on the same releases: what is drawn depends on network,
relation, epsilon, records, seed set and run alone, never on the posterior.

Networks are asia, those of $DISCREET_DATA/networks, made-up ones (`experiments.generated`), or groups of them:
"public", "generated", "small", and "confirming", which is to be looked at only after a choice was made on others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

import discreet as dc
from discreet.util.progress import under_way
from experiments.generated import CONFIRMING, MADE_UP, RECIPES, SMALL, generated
from experiments.strata import Known, Setting, measured

from .coverage import network_for
from .strata_tables import compared, judged, places, pooled, read, stored, violations, worsened

__all__ = ["GROUPS", "known", "main", "study"]

GROUPS = {
    "public": ("asia", "sachs", "child", "alarm", "insurance", "win95pts", "hailfinder"),
    "generated": tuple(RECIPES),
    "confirming": tuple(CONFIRMING),
    "small": tuple(SMALL),
}
EPSILONS = ("0.1", "0.3", "1", "3", "10")


def known(names: Sequence[str]) -> Iterator[Known]:
    """Networks with what is asked of them; those that are not there are skipped, and stderr says so.

    Args:
        names: of networks or of groups.

    Yields:
        Each once.
    """
    for name in dict.fromkeys(one for given in names for one in GROUPS.get(given, (given,))):
        try:
            yield Known.of(name, generated(name) if name in MADE_UP else network_for(name))
        except FileNotFoundError as missing:
            print(f"skipped {name}: {missing}", file=sys.stderr)


def study(
    names: Sequence[str],
    epsilons: Sequence[str],
    relations: Sequence[str],
    *,
    runs: int,
    seeds: int,
    records: int,
    draws: int,
    estimated: bool,
) -> pd.DataFrame:
    """Measure.

    Args:
        names: of networks or of groups.
        epsilons: nats.
        relations: of the guarantees.
        runs: of each place.
        seeds: the seed set; those of different sets are independent.
        records: of each release.
        draws: of each posterior.
        estimated: whether the errors of `estimate` are measured, too.

    Returns:
        Tidy rows, see `bench.strata_tables`.
    """
    rows: list[dict[str, Any]] = []
    networks = list(known(names))
    total, done = len(networks) * len(relations) * len(epsilons) * runs, 0
    with under_way("strata") as bar:
        for network, relation, epsilon, run in product(networks, relations, epsilons, range(runs)):
            bar.label = f"{network.name}, {relation}, epsilon {epsilon}"
            found = measured(network, Setting(epsilon, relation, records, draws), (seeds, run), estimated=estimated)
            where = {"network": network.name, "relation": relation, "epsilon": float(epsilon)}
            where |= {"records": records, "draws": draws, "seeds": seeds, "run": run}
            for stratum, tally in found.tallies.items():
                rows.append({**where, "stratum": stratum, **asdict(tally), "seconds": found.seconds})
            done += 1
            bar(done, total)
    return pd.DataFrame(rows)


def report(rows: pd.DataFrame) -> str:
    """What was measured, as text.

    Args:
        rows: tidy rows, at least one.

    Returns:
        Tables, and what does not hold.
    """
    found = violations(rows)
    far, number = sum(one.far for one in found), len(judged(rows))
    listed = "".join(f"- {one}\n" for one in found)
    return (
        f"## Coverage of 95 % intervals, % ± standard error (mean width)\n\n{places(rows)}\n"
        f"## Over all places\n\n{pooled(rows)}\n"
        f"## What must hold\n\n{len(found)} of {number} in breach, {far} by more than two standard errors\n\n{listed}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, run, print, write.

    Args:
        arguments: None for those of the process.
    """
    relations = [str(relation) for relation in dc.tools.RECORD_RELATIONS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=["public", "generated"], help="names, BIF files or groups")
    parser.add_argument("--epsilon", nargs="+", default=list(EPSILONS), help="nats")
    parser.add_argument("--relations", nargs="+", choices=relations, default=relations)
    parser.add_argument("--runs", type=int, default=3, help="of each network, relation and epsilon")
    parser.add_argument("--seeds", type=int, default=1, help="seed set")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=400, help="of each posterior")
    parser.add_argument("--estimate", action="store_true", help="errors of `estimate` as well")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "strata", help="a stem")
    parser.add_argument("--read", type=Path, nargs="+", help="Parquet files to show in place of a run")
    parser.add_argument("--compare", type=Path, nargs="+", help="Parquet files of an earlier run")
    given = parser.parse_args(arguments)
    try:
        _run(given)
    except dc.DiscreetError as error:
        parser.error(str(error))


def _run(given: argparse.Namespace) -> None:
    """Do what the command line says."""
    before = read(given.compare) if given.compare else None  # before what takes long
    if given.read:
        rows = read(given.read)
    else:
        rows = study(
            given.networks,
            given.epsilon,
            given.relations,
            runs=given.runs,
            seeds=given.seeds,
            records=given.records,
            draws=given.draws,
            estimated=given.estimate,
        )
        if rows.empty:
            raise SystemExit("nothing to run: no network is there")
        stored(rows, given.output)
    print(report(rows))
    if before is not None:
        lines = "".join(f"- {line}\n" for line in worsened(before, rows))
        print(f"## Before and after\n\n{compared(before, rows)}\n## Wider or worse than allowed\n\n{lines}")


if __name__ == "__main__":
    main()
