"""The kernel stands alone: without any pack it releases, reads, answers and audits."""

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
    line = dc.designs.Design((dc.Variable("x", bounds=(-1, 1)),))
    sums = dc.designs.sum_moments(dc.designs.read_rows(line, [[0.5]]))
    made = dc.simulate(dc.designs.noisy_moments(), sums, dc.designs.Normal(line, 1.0), promise, rng=1)
    made.save(tmp_path / "design.json")
    (tmp_path / "kernel").mkdir()
    copy = make_copy(tmp_path / "kernel")
    files = [str(tmp_path / name) for name in ("foreign.json", "design.json")]
    done = run(copy, str(HERE / "kernel_at_work.py"), str(tmp_path), *files)
    assert done.returncode == 0, done.stderr[-3000:]
    refused, without, missing, *rest, last = done.stdout.splitlines()
    names, files = rest[:7], rest[7:]
    homes = ("deciding", "deciding", "accuracy", "interchange", "predicting", "reporting", "reporting")
    assert names == [f"this needs discreet.{pack}, which is not installed; install it" for pack in homes]
    assert "coefficient_noise" in refused and "pack" in refused
    assert "'network'" in without and "pack" in without
    assert "discreet.research" in missing
    assert len(files) == 3 and all("pack discreet.interchange" in line for line in files), files
    assert last == "the kernel is at work"


def test_most_tests_need_no_pack() -> None:
    assert len(kernel_tests()) >= 90
