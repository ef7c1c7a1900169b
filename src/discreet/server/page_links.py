"""Parameters of a page, and addresses of related pages: each state of a page is a link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from html import escape
from typing import Annotated, Literal
from urllib.parse import quote_plus, urlencode

from pydantic import Field

from discreet.errors import InputError
from discreet.model.network import Network
from discreet.model.query_grammar import ComposedQuery, Probability, read_query
from discreet.server.parameters import Level, Missing, RequestFields, Text, read_evidence
from discreet.util import option_texts

KEPT = "\0"
"""Placeholder in a cached fragment for the page's query, which links carry on. No text of a page contains it."""


MOST_OBSERVED, MOST_CHARACTERS, MOST_CARRIED = 100, 2_000, 300
"""Most observed variables of a page, characters of its query, and of a query that all its links carry on."""
Evidence = Annotated[list[Text], Field(max_length=MOST_OBSERVED, description="Observed variables with their states.")]


class PageRequest(RequestFields):
    """Parameters of a page of one release; its evidence is in the order of observation."""

    e: Evidence = Field(default_factory=list)
    level: Level = option_texts.DEFAULT_LEVEL
    view: Literal["table", "network"] | None = None
    noise: bool = False
    missing: Missing = None
    q: Annotated[str | None, Field(max_length=MOST_CHARACTERS, description="A query.")] = None
    download: bool = False


class CompareRequest(RequestFields):
    """Parameters of the page that compares two releases; addresses call these `one` and `other`."""

    first: Annotated[Text | None, Field(alias="one")] = None
    second: Annotated[Text | None, Field(alias="other")] = None
    e: Evidence = Field(default_factory=list)
    level: Level = option_texts.DEFAULT_LEVEL


def address(page: PageRequest, **changes: object) -> str:
    """Write the relative address of a page with some parameters changed; defaults are left out.

    Example:
        >>> address(PageRequest(e=["smoke=yes", "lung=no"], q="P(x)"), e=["smoke=yes"], q=None, noise=True)
        '?e=smoke%3Dyes&noise=1'
    """
    return "?" + urlencode(pairs_of(page.model_copy(update=changes)))


def pairs_of(page: PageRequest) -> list[tuple[str, str]]:
    """List the parameters of an address as names and values."""
    pairs = [("e", text) for text in page.e]
    if page.level != PageRequest.model_fields["level"].default:
        pairs.append(("level", f"{page.level!r}"))
    pairs += [(name, value) for name in ("view", "missing") if (value := getattr(page, name)) is not None]
    if page.q is not None and len(quote_plus(page.q)) <= MOST_CARRIED:
        pairs.append(("q", page.q))
    return pairs + [(name, "1") for name in ("noise", "download") if getattr(page, name)]


def given_query(page: PageRequest, network: Network) -> str:
    """Return a page's query conditioned on its evidence, or a query of the first variable that is not observed.

    Returns:
        Its text; "" if nothing is observed, or if the query has evidence or cannot be read.
    """
    try:
        evidence = tuple(read_evidence(network.schema, page.e).items())
        free = [name for name in network.nodes if name not in dict(evidence)]
        query = read_query(page.q, network.schema) if page.q else Probability(tuple((name, None) for name in free[:1]))
        if not evidence or not free or isinstance(query, ComposedQuery) or query.evidence:
            return ""
        text = str(read_query(replace(query, evidence=evidence), network.schema))
    except InputError:
        return ""
    return text if len(text) <= MOST_CARRIED else ""


def evidence_texts(evidence: Sequence[tuple[str, str]]) -> list[str]:
    """Write evidence as in addresses."""
    return [f"{name}={state}" for name, state in evidence]


class StateLinks:
    """Addresses of pages with one more state observed, another one, or one less; escaped for HTML.

    Args:
        page: parameters of the current page.
        evidence: of that page, in the order of observation.
    """

    def __init__(self, page: PageRequest, evidence: Sequence[tuple[str, str]]) -> None:
        self._page = page.model_copy(update={"q": None, "download": False})
        self._evidence = evidence
        self.before = "?" + "".join(f"e={_quoted(*pair)}&amp;" for pair in evidence)
        rest = urlencode(pairs_of(self._page.model_copy(update={"e": []})))
        self.table = escape(address(self._page, view="table")) + KEPT
        self.after = (f"&amp;{escape(rest)}" if rest else "") + KEPT

    def observe(self, quoted: str) -> str:
        """Return the address that observes a state, by its quoted text, of an unobserved variable."""
        return f"{self.before}e={quoted}{self.after}"

    def change(self, name: str, state: str | None) -> str:
        """Return the address that observes another state of a variable, or none."""
        pairs = [pair for pair in self._evidence if pair[0] != name]
        texts = evidence_texts([*pairs, *([] if state is None else [(name, state)])])
        return escape(address(self._page, e=texts)) + KEPT


def _quoted(name: str, state: str) -> str:
    """Quote a state for an address; the result is safe in HTML."""
    return quote_plus(f"{name}={state}")


@lru_cache(maxsize=32)
def quoted_states(network: Network) -> dict[str, tuple[str, ...]]:
    """Quote all states for addresses, by variable."""
    return {each.name: tuple(_quoted(each.name, state) for state in each.states) for each in network.schema}
