"""The flow on the kernel alone, run by `test_kernel_alone.py` in a process without packs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import discreet as dc
from discreet.cli.cli import app
from networks import asia

folder, foreign = Path(sys.argv[1]), sys.argv[2:]
network = asia().network
promise = dc.Guarantee(epsilon=2, delta=0, relation="add-remove", unit="record")
assert list(dc.tools.MECHANISMS) == ["planned", "laplace", "gaussian", "structure"]

# a network: released, stored, read, asked
rng = np.random.default_rng(1)
records = dc.tools.simulate_records(asia(), 5000, rng=rng)
counts = dc.count(dc.read_records(records, network.schema), network)
account = dc.Ledger(f"sqlite:///{folder}/ledger.db").open("kernel", promise)
release = dc.release(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, account=account)
release.save(folder / "release.json")
posterior = dc.load(folder / "release.json").posterior(draws=200, rng=1)
row = posterior.answer("P(smoke=yes)").rows[0]
assert row["lower"] < row["mean"] < row["upper"] and abs(row["mean"] - 0.5) < 0.1, row
assert all(finding.holds for finding in dc.audit(dc.laplace(), promise, most=1))
told = CliRunner().invoke(app, ["query", str(folder / "release.json"), "P(lung|smoke=yes)", "--json"])
assert told.exit_code == 0 and len(json.loads(told.stdout)["answers"][0]["values"]) == 2, told.output

(folder / "asia.bif").write_text("network asia { }")

# what a pack would bring is refused in a sentence
for path in foreign:
    try:
        dc.load(path)
    except dc.InputError as error:
        print(error)
try:
    print(dc.research)
except dc.InputError as error:
    print(error)
for options in ("--score score.json", "--score score.json --option draws=2", "--design design.json"):
    told = CliRunner().invoke(app, ["plan", *options.split(), "--epsilon", "1", "--records", "9"])
    assert isinstance(told.exception, dc.InputError) and "not installed" in str(told.exception), told.exception
doors = (lambda: dc.decide, lambda: dc.decisions.payoff, lambda: dc.plan_accuracy, lambda: dc.tools.to_arviz)
for wanted in (*doors, lambda: dc.predict, lambda: dc.explain, lambda: dc.report):
    try:
        print(wanted())
    except dc.InputError as error:
        print(error)
try:
    dc.tools.parse_query("P(lung=yes) - P(bronc=yes)", network.schema)
except dc.InputError as error:
    assert "discreet.questions" in str(error), error
else:
    raise AssertionError("a question was read without its pack")
options = ["decide", str(folder / "release.json"), "--quantity", "P(lung=yes)"]
told = CliRunner().invoke(app, options)
assert isinstance(told.exception, dc.InputError) and "discreet.deciding" in str(told.exception), told.exception
assert not {"decide", "plan_accuracy"} & set(dir(dc)) and dir(dc.decisions) == []
for wanted in (lambda: dc.Network.read(folder / "asia.bif"), lambda: asia().text(), network.to_networkx):
    try:
        print(wanted())
    except dc.InputError as error:
        print(error)
packs = tuple(
    f"discreet.{pack}"
    for pack in [
        "interchange",
        "deciding",
        "predicting",
        "reporting",
        "questions",
        "latent",
        "accuracy",
        "designs",
        "research",
        "evidence",
        "estimators",
        "server",
    ]
)
assert not [name for name in sys.modules if name.startswith(packs)]
print("the kernel is at work")
