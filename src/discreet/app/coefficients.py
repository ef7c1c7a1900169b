"""What `query` prints of numbers that have names: coefficients of a regression, parameters of a family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import discreet as dc
from discreet.app.report import answer_lines, columns
from discreet.app.terminal import answer_document, show
from discreet.errors import InputError
from discreet.releases.combined import Evidence

__all__ = ["show_parameters", "show_rows", "show_states"]


def show_rows(what: str, rows: Sequence[Mapping[str, object]], method: str, level: float, as_json: bool) -> None:
    """A table of means and intervals, or the same as JSON under the plural of what they are."""
    lines = [(str(row["name"]), f"{row['mean']:.5g}", f"{row['lower']:.5g} to {row['upper']:.5g}") for row in rows]
    table = columns((what, "mean", f"{100 * level:.6g} % interval"), lines)
    show(as_json, {"method": method, "level": level, f"{what}s": rows}, f"{table}\n\nposterior: {method}")


def show_parameters(evidence: Evidence, more: bool, level: float, draws: int, seed: int, as_json: bool) -> None:
    """The parameters of a family; refused where more was asked than it can answer."""
    if more:
        raise InputError(
            "without queries a family's release answers with its parameters, under its own prior: leave out the prior "
            "and other options of networks, or name queries"
        )
    posterior = dc.family_posterior(evidence, draws=draws, rng=np.random.default_rng(seed))
    show_rows("parameter", posterior.rows(level=level), "family", level, as_json)


def show_states(posterior: dc.PosteriorDraws, answers: tuple[dc.Answer, ...], as_json: bool) -> None:
    """The probabilities of a choice by a categorical factor: of its one variable, whose states are whole numbers."""
    told = {"method": posterior.method, "answers": [answer_document(part) for part in answers]}
    show(as_json, told, "\n".join([answer_lines(answers), "", f"posterior: {posterior.method}"]))
