"""Laws of noise: what each says of itself is one law, and nobody else tells laws apart."""

from __future__ import annotations

import ast
import math
from fractions import Fraction
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import discreet
from discreet.mechanisms.noise import SimulatedNoise
from discreet.noise.noise_laws import (
    CELL_LAWS,
    KNOWN_VARIANCE,
    LAWS,
    CellLaw,
    CellTag,
    DiscreteGaussian,
    DiscreteLaplace,
    Laplace,
    LawTag,
    NoiseLaw,
    Rounded,
    ShapeTag,
)
from discreet.noise.shapes import SHAPES, KNorm, vector_law
from discreet.noise.star import Star
from folding import every

RNG = np.random.default_rng
SCALES = (20.0, 47.0)
"""Large ones: simulated Gaussian noise on whole numbers is rounded, which is seen below."""
DRAWS = 200_000
BOUND = math.sqrt(math.log(2e9) / (2 * DRAWS))
"""By Dvoretzky, Kiefer, Wolfowitz and Massart no distribution function is this far off but with probability 1e-9."""
EXAMPLES = [law(scale) for law in LAWS.values() for scale in SCALES] + [Rounded(7.5, of_integers=False)]

ROOT = Path(discreet.__file__).parent
TAGS = {*LAWS, *SHAPES}
FLAGS = {"gaussian", "normal", "is_gaussian"}
OTHER_NAMES = {
    "mechanisms/__init__.py": {"laplace", "gaussian"},  # mechanisms of these names
    "mechanisms/laplace.py": {"laplace"},
    "mechanisms/gaussian.py": {"gaussian"},
    "research/scores/families.py": {"laplace"},  # a family of laws of data
}
"""Where a tag's letters are the name of something else."""
OTHER_FLAGS = {"designs/kinds/gradient_trace.py": {"normal"}}
"""A field of documents."""


def tabulated(law: NoiseLaw) -> tuple[np.ndarray, np.ndarray]:
    """Points, and the probability of each, or of a narrow cell around it."""
    reach, step = math.ceil(40 * law.scale), 1.0
    if not (law.keeps_integers or (isinstance(law, Rounded) and law.of_integers)):
        step = law.scale / 2000
    points = np.arange(-math.ceil(reach / step), math.ceil(reach / step) + 1) * step
    return points, np.exp(law.log_density(points)) * step


def distance(draws: np.ndarray, law: NoiseLaw) -> float:
    """The largest difference of two distribution functions, at the middle between points."""
    points, masses = tabulated(law)
    edges = (points[1:] + points[:-1]) / 2
    found = np.searchsorted(np.sort(draws.ravel()), edges) / draws.size
    return float(np.abs(found - np.cumsum(masses)[:-1]).max())


# ------------------------------------------------------------------------------------------ each law by itself


def test_tags_are_those_of_documents() -> None:
    assert set(LAWS) == set(get_args(LawTag)) and set(CELL_LAWS) == set(get_args(CellTag))
    assert set(SHAPES) == set(get_args(ShapeTag))
    assert all(law.tag == tag for tag, law in {**LAWS, **CELL_LAWS}.items())
    assert all(shape.tag == tag for tag, shape in SHAPES.items())
    assert len({law.words for law in LAWS.values()}) == len(LAWS)


@every("law", EXAMPLES)
def test_the_density_is_one_and_has_the_variance(law: NoiseLaw) -> None:
    points, masses = tabulated(law)
    assert masses.sum() == pytest.approx(1, abs=2e-3)
    assert (masses * points**2).sum() == pytest.approx(law.raw_variance, rel=5e-3)
    assert law.variance == law.raw_variance > KNOWN_VARIANCE
    # The limit of large scales, of a law that is not cut at whole numbers.
    assert law.raw_variance == pytest.approx(law.unit * law.scale**2, rel=0.15)


@every("law", EXAMPLES)
def test_simulated_draws_have_the_density(law: NoiseLaw) -> None:
    """Two comparisons of each of 11 laws, below 3e-8 in all; variances within 7 standard errors, below 1e-10."""
    draws = law.simulate((DRAWS // 4, 4), RNG(11))
    assert draws.shape == (DRAWS // 4, 4) and draws.dtype == np.float64
    assert distance(draws, law) < BOUND
    error = law.raw_variance * math.sqrt((2 + max(law.excess, 0)) / DRAWS)
    assert abs(draws.var() - law.raw_variance) < 7 * error
    assert distance(draws, type(law)(law.scale * 1.1)) > BOUND, "a tenth more is noticed"
    if law.keeps_integers:
        assert np.array_equal(draws, np.rint(draws))
    if law.reach is not None:
        assert np.abs(draws).max() <= law.reach


@every("law", [law(scale) for law in CELL_LAWS.values() for scale in (0.7, 3.0)])
def test_what_a_source_adds_has_the_density(law: CellLaw) -> None:
    """Exact laws, small scales too: below 4e-9 in all."""
    added = law.add(np.full(DRAWS, 5), SimulatedNoise(RNG(12))) - 5
    assert added.dtype == np.int64 and distance(added, law) < BOUND
    assert law.keeps_integers and isinstance(law.per_unit(2), NoiseLaw) and not law.per_unit(2).keeps_integers
    assert law.per_unit(2).power == law.power and law.per_unit(2).scale == law.scale / 2


@every("law", list(CELL_LAWS.values()))
def test_a_budget_buys_what_the_scale_costs(law: type[CellLaw]) -> None:
    """Variance, sensitivity and the number of tables that are afforded say the same."""
    budget, moved = Fraction(3, 7), 2
    variance = law.variance_at(budget, moved)
    made = law(math.sqrt(variance / Fraction(law.unit)))
    assert made.sensitivity_at(budget) == pytest.approx(moved)
    assert law.variance_at(2 * budget, moved) * 2**law.order == variance
    most = law.affordable(30.0, budget, moved)
    assert law.variance_at(budget / most, moved) <= 30**2 < law.variance_at(budget / (most + 1), moved)


def test_losses_are_ratios_of_densities() -> None:
    points = np.arange(-60, 61)
    one = DiscreteLaplace(3.0)
    ratios = one.log_density(points) - one.log_density(points - 4)
    assert np.abs(ratios).max() == pytest.approx(one.loss(4))
    law = DiscreteGaussian(3.0)
    losses, masses = law.losses([4])
    expected = law.log_density(points) - law.log_density(points + 4)
    assert masses.sum() == pytest.approx(1)
    at = np.searchsorted(losses, expected[30:91] - 1e-9)
    assert losses[at] == pytest.approx(expected[30:91])
    assert masses[at] == pytest.approx(np.exp(law.log_density(points[30:91])), abs=1e-12)


def test_noise_that_never_shows_has_a_weight() -> None:
    assert DiscreteLaplace(0.01).raw_variance < KNOWN_VARIANCE == DiscreteLaplace(0.01).variance
    assert Rounded(1.0).reach == 0 and Rounded(1.0).keeps_integers and Rounded(1.0).variance == KNOWN_VARIANCE
    assert not Rounded(1.0, of_integers=False).keeps_integers and Rounded.on(1.0, integers=False).reach == 0.5


# ------------------------------------------------------------------------------------------ vectors and stars


@pytest.mark.costly("Variances and costs that a release states are compared with draws of each shape.", always=True)
@every("shape", list(SHAPES))
@every("size", [1, 6])
def test_noise_on_vectors_has_its_variance_and_cost(shape: ShapeTag, size: int) -> None:
    """Of 4,000 vectors, within 7 standard errors of dependent coordinates: below 1e-9 in all."""
    law, source = KNorm(400.0, size, shape), SimulatedNoise(RNG(13))
    draws = np.array([law.add(np.zeros(size, np.int64), source) for _ in range(4000)], float)
    squares = (draws**2).mean(axis=1)
    assert abs(squares.mean() - law.raw_variance) < 7 * squares.std() / math.sqrt(4000)
    order, unit = law.mixture
    assert order * unit == pytest.approx(law.raw_variance)
    assert law.loss(np.full(size, 400)) == pytest.approx(SHAPES[shape].norm(np.full(size, 400)) / 400)
    assert SHAPES[shape].largest(size) == SHAPES[shape].norm(np.ones(size))
    assert vector_law(shape, 400.0, size) == law and law.name == shape
    assert vector_law("discrete_gaussian", 3.0, size) == DiscreteGaussian(3.0)


def test_a_star_draws_all_of_its_tables() -> None:
    """20,000 blocks; the largest variance of a cell within 7 standard errors."""
    star = Star(30.0, (("a", "b"), ("a", "c")), ("a",), (3, 2))
    sizes = {"a": 4, "b": 3, "c": 2}
    drawn = star.simulate_tables(("a", "b"), (4, 3, 5000), sizes, RNG(14))
    assert {scope: table.shape for scope, table in drawn.items()} == {
        ("a", "b"): (4, 3, 5000),
        ("a", "c"): (4, 2, 5000),
    }
    assert drawn["a", "b"].sum(axis=1) == pytest.approx(drawn["a", "c"].sum(axis=1))
    cells = [table.transpose(0, 2, 1).reshape(-1, table.shape[1]) for table in drawn.values()]
    variances = [float((cell**2).mean()) for cell in cells]
    error = max(float((cell**2).std()) for cell in cells) / math.sqrt(20_000)
    assert abs(max(variances) - star.raw_variance) < 7 * error
    assert star.tied == star.scopes and Laplace(1.0).tied == ()
    rows = star.simulate((6,), RNG(15))
    assert rows.shape == (6, 5) and rows[:, :3].sum(axis=1) == pytest.approx(rows[:, 3:].sum(axis=1))
    one, other = np.array([[1, 0, 0], [0, 0, 0]]), np.array([[0, 1], [0, 0]])
    both = np.concatenate([one, other], axis=1)
    assert star.log_density(0 * both) - star.log_density(both) == pytest.approx(1 / 30)


# ------------------------------------------------------------------------------------------ who else knows laws


@pytest.mark.costly("Tags and flags are seen in the syntax trees of all files only.")
@every("path", [path for path in sorted(ROOT.rglob("*.py")) if path.parent.name != "noise"])
def test_no_other_room_tells_laws_apart_by_tags_or_flags(path: Path) -> None:
    module, nodes = path.relative_to(ROOT).as_posix(), list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    tags = {node.value for node in nodes if isinstance(node, ast.Constant) and node.value in TAGS}
    assert tags == OTHER_NAMES.get(module, set())
    flags = {node.arg for node in nodes if isinstance(node, ast.arg) and is_flag(node.annotation)}
    flags |= {
        ast.unparse(node.target) for node in nodes if isinstance(node, ast.AnnAssign) and is_flag(node.annotation)
    }
    assert flags & FLAGS == OTHER_FLAGS.get(module, set())


def is_flag(annotation: ast.expr | None) -> bool:
    """Whether a type is that of one flag."""
    return annotation is not None and ast.unparse(annotation) in {"bool", "Flag", "bool | None", "Flag | None"}
