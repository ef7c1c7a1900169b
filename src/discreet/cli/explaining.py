"""The command that explains a release."""

from __future__ import annotations

from typing import Annotated

import typer

import discreet as dc
from discreet.cli.arguments import Draws, Json, ReleaseFile, Replace, Seed, check_draws
from discreet.cli.outlet import Format, Outlet, Output
from discreet.cli.posteriors import Drawing, asked_queries, load_evidence
from discreet.errors import InputError


def explain(
    release: ReleaseFile,
    queries: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[QUERY|FILE|-]...",
            help='Probabilities such as "P(lung | smoke=yes)", or a file of them: what each depends on is told, too.',
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Posterior probability of each interval.")] = 0.95,
    rows: Annotated[int, typer.Option(help="Rows of tables that are named for each query.")] = 5,
    draws: Draws = None,
    seed: Seed = None,
    form: Format = None,
    output: Output = None,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Explain a release: what one record can change, what can be told apart, and what answers depend on.

    Of a release under a metric: what a change of one unit, and of a few, can change in the place of a record.

    In words and numbers, computed for this release from the release alone; nothing is spent.
    """
    outlet = Outlet.of(form, output, replace, as_json)
    asked = asked_queries(queries, release) or []
    evidence = load_evidence(release)
    if evidence.one_release is None and evidence.parts == (evidence,):
        raise InputError(
            "these are figures by others, whose promise is their source's: explain tells what a release of this "
            "package can give away; `query` reads them"
        )
    if evidence.one_release is None:
        raise InputError("explain takes one release: name those that were combined one by one")
    how = Drawing(draws=draws, seed=seed)
    if asked:
        check_draws(how.number, level)
    found = dc.explain(evidence.one_release, asked, rng=how.rng(), level=level, draws=how.number, rows=rows)
    outlet.show(found.document(), found.summary(width=outlet.width), found.tidy())
