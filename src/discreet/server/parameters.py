"""Define the parameters of each operation, read from the address or from a JSON body."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_origin

import pydantic
from pydantic import Field
from pydantic_core import PydanticCustomError
from starlette.datastructures import QueryParams

from discreet.errors import InputError, listed, shown
from discreet.model.schema import Schema
from discreet.server.problems import Problem
from discreet.util import option_texts
from discreet.util.json_files import decode_text, read_json
from discreet.util.limits import QUERIES, QUERY_CHARACTERS

Level = Annotated[
    float,
    Field(description=option_texts.LEVEL, json_schema_extra={"exclusiveMinimum": 0, "exclusiveMaximum": 1}),
]
Predictive = Annotated[bool, Field(description=option_texts.PREDICTIVE)]
Missing = Annotated[option_texts.Gaps | None, Field(description=option_texts.MISSING)]
Assume = Annotated[option_texts.Assume | None, Field(description=f"{option_texts.ASSUME} Default: robust.")]
Inside = Annotated[option_texts.Inside, Field(description=option_texts.INSIDE)]
Text = Annotated[str, Field(max_length=QUERY_CHARACTERS)]
Queries = Annotated[
    list[Text],
    Field(
        max_length=QUERIES,
        description='Queries such as "P(lung | smoke=yes)", "MAP(A, B | C=c)", "E(X)". Default: all marginals, or all '
        "coefficients or parameters.",
        examples=[["P(lung | smoke=yes)"]],
    ),
]
Evidence = Annotated[
    list[Text],
    Field(max_length=QUERIES, description="Observed variables with their states.", examples=[["smoke=yes"]]),
]
ESCAPE = b"\\u"
"""Escape sequence in JSON that can hold half of a surrogate pair."""
Form = Annotated[Literal["json", "csv"], Field(description="JSON, or a row for each number.")]


Value = str | bool | int | float | None


def _members(container: Any) -> Iterable[tuple[object, Any]]:
    """List the members of an object or list, each with its name or position."""
    return container.items() if isinstance(container, dict) else enumerate(container)


def _inside(of: Mapping[type, type], values: tuple[type, ...], wanted: str) -> pydantic.BeforeValidator:
    """Refuse the first value of a wrong type two levels inside; pydantic would report each of them."""

    def check(container: Any) -> Any:
        inner = of.get(type(container))
        if inner is None:
            return container
        for at, member in _members(container):
            if type(member) is not inner:
                raise PydanticCustomError("inside", "{wanted}; {at} is not", {"wanted": wanted, "at": shown(at)})
            for name, value in _members(member):
                if not isinstance(value, values):
                    at = f"{shown(name)} of {shown(at)}"
                    raise PydanticCustomError("inside", "{wanted}; {at} is not", {"wanted": wanted, "at": at})
        return container

    return pydantic.BeforeValidator(check)


Records = list[dict[str, Value]] | dict[str, list[Value]]


class RequestFields(pydantic.BaseModel):
    """Base of all parameters: other fields are refused."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class NoRequest(RequestFields):
    """A request without parameters."""


class _PosteriorFields(RequestFields):
    """Parameters of the posterior and the intervals."""

    level: Level = option_texts.DEFAULT_LEVEL
    predictive: Predictive = False
    missing: Missing = None
    draws: Annotated[bool, Field(description="Add the numbers of each row in every draw; JSON only.")] = False
    format: Form = "json"


class MarginalsRequest(_PosteriorFields):
    """Parameters of all marginals given evidence."""

    e: Evidence = []


class QueryRequest(_PosteriorFields):
    """Queries and their options."""

    q: Queries = []
    assume: Assume = None
    inside: Inside = "log-linear"


class PredictRequest(RequestFields):
    """Records with some variables observed, by column or one by one."""

    records: Annotated[
        Records,
        Field(description="One object a record, or one list a column.", examples=[[{"smoke": "yes"}]]),
        _inside(
            {list: dict, dict: list},
            (str, bool, int, float, type(None)),
            "a record is an object, and a column a list, of texts, numbers, true, false or null",
        ),
    ]
    target: Annotated[str | None, Field(description="Variable to predict. Leave it out for a regression.")] = None
    level: Level = option_texts.DEFAULT_LEVEL
    missing: Missing = None


class DecisionRequest(RequestFields):
    """A query with payoffs, a quantity with a loss, or quantities as one vector."""

    query: Annotated[Text | None, Field(description="For all states of one variable.")] = None
    payoffs: Annotated[
        dict[str, dict[str, float]] | None,
        Field(description=option_texts.PAYOFFS),
        _inside({dict: dict}, (int, float), "what a response pays is an object of states with numbers"),
    ] = None
    responses: Annotated[
        list[Text] | None, Field(max_length=QUERIES, description="Responses to choose from. Default: all with payoffs.")
    ] = None
    quantity: Annotated[Text | None, Field(description=option_texts.QUANTITY)] = None
    quantities: Annotated[
        list[Text] | None,
        Field(max_length=QUERIES, description="Quantities or distributions, named together under squared distance."),
    ] = None
    loss: Annotated[str, Field(description=option_texts.LOSS)] = "squared"
    level: Level = option_texts.DEFAULT_LEVEL
    bounds: Annotated[
        tuple[float, float] | None,
        Field(description="Least and largest payoff, or value of the quantity. Default: those that are possible."),
    ] = None
    queries: Annotated[int, Field(description="Number of decisions for which the bound holds together.")] = 1
    failure: Annotated[float, Field(description=option_texts.FAILURE)] = option_texts.DEFAULT_FAILURE
    missing: Missing = None


class RegressRequest(RequestFields):
    """A regression of one variable on others."""

    target: Text
    on: Annotated[list[Text], Field(min_length=1, max_length=100, description="Covariates.")]
    kind: Annotated[option_texts.RegressionKind, Field(description=option_texts.KIND)] = "linear"
    given: Annotated[str, Field(description="States that all records have, such as smoke=yes.")] = ""
    level: Level = option_texts.DEFAULT_LEVEL
    assume: Annotated[option_texts.LawAssume | None, Field(description="Assumption of pairs that no table has.")] = None
    inside: Inside = "log-linear"
    missing: Missing = None
    draws: Annotated[bool, Field(description="Add the coefficients under each draw; JSON only.")] = False
    format: Form = "json"


class ExplainRequest(RequestFields):
    """Parameters of an explanation: changes by one record, and dependence of answers."""

    q: Queries = []
    level: Level = option_texts.DEFAULT_LEVEL
    rows: Annotated[int, Field(ge=1, le=100, description=option_texts.ROWS)] = option_texts.DEFAULT_ROWS


class FitRequest(RequestFields):
    """Parameters of the check of a network: none."""


class SyntheticRequest(RequestFields):
    """Parameters of synthetic records."""

    n: Annotated[int, Field(ge=0, description="Records of each set.")]
    sets: Annotated[
        int | None, Field(ge=1, description="Data sets, each from another draw. Default: one from the posterior mean.")
    ] = None
    given: Annotated[str, Field(description="Evidence that each record has, such as smoke=yes.")] = ""
    set: Annotated[int, Field(ge=1, description="Number of the set, from 1.")] = 1
    seed: Annotated[int, Field(ge=0, lt=2**63, description="The records are those of dc.sample(rng=seed).")] = 0
    format: Annotated[option_texts.FileFormat, Field(description="Of the file.")] = "csv"
    missing: Missing = None


class ReportRequest(RequestFields):
    """Parameters of a report."""

    level: Level = option_texts.DEFAULT_LEVEL
    format: Annotated[option_texts.ReportForm, Field(description="One page without scripts, or Markdown.")] = "html"


Model = TypeVar("Model", bound=RequestFields)


def read_address(model: type[Model], parameters: QueryParams) -> Model:
    """Read the parameters of an address after its question mark.

    Raises:
        Problem: an unknown name, one that is repeated and may not be, or an invalid value.
    """
    fields: dict[str, Any] = {}
    for name in dict.fromkeys(parameters):
        values = parameters.getlist(name)
        field = model.model_fields.get(name)
        several = field is not None and get_origin(field.annotation) is list
        if len(values) > 1 and not several:
            raise Problem("bad-request", f"{shown(name)} is given {len(values)} times; give it once")
        fields[name] = values if several else values[0]
    return _validate(model, fields)


def read_body(model: type[Model], body: bytes) -> Model:
    """Read a JSON body.

    Raises:
        InputError: invalid JSON, a repeated field, or a number that is not finite.
        Problem: another form.
    """
    document = read_json(decode_text(body, "the body"), "the body", len(body))
    if ESCAPE in body:  # a lone surrogate cannot be encoded in an answer
        try:
            json.dumps(document, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise Problem("bad-request", "the body has lone surrogates, \\ud800 to \\udfff; send characters") from None
    if not isinstance(document, dict):
        raise Problem("bad-request", f"the body must be a JSON object with {listed(model.model_fields)}")
    return _validate(model, document)


def read_evidence(schema: Schema, texts: list[str]) -> dict[str, str]:
    """Read evidence such as `smoke=yes`; names and states may contain an equals sign.

    Raises:
        InputError: a text without a variable and a state, or a variable that occurs twice.

    Example:
        >>> import discreet as dc
        >>> read_evidence(dc.Schema((dc.Variable("smoke", ("no", "yes")),)), ["smoke=yes"])
        {'smoke': 'yes'}
    """
    evidence: dict[str, str] = {}
    for text in texts:
        places = [at for at, mark in enumerate(text) if mark == "="]
        split = ((text[:at].strip(), text[at + 1 :].strip()) for at in places[:100])
        name, state = next(((before, after) for before, after in split if before in schema), ("", ""))
        if not name:
            names = listed(schema.names)
            raise InputError(f"{shown(text)} is no evidence such as smoke=yes; the variables are {names}")
        schema[name].code(state)
        if name in evidence:
            raise InputError(f"the evidence has {shown(name)} twice; a variable has one state")
        evidence[name] = state
    return evidence


def _validate(model: type[Model], fields: Mapping[str, Any]) -> Model:
    """Validate the fields, or raise the first fault in one sentence."""
    names = [field.alias or name for name, field in model.model_fields.items()]
    unknown = next((name for name in fields if name not in names), None)
    if unknown is not None:
        known = listed(names) or "none"
        raise Problem("bad-request", f"{shown(unknown)} is no parameter of this question; its parameters are: {known}")
    try:
        return model.model_validate(dict(fields))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        location = ".".join(str(member) for member in first["loc"] if "[" not in str(member))  # no names of types
        raise Problem("bad-request", f"{location}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None
