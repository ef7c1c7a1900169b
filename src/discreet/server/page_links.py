"""What a page is asked for, and the addresses of the pages beside it: all states of a page are links."""

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
from discreet.model.query_grammar import Probability, read_query
from discreet.server.parameters import Level, Missing, RequestFields, Text, read_evidence
from discreet.util import option_texts

KEPT = "\0"
"""Stands in a fragment that is kept where each page puts what it carries on: its query. No text of a page has it."""


MOST_OBSERVED, MOST_CHARACTERS, MOST_CARRIED = 100, 2_000, 300
"""Observed variables of a page, characters of its query, and of one that its links carry on: each link has them all."""
Evidence = Annotated[list[Text], Field(max_length=MOST_OBSERVED, description="Observed variables with their states.")]


class PageRequest(RequestFields):
    """One page of a release; its evidence is in the order in which it was observed."""

    e: Evidence = Field(default_factory=list)
    level: Level = option_texts.DEFAULT_LEVEL
    view: Literal["table", "network"] | None = None
    noise: bool = False
    missing: Missing = None
    q: Annotated[str | None, Field(max_length=MOST_CHARACTERS, description="A query.")] = None
    download: bool = False


class CompareRequest(RequestFields):
    """Two releases side by side."""

    one: Text | None = None
    other: Text | None = None
    e: Evidence = Field(default_factory=list)
    level: Level = option_texts.DEFAULT_LEVEL


def address(asked: PageRequest, **changes: object) -> str:
    """The address of a page beside another one, relative to it; what goes without saying is left out.

    Example:
        >>> address(PageRequest(e=["smoke=yes", "lung=no"], q="P(x)"), e=["smoke=yes"], q=None, noise=True)
        '?e=smoke%3Dyes&noise=1'
    """
    return "?" + urlencode(pairs_of(asked.model_copy(update=changes)))


def pairs_of(asked: PageRequest) -> list[tuple[str, str]]:
    """What an address says, as names and values."""
    pairs = [("e", text) for text in asked.e]
    if asked.level != PageRequest.model_fields["level"].default:
        pairs.append(("level", f"{asked.level!r}"))
    pairs += [(name, value) for name in ("view", "missing") if (value := getattr(asked, name)) is not None]
    if asked.q is not None and len(quote_plus(asked.q)) <= MOST_CARRIED:
        pairs.append(("q", asked.q))
    return pairs + [(name, "1") for name in ("noise", "download") if getattr(asked, name)]


def given_query(asked: PageRequest, network: Network) -> str:
    """The query of a page with what is observed after its bar, or one of the first variable that is not observed.

    Returns:
        Its text; empty where nothing is observed, where the query has evidence of its own, or where it cannot be read.
    """
    try:
        evidence = tuple(read_evidence(network.schema, asked.e).items())
        free = [name for name in network.nodes if name not in dict(evidence)]
        query = read_query(asked.q, network.schema) if asked.q else Probability(tuple((one, None) for one in free[:1]))
        if not evidence or not free or query.evidence:
            return ""
        text = str(read_query(replace(query, evidence=evidence), network.schema))
    except InputError:
        return ""
    return text if len(text) <= MOST_CARRIED else ""


def evidence_texts(evidence: Sequence[tuple[str, str]]) -> list[str]:
    """Evidence as addresses have it."""
    return [f"{name}={state}" for name, state in evidence]


class StateLinks:
    """Addresses of the pages that observe one state more, or another, or one less; escaped for HTML.

    Args:
        asked: the page that is left.
        evidence: its own, in the order in which it was observed.
    """

    def __init__(self, asked: PageRequest, evidence: Sequence[tuple[str, str]]) -> None:
        self._asked = asked.model_copy(update={"q": None, "download": False})
        self._evidence = evidence
        self.before = "?" + "".join(f"e={_quoted(*pair)}&amp;" for pair in evidence)
        rest = urlencode(pairs_of(self._asked.model_copy(update={"e": []})))
        self.table = escape(address(self._asked, view="table")) + KEPT
        self.after = (f"&amp;{escape(rest)}" if rest else "") + KEPT

    def observe(self, quoted: str) -> str:
        """Observe a state, by its quoted text, of a variable that was not observed."""
        return f"{self.before}e={quoted}{self.after}"

    def change(self, name: str, state: str | None) -> str:
        """Observe another state of a variable, or none."""
        kept = [pair for pair in self._evidence if pair[0] != name]
        texts = evidence_texts([*kept, *([] if state is None else [(name, state)])])
        return escape(address(self._asked, e=texts)) + KEPT


def _quoted(name: str, state: str) -> str:
    """A state as addresses have it; no mark of it means anything in HTML."""
    return quote_plus(f"{name}={state}")


@lru_cache(maxsize=32)
def quoted_states(network: Network) -> dict[str, tuple[str, ...]]:
    """All states as addresses have them, by variable."""
    return {one.name: tuple(_quoted(one.name, state) for state in one.states) for one in network.schema}
