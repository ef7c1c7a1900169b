"""The command that decides: responses by their payoffs, and numbers by their loss, from a release alone."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import check_draws, draws_for
from discreet.cli.outlet import Outlet
from discreet.cli.posteriors import Drawing, load_asked, posterior_of
from discreet.display.terminal import say
from discreet.errors import InputError, shown
from discreet.releases.combined import Evidence
from discreet.util import option_texts
from discreet.util.arrays import number
from discreet.util.json_files import read_json, read_text
from discreet.util.lazy_imports import import_late
from discreet.util.limits import QUERIES_BYTES
from discreet.util.tabular import Block

documents = import_late("discreet.queries.documents")
number_losses = import_late("discreet.queries.number_losses")

MOST_DECISION_DRAWS = 100_000
"""Beyond it draws of all probabilities take much time and memory."""

Payoffs: TypeAlias = dict[str, dict[str, float]]


@dataclass(frozen=True)
class _PayoffTask:
    """A query, and what each response pays in every state."""

    query: str
    payoffs: Payoffs

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest payoff, which are public."""
        listed = [value for row in self.payoffs.values() for value in row.values()]
        return min(listed), max(listed)

    def check(self, network: dc.Network) -> None:
        """Refuse what cannot be asked."""
        dc.decisions.payoff(network, self.query, self.payoffs)

    def draws(self, within: float, queries: int, failure: float) -> int:
        """Number of draws that keep what they can lose within a bound."""
        span = self.bounds[1] - self.bounds[0]
        return dc.decisions.plan_draws(within, responses=len(self.payoffs), queries=queries, failure=failure, span=span)

    def decide(self, posterior: dc.results.PosteriorDraws, options: Mapping[str, Any]) -> dc.decisions.Decision[str]:
        """Decide for the response."""
        utility = dc.decisions.payoff(posterior.network, self.query, self.payoffs)
        return dc.decide(posterior, utility, list(self.payoffs), bounds=self.bounds, **options)


@dataclass(frozen=True)
class _NumberTask:
    """A quantity, and the loss of a number that is named for it."""

    query: str
    loss: NumberLoss

    def check(self, network: dc.Network) -> None:
        """Refuse what cannot be asked."""
        from discreet.queries.decide_number import one_probability

        one_probability(network, self.query)

    def draws(self, within: float, queries: int, failure: float) -> int:
        """Number of draws that keep what they can lose within a bound."""
        return dc.decisions.plan_draws(within, responses=self.loss, queries=queries, failure=failure)

    def decide(self, posterior: dc.results.PosteriorDraws, options: Mapping[str, Any]) -> dc.decisions.NumberDecision:
        """Decide for the number."""
        return dc.decisions.decide_number(posterior, self.query, self.loss, **options)


Asked: TypeAlias = _PayoffTask | _NumberTask
if TYPE_CHECKING:
    from discreet.queries.number_losses import NumberLoss

    Decided: TypeAlias = dc.decisions.Decision[str] | dc.decisions.NumberDecision

OfQueries = Annotated[
    list[str] | None,
    flags.questions(
        "--query",
        metavar="QUERY",
        help="Query for all states of one variable, such as 'P(lung | smoke=yes)'; repeatable.",
    ),
]
OfPayoffs = Annotated[
    list[str] | None,
    flags.questions(
        "--payoffs",
        metavar="FILE|JSON",
        help=f"{option_texts.PAYOFFS} "
        'Such as \'{"scan": {"yes": 1, "no": 0.6}, "wait": {"yes": 0, "no": 1}}\'; one for each --query, in its order.',
    ),
]
OfQuantities = Annotated[
    list[str] | None,
    flags.questions(
        "--quantity",
        metavar="QUERY",
        help=f"{option_texts.QUANTITY} Such as 'P(lung=yes | smoke=yes)'; repeatable.",
    ),
]
OfLosses = Annotated[
    list[str] | None,
    flags.questions(
        "--loss",
        metavar="LOSS",
        show_default="squared",
        help=f"{option_texts.LOSS} Name one for all quantities, or one for each --quantity.",
    ),
]
Within = Annotated[
    float | None, flags.posterior(help="Draw until the bound of each decision is at most this, in units of its payoff.")
]
DecisionSeed = Annotated[
    int | None,
    flags.posterior(
        "--seed",
        show_default="a new one each time",
        help="Seed of the posterior draws. With a new one a bound holds however the decision was chosen.",
    ),
]


def decide(
    release: flags.ReleaseFile,
    query: OfQueries = None,
    payoffs: OfPayoffs = None,
    quantity: OfQuantities = None,
    loss: OfLosses = None,
    draws: flags.Draws = None,
    within: Within = None,
    failure: Annotated[float, flags.questions(help=option_texts.FAILURE)] = option_texts.DEFAULT_FAILURE,
    level: flags.Level = option_texts.DEFAULT_LEVEL,
    method: flags.Method = None,
    trust_network: flags.TrustNetwork = False,
    missing: flags.MissingAs = None,
    seed: DecisionSeed = None,
    form: flags.Format = None,
    output: flags.Output = None,
    replace_file: flags.Replace = False,
    as_json: flags.Json = False,
) -> None:
    """Choose the response of the largest expected payoff, or the number of the least expected loss.

    Every decision has a bound on what it loses because draws are finitely many. Decisions spend no budget.

    Example:
        discreet decide release.json --query "P(lung | smoke=yes)"
          --payoffs '{"scan": {"yes": 1, "no": 0.6}, "wait": {"yes": 0, "no": 1}}'
        discreet decide release.json --quantity "P(lung=yes | smoke=yes)"
          --loss quantile:0.9 --within 0.05
    """
    outlet = Outlet.of(form, output, replace_file, as_json)
    asked: list[Asked] = [*_read_choices(query or [], payoffs or []), *_read_numbers(quantity or [], loss or [])]
    if not asked:
        raise InputError("name a --query with its --payoffs, or a --quantity; discreet decide --help has both")
    evidence, stored = load_asked(release)
    if stored is not None:
        _refuse_drawing(draws, within, seed)
        draws = stored.cells.draws
    number = _count_draws(asked, draws, within, failure, level)
    for part in asked:  # what cannot be asked is refused before draws are made
        part.check(_find_network(evidence, missing))
    how = Drawing(method, trust_network=trust_network)
    if stored is None:
        how = replace(how, draws=number, seed=secrets.randbits(64) if seed is None else seed)
    posterior = posterior_of(evidence, how, missing, stored)
    options = {"level": level, "failure": failure, "queries": len(asked), "fresh": False}
    # All of them were fixed before these draws were made, and with a seed of its own nobody has seen them.
    alone = seed is None and stored is None and posterior.source is not None
    found = [replace(part.decide(posterior, options), fresh=alone) for part in asked]
    _hint_at_draws(found, within, number)
    each = list(zip(asked, found, strict=True))
    told = [documents.decision_document(part.query, made) for part, made in each]
    content = list[str | Block]()
    for part, made in each:
        chosen, *rest = made.content()
        content += [f"{part.query}: {chosen}", *rest, ""]
    content.append(f"{_say_when_bounds_hold(found)}; posterior: {posterior.method}, {number:,} draws")
    document = {"method": posterior.method, "draws": number, "decisions": told}
    outlet.show(document, content, [row for part, made in each for row in _list_rows(part, made)])


def _find_network(evidence: Evidence, missing: str | None) -> dc.Network:
    """Find the network that queries are over: of one of a variable's states that was chosen, that of these states.

    Where missing values are taken at random it is that of complete records, of which the posterior is then.
    """
    return evidence.answers_over.without_missing() if missing == "at-random" else evidence.answers_over


def _read_choices(queries: list[str], payoffs: list[str]) -> list[_PayoffTask]:
    """Read queries with their payoffs."""
    if len(queries) != len(payoffs):
        raise InputError(
            f"{len(queries)} --query and {len(payoffs)} --payoffs: every query needs its own, in its order"
        )
    return [_PayoffTask(query, _read_payoffs(text)) for query, text in zip(queries, payoffs, strict=True)]


def _read_numbers(quantities: list[str], losses: list[str]) -> list[_NumberTask]:
    """Read quantities with their losses."""
    if losses and not quantities:
        raise InputError("--loss is of a --quantity; a --query has --payoffs")
    given = [number_losses.number_loss(text) for text in losses or ["squared"]]
    if len(given) not in (1, max(1, len(quantities))):
        raise InputError(f"{len(given)} --loss for {len(quantities)} --quantity: give one for all, or for each its own")
    return [_NumberTask(text, given[i if len(given) > 1 else 0]) for i, text in enumerate(quantities)]


def _read_payoffs(text: str) -> Payoffs:
    """Read payoffs from JSON, or from a file of it."""
    inline = text.lstrip().startswith("{")
    raw = read_json(text if inline else read_text(text, "payoffs", QUERIES_BYTES), "the payoffs", QUERIES_BYTES)
    rows = raw.values() if isinstance(raw, dict) else [None]
    values: list[Any] = [value for row in rows for value in (row.values() if isinstance(row, dict) and row else [None])]
    if not values or any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        raise InputError(
            'payoffs are JSON of the form {"response": {"state": number, ...}, ...}, with every state of the variable '
            f"that the query asks for; not {shown(text)}"
        )
    if min(values) == max(values):
        raise InputError("all payoffs are equal: there is nothing to decide")
    return {name: {state: number(value, "a payoff") for state, value in row.items()} for name, row in raw.items()}


def _count_draws(asked: list[Asked], draws: int | None, within: float | None, failure: float, level: float) -> int:
    """Count draws: as many as are named, or as keep what decisions can lose within a bound; enough for intervals."""
    if within is None:
        number = flags.DEFAULT_DRAWS if draws is None else draws
        check_draws(number, level)
        return number
    if draws is not None:
        raise InputError("--draws is a number of draws and --within makes one; name one of them")
    wanted = max(part.draws(within, len(asked), failure) for part in asked)
    if wanted > MOST_DECISION_DRAWS:
        raise InputError(
            f"a loss within {within:g} takes {wanted:,} draws in the worst case, more than "
            f"{MOST_DECISION_DRAWS:,}; name "
            "--draws and see the bound of these decisions, which is often far less"
        )
    return max(wanted, draws_for(level))


def _say_when_bounds_hold(found: list[Decided]) -> str:
    """Say when all bounds hold."""
    first, several = found[0], len(found) > 1
    bounds = f"all {len(found)} bounds hold together" if several else "the bound holds"
    when = "however the decisions were chosen" if first.fresh else "if they were fixed before anybody saw these draws"
    return f"{bounds}, but for a chance of {first.failure:g}, {when}"


def _hint_at_draws(found: list[Decided], within: float | None, number: int) -> None:
    """Hint at what to do where draws depend on each other and are worth too few."""
    worth = min(part.effective for part in found)
    if within is not None and any(part.regret > within for part in found):
        say(
            f"the {number:,} draws are worth {worth:,.0f} independent ones, so a bound is above {within:g}; ask for "
            f"about --draws {min(MOST_DECISION_DRAWS, int(1.2 * number**2 / worth)):,}".replace(",", "")
        )


def _refuse_drawing(draws: int | None, within: float | None, seed: int | None) -> None:
    """Refuse options that would make draws other than those that are stored."""
    if (draws, within, seed) != (None, None, None):
        raise InputError("these draws are stored: leave out --draws, --within and --seed, or ask their release")


def _list_rows(asked: Asked, made: Decided) -> list[dict[str, Any]]:
    """List the rows of a decision's frame, with what was asked."""
    if isinstance(made, dc.decisions.Decision):
        chosen = str(made.response)
        beside = {"regret": made.regret}
        return [{"query": asked.query, **row, "chosen": row["response"] == chosen, **beside} for row in made.tidy()]
    (row,) = made.tidy()
    row["response"] = " to ".join(f"{row[end]:.6g}" for end in ("response", "response_upper") if row[end] is not None)
    row.pop("response_upper")
    return [{"query": asked.query, **row, "chosen": True}]
