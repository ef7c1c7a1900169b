"""Several releases as one piece of evidence: the document, and what cannot be combined."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from folding import every
from networks import asia
from releases import guarantee, noisy_release, simulated

NETWORK = dc.Network((dc.Variable("x", ("no", "yes")), dc.Variable("y", ("no", "yes"))), {"x": (), "y": ("x",)})
PRIOR = dc.Dirichlet.uniform(NETWORK)


def told(seed: int, records: int | None = None) -> dc.Release:
    """A release of the pair with noisy counts that depend on the seed, and an id of its own."""
    table = np.random.default_rng(seed).integers(0, 30, (2, 2))
    return replace(noisy_release(PRIOR, {"y": table}, 2.0, records), id=f"{seed:032x}", private=True)


def counted(table: list[list[int]]) -> dc.Tables:
    y = np.array(table)
    return dc.Tables(NETWORK, {"x": y.sum(axis=1), "y": y})


def ids(combined: dc.results.Combined) -> list[list[str]]:
    return [[release.id for release in releases] for releases in combined.data_sets]


def test_same_data_stays_together_and_different_data_apart() -> None:
    a, b, c, d = map(told, range(4))
    assert ids(dc.combine(a, b, data="same")) == [[a.id, b.id]]
    assert ids(dc.combine(a, b, data="different")) == [[a.id], [b.id]]
    nested = dc.combine(dc.combine(a, b, data="same"), dc.combine(c, d, data="different"), data="different")
    assert ids(nested) == [[a.id, b.id], [c.id], [d.id]]
    assert [release.id for release in nested.releases] == [a.id, b.id, c.id, d.id]


def test_what_holds_for_a_record_of_each_data_set() -> None:
    a, b, c = told(0), told(1), told(2, records=40)
    combined = dc.combine(dc.combine(a, b, data="same"), c, data="different")
    assert combined.guarantees == (guarantee(2), guarantee(1, "replace"))
    assert combined.records == (None, 40)
    mixed = dc.combine(a, c, data="same")
    assert mixed.guarantees == (None,)
    assert mixed.records == (40,)
    assert combined.private
    made_up = dc.combine(a, replace(b, private=False), data="same")
    assert not made_up.private and made_up.guarantees == (None,)


def test_the_document_comes_back(tmp_path: Path) -> None:
    made = dc.combine(
        dc.combine(told(0), told(1), data="same"), told(2), data="different", public=counted([[3, 1], [0, 9]])
    )
    made.save(tmp_path / "both.json")
    back = dc.load(tmp_path / "both.json")
    assert isinstance(back, dc.results.Combined)
    assert back.dumps() == made.dumps()
    assert ids(back) == ids(made)
    assert back.public is not None and np.array_equal(back.public["y"], [[3, 1], [0, 9]])
    with pytest.raises(FileExistsError):
        made.save(tmp_path / "both.json", replace=False)
    assert isinstance(dc.tools.loads(told(0).dumps()), dc.Release)
    assert dc.tools.loads(dc.combine(told(0), data="same").dumps()).public is None  # type: ignore[union-attr]


@every(
    ("change", "message"),
    [
        (lambda d: d.update(version=2), "version"),
        (lambda d: d.update(version=True), "version"),
        (lambda d: d.update(format="discreet-other"), "format"),
        (lambda d: d.update(more=1), "no others"),
        (lambda d: d.pop("public"), "public"),
        (lambda d: d.update(data_sets=[]), "no release"),
        (lambda d: d.update(data_sets=[[]]), "no release"),
        (lambda d: d.update(data_sets={}), "lists"),
        (lambda d: d.update(data_sets=[d["data_sets"][0] * 2]), "twice"),
        (lambda d: d.update(data_sets=[[1]]), "not a release"),
        (lambda d: d.update(data_sets=[*d["data_sets"], []]), "nothing to combine"),
        (lambda d: d.update(public={"x": [1, 2]}), "every node"),
        (lambda d: d["public"].update(x=[1]), "public.x"),
        (lambda d: d["public"].update(x=[1.0, 2]), "public.x"),
        (lambda d: d["public"].update(x=[-1, 2]), "public.x"),
        (lambda d: d["public"].update(x=[True, 2]), "public.x"),
        (lambda d: d["public"].update(x=[2**63, 2]), "public.x"),
        (lambda d: d["public"].update(x=[1, 2]), "same total"),
        (lambda d: d["public"].update(x=[5, 8]), "disagree"),
    ],
)
def test_a_damaged_document_is_refused(change: object, message: str) -> None:
    raw = json.loads(dc.combine(told(0), data="same", public=counted([[3, 1], [0, 9]])).dumps())
    change(raw)  # type: ignore[operator]
    with pytest.raises(dc.InputError, match=message):
        dc.results.Combined.loads(json.dumps(raw))


@every("text", ["", "[1]", "3", '{"format": "bif"}', '{"format": "discreet-combined", "format": "x"}'])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(dc.InputError):
        dc.tools.loads(text)
    with pytest.raises(dc.InputError):
        dc.results.Combined.loads(text)


def test_what_cannot_be_combined() -> None:
    a, b = told(0), told(1)
    for wrong, message in [
        (lambda: dc.combine(a, b, data="both"), "are same or different"),  # type: ignore[arg-type]
        (lambda: dc.combine(data="same"), "at least one release"),
        (lambda: dc.combine(a, a, data="different"), "twice"),
        (lambda: dc.combine(a, dc.combine(a, b, data="same"), data="different"), "twice"),
        (lambda: dc.combine(dc.combine(a, b, data="different"), told(2), data="same"), "same one"),
        (lambda: dc.combine(told(3, records=4), told(4, records=5), data="same"), "numbers of records"),
        (lambda: dc.combine(a, simulated(asia(), 20, guarantee(), np.random.default_rng(0)), data="same"), "networks"),
        (lambda: dc.combine(a, data="same", public=counted([[1, 2], [-1, 0]])), "not negative"),
        (lambda: dc.combine(a, data="same", public=dc.Tables(NETWORK, {"x": [1, 2], "y": [[1, 0], [0, 1]]})), "total"),
        (lambda: dc.combine(a, data="same", public=PRIOR.alpha), "whole numbers"),
        (lambda: dc.combine(a, data="same", public=dc.Tables(NETWORK, {"x": [3, 0], "y": [[0, 0], [2, 1]]})), "disagr"),
        (lambda: dc.combine(dc.combine(a, data="same", public=counted([[1, 0], [0, 0]])), b, data="different",
                            public=counted([[1, 0], [0, 0]])), "given twice"),
        (lambda: dc.combine(3, data="same"), "release"),  # type: ignore[arg-type]
    ]:  # fmt: skip
        with pytest.raises(dc.InputError, match=message):
            wrong()


def test_curators_with_different_priors_leave_it_to_the_reader() -> None:
    other = replace(told(1), prior=dc.Dirichlet.uniform(NETWORK, 3.0))
    combined = dc.combine(told(0), other, data="different")
    with pytest.raises(dc.InputError, match="different priors"):
        dc.noise_aware(combined, draws=10, rng=np.random.default_rng(0))
    read = dc.noise_aware(combined, draws=10, rng=np.random.default_rng(0), prior=PRIOR, method="sequential")
    assert read.method == "sequential"


def test_public_records_are_counted_as_they_are(tmp_path: Path) -> None:
    records = dc.tools.simulate_records(asia(), 300, rng=np.random.default_rng(4))
    network = asia().network
    counts = dc.external.public_counts(records, network)
    codes = {name: records[name].to_pylist() for name in network.nodes}
    both = sum(1 for a, b in zip(codes["smoke"], codes["lung"], strict=True) if (a, b) == ("yes", "no"))
    states = network.schema["smoke"].states, network.schema["lung"].states
    assert counts["lung"][states[0].index("yes"), states[1].index("no")] == both
    assert int(counts["asia"].sum()) == 300


def test_public_records_count_where_data_sets_are_read_one_after_the_other() -> None:
    """Ten thousand of them outweigh two data sets of some sixty records."""
    public = counted([[9000, 1000], [1000, 9000]])
    both = dc.combine(told(1), told(2), data="different", public=public)
    found = dc.noise_aware(both, draws=200, rng=np.random.default_rng(5), prior=PRIOR, method="sequential").mean()["y"]
    np.testing.assert_allclose(found, [[0.9, 0.1], [0.1, 0.9]], atol=0.02)
