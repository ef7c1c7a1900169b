"""What `query` prints of numbers that have names: coefficients of a regression, parameters of a family."""

from __future__ import annotations

import discreet as dc
from discreet.cli.outlet import Outlet
from discreet.cli.posteriors import Drawing
from discreet.errors import InputError
from discreet.releases.combined import Evidence
from discreet.util.lazy_imports import import_late

documents = import_late("discreet.queries.documents")


def show_numbers(posterior: dc.results.Posterior, level: float, outlet: Outlet) -> None:
    """Means and intervals, in JSON under the plural of what they are."""
    told = {"method": posterior.method, "level": level, f"{posterior.noun}s": posterior.rows(level=level)}
    outlet.show(told, posterior.summary(level=level, width=outlet.width), posterior.tidy(level=level))


def show_parameters(evidence: Evidence, more: bool, level: float, how: Drawing, outlet: Outlet) -> None:
    """The parameters of a family; refused where more was asked than it can answer."""
    if more:
        raise InputError(
            "without queries a family's release answers with its parameters, under its own prior: leave out the prior "
            "and other options of networks, or name queries"
        )
    show_numbers(dc.read(evidence, method="parameters", draws=how.number, rng=how.rng()), level, outlet)


def show_states(posterior: dc.results.PosteriorDraws, answers: dc.results.Answers, outlet: Outlet) -> None:
    """The probabilities of a choice by a categorical factor: of its one variable, whose states are whole numbers."""
    told = {"method": posterior.method, "answers": [documents.answer_document(part) for part in answers]}
    text = "\n".join([answers.summary(width=outlet.width), "", f"posterior: {posterior.method}"])
    outlet.show(told, text, answers.tidy())
