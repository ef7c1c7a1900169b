"""What a pack brings, at work: run by `test_packs.py` in a process that finds the pack of `tests/toy_pack`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import discreet as dc
from discreet.cli.cli import app
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
