"""What can be said in a request: one model an operation, read from the address or from a body of JSON."""

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
        description='Such as "P(lung | smoke=yes)", "MAP(A, B | C=c)", "E(X)"; all marginals, or all coefficients or '
        "parameters, without any.",
        examples=[["P(lung | smoke=yes)"]],
    ),
]
Evidence = Annotated[
    list[Text],
    Field(max_length=QUERIES, description="Observed variables with their states.", examples=[["smoke=yes"]]),
]
ESCAPE = b"\\u"
"""How a body may say half a character."""
Form = Annotated[Literal["json", "csv"], Field(description="JSON, or a row for each number.")]


Value = str | bool | int | float | None


def _members(found: Any) -> Iterable[tuple[object, Any]]:
    """What an object or a list holds, each with its name or place."""
    return found.items() if isinstance(found, dict) else enumerate(found)


def _inside(of: Mapping[type, type], values: tuple[type, ...], wanted: str) -> pydantic.BeforeValidator:
    """Refuse the first value of another type two levels inside: of each of them pydantic would make an error."""

    def check(found: Any) -> Any:
        inner = of.get(type(found))
        if inner is None:
            return found
        for at, part in _members(found):
            if type(part) is not inner:
                raise PydanticCustomError("inside", "{wanted}; {at} is not", {"wanted": wanted, "at": shown(at)})
            for name, value in _members(part):
                if not isinstance(value, values):
                    at = f"{shown(name)} of {shown(at)}"
                    raise PydanticCustomError("inside", "{wanted}; {at} is not", {"wanted": wanted, "at": at})
        return found

    return pydantic.BeforeValidator(check)


Records = list[dict[str, Value]] | dict[str, list[Value]]


class RequestFields(pydantic.BaseModel):
    """Base of all: nothing else may be said."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class NoRequest(RequestFields):
    """Nothing can be said."""


class _PosteriorFields(RequestFields):
    """Which posterior, and how sure."""

    level: Level = option_texts.DEFAULT_LEVEL
    predictive: Predictive = False
    missing: Missing = None
    format: Form = "json"


class MarginalsRequest(_PosteriorFields):
    """All marginals given evidence."""

    e: Evidence = []


class QueryRequest(_PosteriorFields):
    """Queries."""

    q: Queries = []
    assume: Assume = None
    inside: Inside = "log-linear"


class PredictRequest(RequestFields):
    """Records of which some variables are seen, by column or one by one."""

    records: Annotated[
        Records,
        Field(description="One object a record, or one list a column.", examples=[[{"smoke": "yes"}]]),
        _inside(
            {list: dict, dict: list},
            (str, bool, int, float, type(None)),
            "a record is an object, and a column a list, of texts, numbers, true, false or null",
        ),
    ]
    target: Annotated[str | None, Field(description="Variable to predict; of a regression left out.")] = None
    level: Level = option_texts.DEFAULT_LEVEL
    missing: Missing = None


class DecisionRequest(RequestFields):
    """A query with payoffs, or a quantity with a loss."""

    query: Annotated[Text | None, Field(description="For all states of one variable.")] = None
    payoffs: Annotated[
        dict[str, dict[str, float]] | None,
        Field(description=option_texts.PAYOFFS),
        _inside({dict: dict}, (int, float), "what a response pays is an object of states with numbers"),
    ] = None
    responses: Annotated[
        list[Text] | None, Field(max_length=QUERIES, description="Those that may be chosen; left out, all that pay.")
    ] = None
    quantity: Annotated[Text | None, Field(description=option_texts.QUANTITY)] = None
    loss: Annotated[str, Field(description=option_texts.LOSS)] = "squared"
    level: Level = option_texts.DEFAULT_LEVEL
    bounds: Annotated[
        tuple[float, float] | None,
        Field(description="Least and most that is paid, or that the quantity can be; left out, the payoffs' own."),
    ] = None
    queries: Annotated[int, Field(description="Decisions in all, that the bound shall hold for together.")] = 1
    failure: Annotated[float, Field(description=option_texts.FAILURE)] = option_texts.DEFAULT_FAILURE
    missing: Missing = None


class RegressRequest(RequestFields):
    """A regression of one variable on others."""

    target: Text
    on: Annotated[list[Text], Field(min_length=1, max_length=100, description="Covariates.")]
    kind: Annotated[option_texts.RegressionKind, Field(description=option_texts.KIND)] = "linear"
    level: Level = option_texts.DEFAULT_LEVEL
    assume: Annotated[option_texts.LawAssume | None, Field(description="As of queries, which can be asked more.")] = (
        None
    )
    inside: Inside = "log-linear"
    missing: Missing = None
    draws: Annotated[bool, Field(description="Also the coefficients under every draw; of JSON alone.")] = False
    format: Form = "json"


class ExplainRequest(RequestFields):
    """What one record can change, and what answers depend on."""

    q: Queries = []
    level: Level = option_texts.DEFAULT_LEVEL
    rows: Annotated[int, Field(ge=1, le=100, description=option_texts.ROWS)] = option_texts.DEFAULT_ROWS


class FitRequest(RequestFields):
    """What the release says of its network."""


class SyntheticRequest(RequestFields):
    """Synthetic records."""

    n: Annotated[int, Field(ge=0, description="Records of each set.")]
    sets: Annotated[
        int | None, Field(ge=1, description="Data sets, each of another draw; left out, one of the posterior's mean.")
    ] = None
    set: Annotated[int, Field(ge=1, description="Which of them.")] = 1
    seed: Annotated[int, Field(ge=0, lt=2**63, description="The records are those of dc.sample(rng=seed).")] = 0
    format: Annotated[option_texts.FileFormat, Field(description="Of the file.")] = "csv"
    missing: Missing = None


class ReportRequest(RequestFields):
    """A report for people."""

    level: Level = option_texts.DEFAULT_LEVEL
    format: Annotated[option_texts.ReportForm, Field(description="One page without scripts, or Markdown.")] = "html"


Model = TypeVar("Model", bound=RequestFields)


def read_address(model: type[Model], given: QueryParams) -> Model:
    """What the part of an address after its question mark says.

    Raises:
        Problem: a name that is not known, one that is there twice and may not be, or another value.
    """
    found: dict[str, Any] = {}
    for name in dict.fromkeys(given):
        values = given.getlist(name)
        field = model.model_fields.get(name)
        several = field is not None and get_origin(field.annotation) is list
        if len(values) > 1 and not several:
            raise Problem("bad-request", f"{shown(name)} is given {len(values)} times; give it once")
        found[name] = values if several else values[0]
    return _validate(model, found)


def read_body(model: type[Model], body: bytes) -> Model:
    """What a body of JSON says.

    Raises:
        InputError: no JSON, a field that is there twice, or a number that is none.
        Problem: of another form.
    """
    found = read_json(decode_text(body, "the body"), "the body", len(body))
    if ESCAPE in body:  # perhaps half a character, which no answer could hold
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise Problem("bad-request", "the body has halves of characters, \\ud800 to \\udfff") from None
    if not isinstance(found, dict):
        raise Problem("bad-request", f"the body is an object of JSON with {listed(model.model_fields)}")
    return _validate(model, found)


def read_evidence(schema: Schema, texts: list[str]) -> dict[str, str]:
    """Observed variables of texts such as `smoke=yes`; names and states may hold an equals sign.

    Raises:
        InputError: one that names no variable and state, or a variable that is there twice.

    Example:
        >>> import discreet as dc
        >>> read_evidence(dc.Schema((dc.Variable("smoke", ("no", "yes")),)), ["smoke=yes"])
        {'smoke': 'yes'}
    """
    found: dict[str, str] = {}
    for text in texts:
        places = [at for at, mark in enumerate(text) if mark == "="]
        split = ((text[:at].strip(), text[at + 1 :].strip()) for at in places[:100])
        name, state = next(((one, other) for one, other in split if one in schema), ("", ""))
        if not name:
            known = listed(schema.names)
            raise InputError(f"{shown(text)} is no evidence such as smoke=yes; there are the variables {known}")
        schema[name].code(state)
        if name in found:
            raise InputError(f"the evidence has {shown(name)} twice; a variable has one state")
        found[name] = state
    return found


def _validate(model: type[Model], given: Mapping[str, Any]) -> Model:
    """The model, or the first fault in one sentence."""
    unknown = next((name for name in given if name not in model.model_fields), None)
    if unknown is not None:
        known = listed(model.model_fields) or "none"
        raise Problem("bad-request", f"{shown(unknown)} is no parameter of this question; there are: {known}")
    try:
        return model.model_validate(dict(given))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"] if "[" not in str(part))  # no names of types
        raise Problem("bad-request", f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None
