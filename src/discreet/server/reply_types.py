"""Define the JSON of each operation's answer as types; OpenAPI is made from them, and a test checks all answers.

If an answer is a type of the package, that type is used directly.
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict  # pydantic accepts no other TypedDict before Python 3.12

from discreet.deciding.number_losses import LEVEL_LOSSES, LOSSES
from discreet.model.origin import Learned
from discreet.model.query_grammar import QueryKind
from discreet.noise.noise_laws import LawTag
from discreet.posterior.basis import Mark
from discreet.posterior.fit_check import Tested
from discreet.posterior.protocol import NamedRow
from discreet.posterior.read import Gives
from discreet.queries.answers import EvidenceProbability
from discreet.reporting.explanation import Explanation, InferenceLimits
from discreet.server.problems import PROBLEMS
from discreet.server.readings import State
from discreet.util.option_texts import Gaps, Inside, RegressionKind

PROBLEM_TYPES = tuple(f"urn:discreet:problem:{kind}" for kind in PROBLEMS)
Loss = Annotated[
    str,
    Field(
        description="squared, absolute, quantile:0.9 or interval:0.9.",
        json_schema_extra={"pattern": f"^({LOSSES}|({LEVEL_LOSSES}):[0-9.e-]+)$"},
    ),
]


DRAWN = "Numbers of each row in every draw; null where the evidence is impossible, or where they are infinite."


class ProblemReply(TypedDict):
    """A problem (RFC 9457)."""

    type: Annotated[str, Field(json_schema_extra={"enum": [*PROBLEM_TYPES]})]
    title: str
    status: int
    detail: Annotated[str, Field(description="One sentence.")]


class HealthReply(TypedDict):
    """State of the server."""

    status: Literal["ok"]
    version: str


class ListedVersion(TypedDict):
    """A version of a release."""

    id: str
    version: int


class ListedRelease(TypedDict):
    """The newest version of a release."""

    name: str
    id: str
    version: int
    kind: Gives
    private: bool
    date: Annotated[str | None, Field(description="ISO date; null for combined releases.")]
    guarantees: list[str]
    variables: int
    draws: State
    fault: Annotated[str | None, Field(description="Reason why a changed file could not be read.")]
    versions: Annotated[list[ListedVersion], Field(description="The newest first.")]


class ReleasesReply(TypedDict):
    """All releases that are served."""

    releases: list[ListedRelease]


class FitReply(TypedDict):
    """Result of the check of a release's network."""

    contradicted: list[Tested]
    tested: int
    pairs_in_tables: int
    pairs: int


class _BasisReply(TypedDict):
    """Basis of numbers."""

    left_out: Annotated[float, Field(description="Share of the draws under which the evidence is impossible.")]
    basis: Mark | None
    unmeasured: list[tuple[str, str]]
    prior_only: list[list[str]]
    assumes: list[str]


class AnswerReply(_BasisReply):
    """The answer to a query."""

    query: str
    kind: QueryKind
    level: float
    evidence: EvidenceProbability | None
    too_rare: bool
    unit: NotRequired[str]
    inside: NotRequired[Inside]
    sums: NotRequired[list[str]]
    clipped: NotRequired[list[str]]
    concerns: NotRequired[list[str]]
    more_evidence: NotRequired[list[EvidenceProbability]]
    sampling: NotRequired[_SamplingReply]
    draws: NotRequired[Annotated[list[list[float | None]], Field(description=DRAWN)]]
    weights: NotRequired[Annotated[list[float], Field(description="Weight of each draw, of a predictive answer.")]]
    values: list[_AnswerValue]


class _AnswerValue(TypedDict):
    """Row of an answer, as `AnswerRow`; an end without bound is null. Numbers of dates have these in `dates`."""

    state: dict[str, str]
    mean: float
    lower: float | None
    upper: float | None
    noise: NotRequired[float | None]
    noise_error: NotRequired[float | None]
    best: NotRequired[float]
    law_lower: NotRequired[float]
    law_upper: NotRequired[float]
    dates: NotRequired[dict[str, str]]


class _SamplingReply(TypedDict):
    """Sampling of an answer for which exact inference is out of reach; `widening` is null if unbounded."""

    records: int
    effective: float
    error: float
    widening: float | None


class MeasuredElsewhere(TypedDict):
    """A table of figures by others."""

    variables: list[str]
    noise: LawTag | None
    scale: float | None
    sums: bool


class SourceElsewhere(TypedDict):
    """Figures by others, with the guarantee that they state."""

    id: str
    source: str
    guarantee_by_source: str | None
    measurements: list[MeasuredElsewhere]


class AnswersReply(TypedDict):
    """Answers to queries, and the method of their posterior."""

    method: str
    fit: NotRequired[FitReply]
    learned: NotRequired[list[Learned]]
    by_others: NotRequired[list[SourceElsewhere]]
    missing: NotRequired[Gaps]
    answers: list[AnswerReply]
    effective: NotRequired[Annotated[float, Field(description="Effective number of independent draws.")]]


ClassRow = TypedDict("ClassRow", {"class": str, "name": str, "mean": float, "lower": float, "upper": float})
"""A coefficient of one class."""


class CoefficientsReply(TypedDict):
    """Coefficients of a regression, or of a direction."""

    method: str
    level: float
    coefficients: list[NamedRow | ClassRow]


class ParametersReply(TypedDict):
    """Parameters of a family."""

    method: str
    level: float
    parameters: list[NamedRow]


class PredictedRecord(TypedDict):
    """Prediction for a record, by state or by the target's name."""

    mean: dict[str, float]
    lower: dict[str, float]
    upper: dict[str, float]
    left_out: NotRequired[float]
    basis: NotRequired[Mark | None]


class PredictReply(TypedDict):
    """A prediction for each record."""

    target: str | None
    level: float
    records: list[PredictedRecord]


class _Loses(TypedDict):
    """Expected loss of a decision."""

    level: float
    regret: float
    failure: float
    fresh: bool
    effective: float


class PaidRow(TypedDict):
    """Payoff of a response, and the probability that it is the best."""

    response: str
    mean: float
    lower: float
    upper: float
    best: float


class ResponseReply(_Loses):
    """The response with the largest expected payoff."""

    kind: Literal["response"]
    query: str
    response: str
    values: list[PaidRow]


class _QuantityReply(_Loses):
    """Expected loss of what is named for a quantity."""

    quantity: str
    expected: float
    lower: float
    upper: float


class NumberReply(_QuantityReply):
    """The number with the least expected loss."""

    kind: Literal["number"]
    loss: Loss
    response: float | tuple[float, float]
    dates: NotRequired[dict[str, str | list[str]]]


class VectorReply(_QuantityReply):
    """The numbers with the least expected squared distance."""

    kind: Literal["vector"]
    loss: Literal["squared"]
    response: list[float]
    values: list[NamedRow]


class RegressReply(_BasisReply):
    """A regression of one variable on others."""

    target: str
    on: list[str]
    kind: RegressionKind
    given: NotRequired[str]
    dates: NotRequired[list[tuple[str, str]]]
    level: float
    coefficients: list[NamedRow]
    draws: NotRequired[Annotated[list[list[float]], Field(description="Coefficients under each draw.")]]


class CombinedExplanationReply(TypedDict):
    """Effects of one record on all releases of each data set together, and on each release by its id."""

    together: Annotated[list[InferenceLimits | str], Field(description="A sentence where there is no one guarantee.")]
    releases: dict[str, Explanation]


class CombinedDocument(TypedDict):
    """Several releases, and figures by others, as one."""

    format: Literal["discreet-combined"]
    version: int
    public: dict[str, list[float]] | None
    data_sets: list[list[dict[str, object]]]
