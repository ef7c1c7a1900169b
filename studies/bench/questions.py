"""Coverage of differences, ratios, ranges and unions on tables whose network nobody knows.

`python -m bench.questions [TABLE ...] [--runs 12] [--mirror DIR]` takes a public table as the population: its own
shares are the truth, and records are drawn from it with replacement. The network is either chosen by `structure`, which
takes a quarter of epsilon, or has no arcs, as in a quickstart; the rest of epsilon goes to the default release. The
same questions are asked in every run. Of the intervals at 95 % it prints how many hold the truth, by form and by
strength of effect, expected records and what the answer rests on, and where the means are biased. The rows are those of
`docs/questions.md`.

ADULT and PIMA are in `$DISCREET_DATA/uci`; HealthInsurance is a file of github.com/vincentarelbundock/Rdatasets, whose
git directory `--mirror` names.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

import discreet as dc
from discreet.mechanisms.crossing import statistic_of
from experiments.pages import estimate, markdown

EPSILONS = (0.3, 1.0, 3.0)
NETWORKS = ("chosen", "no arcs")
CHOICE_SHARE = 0.25
"""Share of epsilon by which `structure` chooses the network."""
DRAWS = 200
ASKED = 10
"""Questions of each form, the same in every run."""
LEAST_EVIDENCE = 0.03
"""Least share of the population with the evidence of a question."""
LEAST_EVENT = 0.002
"""Least share of the population with event and evidence, below which a ratio says nothing."""
FORMS = ("probability", "difference", "relative risk", "odds ratio", "lift", "range", "union", "means")
Mask = npt.NDArray[np.bool_]


# --------------------------------------------------------------------------------------------------------- populations


@dataclass(frozen=True, eq=False)
class Population:
    """A table that stands for a population.

    Args:
        variables: of the schema.
        table: a column for each, without missing values.
        records: number drawn in a run.
    """

    variables: tuple[dc.Variable, ...]
    table: pd.DataFrame
    records: int


def _uci(name: str, columns: Mapping[str, int]) -> pd.DataFrame:
    """Some columns of a table without a head."""
    path = Path(os.environ.get("DISCREET_DATA", "")) / "uci" / name
    frame = pd.read_csv(path, header=None, skipinitialspace=True, na_values="?")
    return pd.DataFrame({name: frame[place] for name, place in columns.items()}).dropna().reset_index(drop=True)


def _adult(mirror: Path | None) -> Population:
    """ADULT: census income."""
    places = {"age": 0, "education": 4, "marital": 5, "occupation": 6, "sex": 9, "hours": 12, "income": 14}
    table = _uci("adult.data.gz", places)
    table["marital"] = table["marital"].str.split("-").str[0]
    few = table["occupation"].map(table["occupation"].value_counts()) < 2000
    table["occupation"] = table["occupation"].where(~few, "other")
    numbers = {"age": ((17, 91), (28, 38, 50)), "education": ((1, 17), (9, 10, 13)), "hours": ((1, 100), (35, 41, 50))}
    return _population(table, numbers, 10_000)


def _pima(mirror: Path | None) -> Population:
    """PIMA: diabetes."""
    places = {"pregnancies": 0, "glucose": 1, "pressure": 2, "bmi": 5, "age": 7, "ill": 8}
    table = _uci("pima-indians-diabetes.csv", places)
    table["ill"] = table["ill"].map({0: "no", 1: "yes"})
    numbers = {
        "pregnancies": ((0, 18), (1, 4, 7)), "glucose": ((0, 200), (100, 120, 140)), "pressure": ((0, 130), (64, 76)),
        "bmi": ((0, 70), (26, 32, 37)), "age": ((21, 85), (26, 35, 45)),
    }  # fmt: skip
    return _population(table, numbers, 5_000)


def _health_insurance(mirror: Path | None) -> Population:
    """HealthInsurance: Medical Expenditure Panel Survey, 1996; from the R package AER."""
    if mirror is None:
        raise SystemExit("HealthInsurance needs --mirror DIR, a git directory of vincentarelbundock/Rdatasets")
    shown = ["git", f"--git-dir={mirror}", "show", "HEAD:csv/AER/HealthInsurance.csv"]
    table = pd.read_csv(StringIO(subprocess.run(shown, check=True, capture_output=True, text=True).stdout))
    table = table.drop(columns="rownames").dropna().reset_index(drop=True)
    return _population(table, {"age": ((18, 63), (30, 40, 50)), "family": ((1, 15), (2, 3, 5))}, 5_000)


POPULATIONS: Mapping[str, Callable[[Path | None], Population]] = {
    "adult": _adult,
    "pima": _pima,
    "HealthInsurance": _health_insurance,
}


def _population(
    table: pd.DataFrame, numbers: Mapping[str, tuple[tuple[float, float], tuple[float, ...]]], records: int
) -> Population:
    """Make variables of columns: numbers with bounds and bins, else states."""
    variables = list[dc.Variable]()
    for name in table:
        if name in numbers:
            bounds, bins = numbers[name]
            whole = bool((table[name] == table[name].round()).all())
            # A whole number x is [x, x + 1), so that the upper bound is its largest value.
            ends = (bounds[0], bounds[1] - 1) if whole else bounds
            variables.append(dc.Variable(name, bounds=ends, bins=bins, type="integer" if whole else "real"))
        else:
            variables.append(dc.Variable(name, tuple(sorted(table[name].unique()))))
    return Population(tuple(variables), table, records)


# ----------------------------------------------------------------------------------------------------------- questions


@dataclass(frozen=True)
class Asked:
    """A question, and its value in the population.

    Args:
        form: one of `FORMS`.
        text: of the question.
        truth: its value.
        effect: size of the difference that it compares, of probabilities; NaN where it compares none.
        cell: least share of the population in any event with its evidence.
    """

    form: str
    text: str
    truth: float
    effect: float
    cell: float


@cache
def questions(name: str, mirror: Path | None) -> tuple[Asked, ...]:
    """The questions about a population: `ASKED` of each form, by a fixed seed."""
    population = POPULATIONS[name](mirror)
    rng, asked = np.random.default_rng(62), list[Asked]()
    for form in FORMS:
        texts = set[str]()
        for _ in range(2000):
            if len(texts) == ASKED:
                break
            question = _pick(population, form, rng)
            if question is not None and question.text not in texts:
                texts.add(question.text)
                asked.append(question)
    return tuple(asked)


def _pick(population: Population, form: str, rng: np.random.Generator) -> Asked | None:
    """Pick a question; None if its evidence or its event is too rare."""
    by_name = {variable.name: variable for variable in population.variables}
    numbers = [name for name, variable in by_name.items() if variable.numeric]
    first, second, third = rng.permutation(list(by_name))[:3].tolist()
    if form == "means":
        return _compare_means(population, rng.choice(numbers), rng)
    if form == "range":
        if (number := str(rng.choice(numbers))) == first:
            return None
        # Half of the ends divide a bin.
        end = float(rng.choice(by_name[number].bins) if rng.random() < 0.5 else rng.choice(population.table[number]))
        text, mask = f"{number} > {end:.15g}", population.table[number].to_numpy() > end
        event, holds = _condition(population, first, rng)
        return _share(form, f"P({event} | {text})", holds, mask)
    (event, holds), (given, seen) = _condition(population, first, rng), _condition(population, second, rng)
    if form == "probability":
        return _share(form, f"P({event} | {given})", holds, seen)
    if form == "union":
        other, also = _condition(population, third, rng)
        return _share(form, f"P({event} or {other} | {given})", holds | also, seen)
    against, unseen = _condition(population, second, rng)
    if form == "lift":
        against, unseen = "", np.ones(len(holds), bool)
    return None if against == given else _compare(form, event, holds, (given, seen), (against, unseen))


def _condition(population: Population, name: str, rng: np.random.Generator) -> tuple[str, Mask]:
    """A condition on a variable: a state, or a range between edges of bins."""
    variable = next(each for each in population.variables if each.name == name)
    column = population.table[name].to_numpy()
    if variable.numeric:
        end = float(rng.choice(variable.bins))
        if rng.random() < 0.5:
            return f"{name} >= {end:.15g}", column >= end
        return f"{name} < {end:.15g}", column < end
    if len(variable.states) > 3 and rng.random() < 0.5:
        states = [str(state) for state in rng.choice(variable.states, 2, replace=False)]
        return f"{name} in {{{', '.join(states)}}}", np.isin(column, states)
    state = str(rng.choice(variable.states))
    return f"{name}={state}", column == state


def _share(form: str, text: str, event: Mask, given: Mask) -> Asked | None:
    """A question for one conditional probability."""
    if given.mean() < LEAST_EVIDENCE or (event & given).mean() <= LEAST_EVENT:
        return None
    return Asked(form, text, float(event[given].mean()), float("nan"), float((event & given).mean()))


def _compare(form: str, event: str, holds: Mask, first: tuple[str, Mask], second: tuple[str, Mask]) -> Asked | None:
    """A comparison of a probability given one condition and given another one, or none."""
    if min(mask.mean() for _, mask in (first, second)) < LEAST_EVIDENCE:
        return None
    cell = min(float((holds & mask).mean()) for _, mask in (first, second))
    a, b = (float(holds[mask].mean()) for _, mask in (first, second))
    if cell < LEAST_EVENT or max(a, b) > 0.999:
        return None
    head, sign = ("odds", "/") if form == "odds ratio" else ("P", "-" if form == "difference" else "/")
    left, right = (f"{head}({event} | {given})" if given else f"{head}({event})" for given, _ in (first, second))
    truth = {"difference": a - b, "odds ratio": a / (1 - a) / (b / (1 - b))}.get(form, a / b)
    return Asked(form, f"{left} {sign} {right}", truth, abs(a - b), cell)


def _compare_means(population: Population, number: str, rng: np.random.Generator) -> Asked | None:
    """A difference of means."""
    states = [v for v in population.variables if not v.numeric]
    variable = states[rng.integers(len(states))]
    first, second = (str(state) for state in rng.choice(variable.states, 2, replace=False))
    column, values = population.table[variable.name].to_numpy(), population.table[number].to_numpy()
    cell = min(float((column == state).mean()) for state in (first, second))
    if cell < LEAST_EVIDENCE:
        return None
    text = f"E({number} | {variable.name}={first}) - E({number} | {variable.name}={second})"
    truth = float(values[column == first].mean() - values[column == second].mean())
    return Asked("means", text, truth, float("nan"), cell)


# -------------------------------------------------------------------------------------------------------- measurements


def measure(name: str, arcs: str, epsilon: float, run: int, mirror: Path | None) -> Iterator[dict[str, object]]:
    """Answer all questions about one release: a row for each.

    Args:
        name: of the population.
        arcs: one of `NETWORKS`.
        epsilon: of all that is released.
        run: its number, which is the seed.
        mirror: where HealthInsurance is.
    """
    population = POPULATIONS[name](mirror)
    rng = np.random.default_rng([run, list(POPULATIONS).index(name)])
    rows = rng.integers(len(population.table), size=population.records)
    drawn = pa.table({column: population.table[column].to_numpy()[rows] for column in population.table})
    network = dc.Network.empty(list(population.variables))
    records = dc.read_records(drawn, network.schema)
    spent = CHOICE_SHARE * epsilon if arcs == "chosen" else 0.0
    if spent:
        mechanism = dc.structure(2)
        statistic = statistic_of(mechanism, records, network)
        network = dc.simulate(mechanism, statistic, _prior(network), _promise(spent), rng=rng).learned_network
    made = dc.simulate(dc.planned(), dc.count(records, network), _prior(network), _promise(epsilon - spent), rng=rng)
    posterior = dc.noise_aware(made, draws=DRAWS, rng=rng)
    asked = questions(name, mirror)
    for question, answer in zip(asked, dc.answer_many(posterior, [each.text for each in asked]), strict=True):
        (row,) = answer.rows
        held = row["lower"] <= question.truth <= row["upper"]
        records_of_cell = question.cell * population.records
        yield {
            "table": name, "network": arcs, "epsilon": epsilon, "run": run, "form": question.form,
            "text": question.text, "truth": question.truth, "mean": row["mean"], "held": held,
            "width": row["upper"] - row["lower"], "basis": answer.basis, "effect": question.effect,
            "cell": records_of_cell,
        }  # fmt: skip


def _promise(epsilon: float) -> dc.Guarantee:
    """Add or remove one record."""
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")


def _prior(network: dc.Network) -> dc.Dirichlet:
    """The default prior."""
    return dc.Dirichlet.uniform(network)


# -------------------------------------------------------------------------------------------------------------- tables


STRENGTHS = pd.IntervalIndex.from_breaks([0, 0.02, 0.1, 1.01], closed="left")
CELLS = pd.IntervalIndex.from_breaks([0, 50, 300, 2000, np.inf], closed="left")


def show(frame: pd.DataFrame) -> str:
    """Coverage by form, by strata, and bias, as Markdown."""
    place = ["table", "network"]
    effects = [f"effect {each.left:g} to {min(each.right, 1):g}" for each in STRENGTHS]
    cells = [f"cell of {each.left:g} to {each.right:g} records" for each in CELLS]
    frame = frame.assign(
        strength=pd.cut(frame["effect"], STRENGTHS).cat.rename_categories(effects),
        size=pd.cut(frame["cell"], CELLS).cat.rename_categories(cells),
        at=frame["epsilon"].map("epsilon {:g}".format),
        rests="rests on: " + frame["basis"].astype(str),
    )
    parts = [_table(frame, place, by) for by in ("form", "at", "strength", "size", "rests")]
    return "\n\n".join([*parts, _biases(frame, place)])


def _coverage(rows: pd.DataFrame) -> str:
    """Percent of intervals that hold the truth, with the standard error over runs, and the number of intervals."""
    by_run = 100 * rows.groupby("run")["held"].mean()
    return f"{estimate(by_run).text(1)} ({len(rows)})" if len(rows) else ""


def _table(frame: pd.DataFrame, place: Sequence[str], by: str) -> str:
    """Coverage by place and a column."""
    values = _ordered(frame[by])
    rows = [
        [*map(str, key), *(_coverage(rows[rows[by] == value]) for value in values), _coverage(rows)]
        for key, rows in frame.groupby(list(place), sort=False)
    ]
    return markdown([*place, *values, "all"], rows)


def _ordered(column: pd.Series[str]) -> list[str]:
    """Values of a column in their order."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return [str(each) for each in column.cat.categories]
    return sorted(set(column)) if column.name in ("at", "rests") else list(dict.fromkeys(column))


def _biases(frame: pd.DataFrame, place: Sequence[str]) -> str:
    """By place and epsilon: how far questions' mean estimates are from the truth, in halves of their intervals."""
    rows = list[list[str]]()
    for key, part in frame.groupby([*place, "epsilon"], sort=False):
        of = part.groupby("text").agg(error=("mean", "mean"), truth=("truth", "first"), width=("width", "mean"))
        ratio = ((of["error"] - of["truth"]) / (of["width"] / 2)).abs()
        worst = ratio.idxmax()
        shares = [f"{ratio.quantile(q):.2f}" for q in (0.5, 0.9)]
        value = f"{of['error'][worst]:.3g} for {of['truth'][worst]:.3g}"
        rows.append(
            [*map(str, key), *shares, f"{100 * (ratio > 1).mean():.0f} %", f"`{worst}`: {value}".replace("|", "\\|")]
        )
    head = [*place, "epsilon", "bias, median", "bias, 90 %", "beyond the interval", "worst question: mean of estimates"]
    return markdown(head, rows)


def main() -> None:
    """Read the command line and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(POPULATIONS))
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--mirror", type=Path)
    parser.add_argument("--rows", type=Path, help="file for the rows, Parquet; written after every run")
    chosen = parser.parse_args()
    rows = list[dict[str, object]]()
    for run, name, arcs, epsilon in product(range(chosen.runs), chosen.tables or POPULATIONS, NETWORKS, EPSILONS):
        rows += measure(name, arcs, epsilon, run, chosen.mirror)
        if chosen.rows is not None:
            pd.DataFrame(rows).to_parquet(chosen.rows)
    print(show(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
