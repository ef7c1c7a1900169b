"""The command that decides: responses by their payoffs, and numbers by their loss, from a release."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import check_draws, draws_for
from discreet.cli.output_options import OutputOptions
from discreet.cli.posteriors import Drawing, load_source, posterior_of
from discreet.display.terminal import say
from discreet.errors import InputError, shown
from discreet.releases.combined import Evidence
from discreet.util import option_texts
from discreet.util.arrays import number
from discreet.util.json_files import read_json, read_text
from discreet.util.limits import QUERIES_BYTES
from discreet.util.tabular import Block

MOST_DECISION_DRAWS = 100_000
"""Most draws of a decision; more take much time and memory."""

Payoffs: TypeAlias = dict[str, dict[str, float]]


@dataclass(frozen=True)
class _PayoffTask:
    """A query, and the payoffs of each response in every state."""

    query: str
    payoffs: Payoffs

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest payoff, which are public."""
        listed = [value for row in self.payoffs.values() for value in row.values()]
        return min(listed), max(listed)

    def check(self, network: dc.Network) -> None:
        """Refuse a query that the network cannot answer."""
        dc.decisions.payoff(network, self.query, self.payoffs)

    def draws(self, within: float, queries: int, failure: float, network: dc.Network) -> int:
        """Count the draws that keep the regret within a bound."""
        span = self.bounds[1] - self.bounds[0]
        return dc.decisions.plan_draws(within, responses=len(self.payoffs), queries=queries, failure=failure, span=span)

    def decide(self, posterior: dc.results.PosteriorDraws, options: Mapping[str, Any]) -> dc.decisions.Decision[str]:
        """Choose the response."""
        utility = dc.decisions.payoff(posterior.network, self.query, self.payoffs)
        return dc.decide(posterior, utility, list(self.payoffs), bounds=self.bounds, **options)


@dataclass(frozen=True)
class _NumberTask:
    """A quantity, and the loss of its number."""

    query: str
    loss: NumberLoss

    def check(self, network: dc.Network) -> None:
        """Refuse a query that the network cannot answer."""
        dc.decisions.number_bounds(network, self.query)

    def draws(self, within: float, queries: int, failure: float, network: dc.Network) -> int:
        """Count the draws that keep the regret within a bound."""
        low, high = dc.decisions.number_bounds(network, self.query)
        relative = within / (high - low) ** self.loss.power
        return dc.decisions.plan_draws(relative, responses=self.loss, queries=queries, failure=failure)

    def decide(self, posterior: dc.results.PosteriorDraws, options: Mapping[str, Any]) -> dc.decisions.NumberDecision:
        """Choose the number."""
        return dc.decisions.decide_number(posterior, self.query, self.loss, **options)


@dataclass(frozen=True)
class _VectorTask:
    """Quantities that are answered as one vector."""

    quantities: tuple[str, ...]

    @property
    def query(self) -> str:
        """Texts of the quantities."""
        return "; ".join(self.quantities)

    def check(self, network: dc.Network) -> None:
        """Refuse a query that the network cannot answer."""
        dc.decisions.vector_diameter(network, self.quantities)

    def draws(self, within: float, queries: int, failure: float, network: dc.Network) -> int:
        """Count the draws that keep the regret within a bound; the other half of the failure is for closer bounds."""
        most = dc.decisions.vector_diameter(network, self.quantities) ** 2
        return math.ceil(most * dc.decisions.vector_error(within, queries, failure / 2))

    def decide(self, posterior: dc.results.PosteriorDraws, options: Mapping[str, Any]) -> dc.decisions.VectorDecision:
        """Choose the vector."""
        return dc.decisions.decide_vector(posterior, self.quantities, **options)


Task: TypeAlias = _PayoffTask | _NumberTask | _VectorTask
if TYPE_CHECKING:
    NumberLoss: TypeAlias = dc.decisions.Squared | dc.decisions.Absolute | dc.decisions.Quantile | dc.decisions.Interval
    Decided: TypeAlias = dc.decisions.Decision[str] | dc.decisions.NumberDecision | dc.decisions.VectorDecision

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
        "--quantity", metavar="QUERY", help=f"{option_texts.QUANTITY} Such as 'P(lung=yes | smoke=yes)'; repeatable."
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
Together = Annotated[
    bool,
    flags.questions(
        "--together",
        help="Answer all quantities as one vector, under squared distance; one may be a whole distribution, such as "
        "'P(lung | smoke=yes)'.",
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
    together: Together = False,
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
    """Choose the response of the largest expected payoff, or the number or vector of the least expected loss.

    Every decision has a bound on what it loses because draws are finitely many. Decisions spend no budget.

    Example:
        discreet decide release.json --query "P(lung | smoke=yes)"
          --payoffs '{"scan": {"yes": 1, "no": 0.6}, "wait": {"yes": 0, "no": 1}}'
        discreet decide release.json --quantity "P(lung=yes | smoke=yes)"
          --loss quantile:0.9 --within 0.05
        discreet decide release.json --quantity "P(lung | smoke=yes)" --together
    """
    out = OutputOptions.of(form, output, replace_file, as_json)
    tasks: list[Task] = [
        *_read_choices(query or [], payoffs or []),
        *_read_numbers(quantity or [], loss or [], together),
    ]
    if not tasks:
        raise InputError("give a --query with its --payoffs, or a --quantity; discreet decide --help shows both")
    evidence, stored = load_source(release)
    if stored is not None:
        _refuse_drawing(draws, within, seed)
        draws = stored.probabilities.draws
    network = stored.network if stored is not None and stored.more else _find_network(evidence, missing)
    number = _count_draws(tasks, draws, within, failure, level, network)
    for task in tasks:  # refuse before drawing
        task.check(network)
    how = Drawing(method, trust_network=trust_network)
    if stored is None:
        how = replace(how, draws=number, seed=secrets.randbits(64) if seed is None else seed)
    posterior = posterior_of(evidence, how, missing, stored)
    options = {"level": level, "failure": failure, "queries": len(tasks), "fresh": False}
    # The decisions were fixed before these draws, and a random seed has shown them to nobody.
    alone = seed is None and stored is None and posterior.source is not None
    decisions = [replace(task.decide(posterior, options), fresh=alone) for task in tasks]
    _hint_at_draws(decisions, within, number)
    each = list(zip(tasks, decisions, strict=True))
    content = [line for task, decision in each for line in _list_content(task, decision)]
    content.append(f"{_say_when_bounds_hold(decisions)}; posterior: {posterior.method}, {number:,} draws")
    documents = [decision.document(task.query) for task, decision in each]
    document = {"method": posterior.method, "draws": number, "decisions": documents}
    out.show(document, content, [row for task, decision in each for row in _list_rows(task, decision)])


def _find_network(evidence: Evidence, missing: str | None) -> dc.Network:
    """Find the network of the queries: that of the answers.

    With missing values at random, it is the network of complete records.
    """
    return evidence.answers_over.without_missing() if missing == "at-random" else evidence.answers_over


def _read_choices(queries: list[str], payoffs: list[str]) -> list[_PayoffTask]:
    """Read queries with their payoffs."""
    if len(queries) != len(payoffs):
        raise InputError(
            f"{len(queries)} --query and {len(payoffs)} --payoffs: give one --payoffs for each query, in its order"
        )
    return [_PayoffTask(query, _read_payoffs(text)) for query, text in zip(queries, payoffs, strict=True)]


def _read_numbers(quantities: list[str], losses: list[str], together: bool) -> list[_NumberTask | _VectorTask]:
    """Read quantities with their losses, or as one vector."""
    if (losses or together) and not quantities:
        raise InputError("--loss is for a --quantity, and so is --together; give --payoffs for a --query")
    parsed = [dc.decisions.number_loss(text) for text in losses or ["squared"]]
    if together:
        if any(str(each) != "squared" for each in parsed):
            raise InputError("a vector is answered under squared distance: leave out --loss, or --together")
        return [_VectorTask(tuple(quantities))]
    if len(parsed) not in (1, max(1, len(quantities))):
        raise InputError(f"{len(parsed)} --loss for {len(quantities)} --quantity: give one for all, or one for each")
    return [_NumberTask(text, parsed[i if len(parsed) > 1 else 0]) for i, text in enumerate(quantities)]


def _read_payoffs(text: str) -> Payoffs:
    """Read payoffs from JSON, or from a file of it."""
    inline = text.lstrip().startswith("{")
    raw = read_json(text if inline else read_text(text, "payoffs", QUERIES_BYTES), "the payoffs", QUERIES_BYTES)
    rows = raw.values() if isinstance(raw, dict) else [None]
    values: list[Any] = [value for row in rows for value in (row.values() if isinstance(row, dict) and row else [None])]
    if not values or any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        raise InputError(
            'payoffs are JSON of the form {"response": {"state": number, ...}, ...}, with every state of the queried '
            f"variable; not {shown(text)}"
        )
    if min(values) == max(values):
        raise InputError("all payoffs are equal: there is nothing to decide")
    return {name: {state: number(value, "a payoff") for state, value in row.items()} for name, row in raw.items()}


def _count_draws(
    tasks: list[Task], draws: int | None, within: float | None, failure: float, level: float, network: dc.Network
) -> int:
    """Count the draws: those given, or enough for the bound and for intervals."""
    if within is None:
        number = flags.DEFAULT_DRAWS if draws is None else draws
        check_draws(number, level)
        return number
    if draws is not None:
        raise InputError("--within computes the number of draws; leave out --draws, or --within")
    wanted = max(task.draws(within, len(tasks), failure, network) for task in tasks)
    if wanted > MOST_DECISION_DRAWS:
        raise InputError(
            f"a loss within {within:g} takes {wanted:,} draws in the worst case, more than "
            f"{MOST_DECISION_DRAWS:,}; give "
            "--draws and see the bound of these decisions, which is often far less"
        )
    return max(wanted, draws_for(level))


def _say_when_bounds_hold(decisions: list[Decided]) -> str:
    """Write when all bounds hold."""
    first, several = decisions[0], len(decisions) > 1
    bounds = f"all {len(decisions)} bounds hold together" if several else "the bound holds"
    when = "however the decisions were chosen" if first.fresh else "if they were fixed before anybody saw these draws"
    return f"{bounds}, except with probability {first.failure:g}, {when}"


def _hint_at_draws(decisions: list[Decided], within: float | None, number: int) -> None:
    """Suggest more draws if dependent draws leave a bound above the goal."""
    ess = min(each.effective for each in decisions)
    if within is not None and any(each.regret > within for each in decisions):
        say(
            f"the {number:,} draws equal {ess:,.0f} independent ones, so a bound is above {within:g}; try "
            f"about --draws {min(MOST_DECISION_DRAWS, int(1.2 * number**2 / ess)):,}".replace(",", "")
        )


def _refuse_drawing(draws: int | None, within: float | None, seed: int | None) -> None:
    """Refuse options of drawing for stored draws."""
    if (draws, within, seed) != (None, None, None):
        raise InputError("these draws are stored: leave out --draws, --within and --seed, or use their release")


def _list_content(task: Task, decision: Decided) -> list[str | Block]:
    """List the lines and tables of a decision, with its query before the first, and an empty line at the end."""
    chosen, *rest = decision.content()
    return [f"{task.query}: {chosen}", *rest, ""]


def _list_rows(task: Task, decision: Decided) -> list[dict[str, Any]]:
    """List the rows of a decision's frame, with its query."""
    beside = {"regret": decision.regret}
    if isinstance(decision, dc.decisions.Decision):
        chosen = str(decision.response)
        return [{"query": task.query, **row, "chosen": row["response"] == chosen, **beside} for row in decision.tidy()]
    if isinstance(decision, dc.decisions.VectorDecision):
        return [{"query": task.query, **row, "chosen": True, **beside} for row in decision.tidy()]
    (row,) = decision.tidy()
    row["response"] = " to ".join(f"{row[end]:.6g}" for end in ("response", "response_upper") if row[end] is not None)
    row.pop("response_upper")
    return [{"query": task.query, **row, "chosen": True}]
