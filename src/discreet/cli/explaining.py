"""The command that explains a release."""

from __future__ import annotations

from typing import Annotated

import typer

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import check_draws
from discreet.cli.output_options import OutputOptions
from discreet.cli.posteriors import Drawing, load_evidence, read_prior, read_queries
from discreet.util import option_texts


def explain(
    release: flags.ReleaseFile,
    queries: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[QUERY|FILE|-]...",
            help='Probabilities such as "P(lung | smoke=yes)", or a file of them. Each is traced to the tables that it '
            "depends on.",
        ),
    ] = None,
    level: flags.Level = option_texts.DEFAULT_LEVEL,
    rows: Annotated[int, flags.questions(help=option_texts.ROWS)] = option_texts.DEFAULT_ROWS,
    prior: flags.Prior = None,
    equivalent_sample_size: flags.EquivalentSampleSize = 1.0,
    draws: flags.Draws = None,
    seed: flags.Seed = None,
    form: flags.Format = None,
    output: flags.Output = None,
    replace: flags.Replace = False,
    as_json: flags.Json = False,
) -> None:
    """Explain what a release reveals of one record, and what its answers depend on.

    Of combined releases it tells what all of a data set reveal together, and then explains each.

    The explanation has words and numbers, is computed from the release alone, and spends no budget. For a release under
    a metric it is about changes by one unit, and by a few, instead of records.

    Example:
        discreet explain release.json "P(lung | smoke=yes)"
        discreet explain release.json "P(lung | smoke=yes)" --prior 0.5
    """
    out = OutputOptions.of(form, output, replace, as_json)
    texts = read_queries(queries, release) or []
    evidence = load_evidence(release)
    how = Drawing(draws=draws, seed=seed)
    if texts:
        check_draws(how.number, level)
    analyst_prior = read_prior(evidence, prior, equivalent_sample_size, how)
    explanation = dc.explain(
        evidence, texts, rng=how.rng(), level=level, draws=how.number, rows=rows, prior=analyst_prior
    )
    out.show(explanation.document(), explanation.content(), explanation.tidy())
