"""What a pack brings, at work: run by `test_packs.py` in a process that finds the pack of `tests/toy_pack`."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from toy_kinds import TwiceCounts
from typer.testing import CliRunner

import discreet as dc
from discreet.cli.cli import app
from discreet.mechanisms.crossing import Mechanism
from discreet.verify.script import Lost
from networks import asia
from serving import Local

folder = Path(sys.argv[1])
network = asia().network
promise = dc.Guarantee(epsilon=2, delta=0, relation="add-remove", unit="record")

# offered, and found where the package's own are
assert "twice" in dc.tools.MECHANISMS and next(iter(dc.tools.MECHANISMS)) == "planned"
mechanism = dc.tools.MECHANISMS["twice"]()

# audited: what it reveals is what it promises
assert {finding.measured for finding in dc.audit(mechanism, promise)} == {2.0}

# a pack that is wrong is found: too little noise, none, noise of its own source, or what cannot be followed


def wrong(make: Callable[[np.ndarray, float, Any], np.ndarray]) -> Mechanism:
    """The mechanism with something else in every table than it promises."""

    def draw(statistic: Any, prior: Any, calibration: Any, noise: Any) -> Any:
        tables = {node: make(table, calibration.scale, noise) for node, table in statistic.tables.items()}
        return TwiceCounts(statistic.network, tables, calibration.scale)

    return Mechanism("twice", mechanism.calibrate, draw)


half = wrong(lambda table, scale, noise: noise.discrete_laplace(table, scale / 2))
bare = wrong(lambda table, scale, noise: table)
own = wrong(lambda table, scale, noise: table + np.random.default_rng(1).integers(-9, 9, table.shape))
assert {finding.measured for finding in dc.audit(half, promise)} == {4.0}
assert all(math.isinf(finding.measured) for one in (bare, own) for finding in dc.audit(one, promise))
try:
    dc.audit(wrong(lambda table, scale, noise: np.rint(noise.log_gamma(table + 1.0)).astype(np.int64)), promise)
except Lost:
    pass
else:
    raise AssertionError("what cannot be followed was called audited")

# planned beside the others
expected = dc.plan(asia(), promise, 5000, rng=1, repeats=1, mechanisms={"twice": mechanism})
assert expected[-1].mechanism == "twice" and expected[-1].cells < 0.05, expected

# released, stored, read
rng = np.random.default_rng(1)
records = dc.tools.simulate_records(asia(), 5000, rng=rng)
counts = dc.count(dc.read_records(records, network.schema), network)
account = dc.Ledger(f"sqlite:///{folder}/ledger.db").open("toy", promise)
release = dc.release(mechanism, counts, dc.Dirichlet.uniform(network), promise, account=account)
release.save(folder / "toy.json")
again = dc.load(folder / "toy.json")
assert again.dumps() == release.dumps() and "twice discrete Laplace noise" in again.summary()
assert again.to_frame("arrow").to_pylist()[0]["noise"] == "twice_laplace"
row = again.posterior(rng=1).answer("P(smoke=yes)").rows[0]
assert row["lower"] < row["upper"] and abs(row["mean"] - 0.5) < 0.1, row  # noise of the system: a dozen deviations
assert "toy" not in dc.report(again) and "twice" in dc.report(again)

# from the shell and over HTTP
run = CliRunner().invoke(app, ["query", str(folder / "toy.json"), "P(smoke=yes)", "--json"])
assert run.exit_code == 0, run.output
told = json.loads(run.stdout)["answers"][0]["values"][0]
assert told["lower"] < told["mean"] < told["upper"]
listed = CliRunner().invoke(app, ["audit", "--help"])
assert listed.exit_code == 0
with Local([folder / "toy.json"]) as server:
    (one,) = server.ask("/releases/toy/marginals").json()["answers"][:1]
    assert one["values"][0]["lower"] < one["values"][0]["upper"]
print("the pack is at work")
