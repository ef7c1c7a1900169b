"""The kernel stands alone: without research, estimators and server it releases, reads, answers, audits and reports."""

from __future__ import annotations

from pathlib import Path

import pytest

import discreet as dc
from kernel_alone import kernel_tests, make_copy, run
from networks import asia

HERE = Path(__file__).parent


@pytest.mark.costly("Only a copy without packs shows that the kernel needs none.")
def test_the_kernel_works_without_its_packs(tmp_path: Path) -> None:
    network = asia().network
    counts = dc.tools.count_codes(network, {node: [0, 1] for node in network.nodes})
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    foreign = dc.simulate(dc.research.fourier(), counts, dc.Dirichlet.uniform(network), promise, rng=1)
    foreign.save(tmp_path / "foreign.json")
    (tmp_path / "kernel").mkdir()
    copy = make_copy(tmp_path / "kernel")
    done = run(copy, str(HERE / "kernel_at_work.py"), str(tmp_path), str(tmp_path / "foreign.json"))
    assert done.returncode == 0, done.stderr[-3000:]
    refused, missing, last = done.stdout.splitlines()
    assert "coefficient_noise" in refused and "pack" in refused
    assert "discreet.research" in missing
    assert last == "the kernel is at work"


def test_most_tests_need_no_pack() -> None:
    assert len(kernel_tests()) >= 90
