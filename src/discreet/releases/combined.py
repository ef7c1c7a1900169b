"""Combined evidence about one network: several releases, external figures and public records.

Releases on the *same* data set measure the same records: their likelihoods do not multiply, because the records are
shared and unknown. Releases on *different* data sets share the probabilities alone. Whoever combines them says which is
which, and the document keeps it: releases that one account paid for are on the same records, and of others nothing in
them tells.

Source: Williams and McSherry (NIPS 2010), equation 4, whose product over measurements holds for different data sets
only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from discreet.errors import InputError, require_word, shown, shown_path
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.over import Prior
from discreet.model.tables import Tables
from discreet.privacy.guarantee import Guarantee, compose
from discreet.releases.document import Document
from discreet.releases.external_figures import FORMAT as EXTERNAL_FORMAT
from discreet.releases.external_figures import External, read_external
from discreet.releases.kinds.chosen_network import ChosenNetwork
from discreet.releases.release import Release, read_release
from discreet.releases.release_head import FORMAT as RELEASE_FORMAT
from discreet.util.arrays import margin
from discreet.util.json_files import read_json, read_text
from discreet.util.limits import DOCUMENT_BYTES, RELEASES, at_most, first_repeated, free_cells
from discreet.util.option_texts import DataSets
from discreet.util.tabular import Block, Result

FORMAT = "discreet-combined"
VERSION = 1
ACCOUNT_FOR_EACH = "a data set of its own needs an account of its own"
"""Advice in errors: how to mark releases as made on different records."""


@dataclass(frozen=True, eq=False)
class Combined(Document, Result):
    """Releases and external figures, grouped by the data set that they measured, and counts of public records.

    Args:
        data_sets: for each data set its releases and figures, at least one in all.
        public: counts of public records from the same population, int64, axes `(*parents, child)`; they are no part of
            any data set above.

    Raises:
        InputError: no release, different networks, a release that is there twice, one account that paid for releases on
            two data sets, two public numbers of records of one data set, or counts that are not those of records.

    Example:
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("sex", ("f", "m")),), {"sex": ()})
        >>> exact = dc.external.StatedNoise("rounded", 1)
        >>> census = dc.external_table([510, 490], network, ["sex"], exact, guarantee=None, source="census 2021")
        >>> dc.results.Combined(((census,),)).records
        (1000,)
    """

    what: ClassVar[str] = "release"
    data_sets: tuple[tuple[Release | External, ...], ...]
    public: Tables | None = None

    def __post_init__(self) -> None:
        """Refuse releases that cannot be combined."""
        if not self.parts or not all(self.data_sets):
            raise InputError("nothing to combine: give at least one release")
        if any(document.network != self.network for document in self.parts):
            raise InputError("releases can be combined if their networks have the same variables, states and arcs")
        chose = next((release.id for release in self.releases if isinstance(release.payload, ChosenNetwork)), None)
        if chose is not None:
            raise InputError(
                f"release {chose[:8]} chose a network and measured nothing else: there is no posterior of it; release "
                "with its network (`--network FILE`, `Release.learned_network`) and read that"
            )
        twice = first_repeated(document.id for document in self.parts)
        if twice is not None:
            raise InputError(f"release {twice} is there twice; it would count twice, so give it once")
        payers = dict[str, str]()
        for data_set in self.data_sets:
            _require_one_data_set(data_set)
            for account, paid in (payers_here := payers_of(data_set)).items():
                if account in payers:
                    raise InputError(
                        f"releases {payers[account][:8]} and {paid[:8]} were paid for by one account, so they measured "
                        f"the same records: combine them with data='same' (--data same); {ACCOUNT_FOR_EACH}"
                    )
            payers |= payers_here
        if self.public is not None:
            _check_public(self.public, self.network)

    @property
    def parts(self) -> tuple[Release | External, ...]:
        """Releases and figures by others, data set by data set."""
        return tuple(document for data_set in self.data_sets for document in data_set)

    @property
    def id(self) -> str:
        """A digest of the document, in the form of a release's id."""
        return sha256(self.dumps().encode()).hexdigest()[:32]

    @property
    def alone(self) -> Evidence:
        """The only release or document of figures; itself if several are combined."""
        return self.parts[0] if len(self.parts) == 1 and self.public is None else self

    @property
    def answers_over(self) -> Network:
        """The public network."""
        return self.network

    @property
    def releases(self) -> tuple[Release, ...]:
        """Releases alone, data set by data set."""
        return tuple(document for document in self.parts if isinstance(document, Release))

    @property
    def external(self) -> tuple[External, ...]:
        """Figures by others alone, data set by data set."""
        return tuple(document for document in self.parts if isinstance(document, External))

    @property
    def network(self) -> Network:
        """The public network."""
        return self.data_sets[0][0].network

    @property
    def dirichlet(self) -> Dirichlet:
        """The curators' prior; of external figures alone the default prior.

        Raises:
            InputError: the curators had different ones.
        """
        if not self.releases:
            return self.parts[0].dirichlet
        first, *others = (release.dirichlet for release in self.releases)
        if not all(
            np.array_equal(first.alpha[node], prior.alpha[node]) for prior in others for node in self.network.nodes
        ):
            raise InputError("the releases have different priors; give one to read them with")
        return first

    @property
    def private(self) -> bool:
        """True if every release is private, none a simulation; public records are public in any case."""
        return all(release.private for release in self.releases)

    @property
    def records(self) -> tuple[int | None, ...]:
        """Number of records of each data set; None where it is not public."""
        return tuple(
            next((release.records for release in releases if release.records is not None), None)
            for releases in self.data_sets
        )

    @property
    def guarantees(self) -> tuple[Guarantee | None, ...]:
        """Composed guarantee of each data set's releases; None without one.

        None where relations or units differ, or where a simulation is among them, which promises nothing, or figures by
        others, whose promise is theirs.
        """
        guarantees: list[Guarantee | None] = []
        for data_set in self.data_sets:
            releases = [document for document in data_set if isinstance(document, Release)]
            promises = [release.guarantee for release in releases]
            alike = len({(promise.relation, promise.unit) for promise in promises}) == 1
            ours = len(releases) == len(data_set) and all(release.private for release in releases)
            guarantees.append(compose(promises) if alike and ours else None)
        return tuple(guarantees)

    def tidy(self) -> list[dict[str, Any]]:
        """List the rows of all parts, as `Release.tidy`, each with the number of its "data_set" and its "id"."""
        return [
            {"data_set": number, "id": document.id, **row}
            for number, data_set in enumerate(self.data_sets, 1)
            for document in data_set
            for row in document.tidy()
        ]

    def content(self) -> Iterator[str | Block]:
        """Show all parts, data set by data set."""
        parts = [
            (f"data set {number} of {len(self.data_sets)}", *document.content())
            for number, data_set in enumerate(self.data_sets, 1)
            for document in data_set
        ]
        parts += [("public records are counted beside them",)] if self.public is not None else []
        for index, part in enumerate(parts):
            yield from ("", *part) if index else part

    def dumps(self) -> str:
        """The document as JSON text.

        Returns:
            Text that `loads` reads back.
        """
        public = None if self.public is None else {node: table.ravel().tolist() for node, table in self.public.items()}
        head = json.dumps({"format": FORMAT, "version": VERSION})[:-1]
        sets = ",\n".join(
            "[\n" + ",\n".join(release.dumps().rstrip() for release in releases) + "\n]" for releases in self.data_sets
        )
        return f'{head},\n"public": {json.dumps(public)},\n"data_sets": [\n{sets}\n]}}\n'

    @staticmethod
    def loads(text: str) -> Combined:
        """Read a document.

        Args:
            text: JSON.

        Returns:
            The combined releases.

        Raises:
            InputError: not JSON, of another format or version, or damaged.
        """
        return _read_combined(read_json(text, "the combined file", DOCUMENT_BYTES), free_cells(len(text)))


Evidence = Release | External | Combined
"""Evidence that posteriors over a network read."""


def payers_of(documents: Iterable[Release | External]) -> dict[str, str]:
    """Map public ids of accounts to a release that each paid for; without an account, a release's id to itself.

    Args:
        documents: releases and figures by others.

    Returns:
        For each account the id of the last of its releases.
    """
    return {document.account or document.id: document.id for document in documents}


def refuse_counting_twice(prior: Prior, accounts: Iterable[str | None]) -> None:
    """Refuse a prior learned from releases of the account that paid for the evidence: records would count twice.

    Args:
        prior: that the reader or the curator gave.
        accounts: public ids, such as of `payers_of`.

    Raises:
        InputError: as it says.
    """
    if not prior.accounts.isdisjoint(accounts):
        raise InputError(
            "the prior was learned from releases of the same account: the same records would count twice; combine the "
            f"releases with data='same' (--data same) instead; {ACCOUNT_FOR_EACH}"
        )


def combine(*parts: Evidence, data: DataSets, public: Tables | None = None) -> Combined:
    """Combine several releases, and figures by others, into one document with one posterior.

    Args:
        parts: releases, figures by others, or what was combined before.
        data: "same" if all of them measured the same records, "different" if no record is in two of them. To say
            "different" of releases on the same records makes intervals too short; it is refused where one account paid
            for them. Of releases of several accounts nothing tells.
        public: counts of public records beside them; `public_counts` makes them.

    Returns:
        One piece of evidence that `noise_aware` reads.

    Raises:
        InputError: another word for `data`, "same" of parts that hold several data sets, or as `Combined`.

    Guarantee:
        None spent: reads what was released. `Combined.guarantees` has what all releases together promise.

    Source:
        Williams and McSherry (2010), equation 4 and Figure 3b, with the latent records shared by releases on the same
        data set.

    Example:
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("sex", ("f", "m")),), {"sex": ()})
        >>> exact = dc.external.StatedNoise("rounded", 1)
        >>> census = dc.external_table([510, 490], network, ["sex"], exact, guarantee=None, source="census 2021")
        >>> noise = dc.external.StatedNoise("laplace", 2)
        >>> survey = dc.external_table([48.5, 51.2], network, ["sex"], noise, guarantee=None, source="a survey")
        >>> both = dc.combine(census, survey, data="different")
        >>> len(both.data_sets), both.records
        (2, (1000, None))
    """
    require_word(data, DataSets, "the data that releases measured are")
    listed = [evidence_of(piece) for piece in parts]
    known = [piece.public for piece in listed if piece.public is not None] + ([] if public is None else [public])
    if len(known) > 1:
        raise InputError("public records are given twice; count them together and give them once")
    sets = [releases for piece in listed for releases in piece.data_sets]
    if data == "same" and any(len(piece.data_sets) > 1 for piece in listed):
        raise InputError("parts on different data sets cannot all be on the same one; combine the same ones first")
    merged = [tuple(release for releases in sets for release in releases)] if data == "same" else sets
    return Combined(tuple(merged) if any(merged) else (), known[0] if known else None)


def evidence_of(evidence: Evidence) -> Combined:
    """Convert one release or document of figures to combined evidence; combined evidence is returned as it is.

    Args:
        evidence: a release, a document of figures by others, or what `combine` returned.

    Returns:
        Combined evidence of one data set; what is combined already as it is.

    Raises:
        InputError: anything else.

    Guarantee:
        None spent: reads what was released alone.

    Example:
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("sex", ("f", "m")),), {"sex": ()})
        >>> exact = dc.external.StatedNoise("rounded", 1)
        >>> census = dc.external_table([510, 490], network, ["sex"], exact, guarantee=None, source="census 2021")
        >>> dc.tools.evidence_of(census).parts == (census,)
        True
    """
    if isinstance(evidence, Combined):
        return evidence
    if not isinstance(evidence, Release | External):
        raise InputError(f"a release or combined releases were expected, not {type(evidence).__name__}")
    return Combined(((evidence,),))


def load(path: str | Path) -> Evidence:
    """Read a release, figures by others, or combined releases from a file.

    Args:
        path: as `save` of either wrote it.

    Returns:
        What the file holds.

    Raises:
        InputError: no such file, none of these, or damaged.

    Guarantee:
        None spent: reads what was released alone.

    Example:
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("sex", ("f", "m")),), {"sex": ()})
        >>> exact = dc.external.StatedNoise("rounded", 1)
        >>> census = dc.external_table([510, 490], network, ["sex"], exact, guarantee=None, source="census 2021")
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     census.save(f"{folder}/census.json")
        ...     dc.load(f"{folder}/census.json").records
        1000
    """
    if str(path).endswith(".draws"):
        raise InputError(f"{shown_path(path)} holds draws of a posterior; results.PosteriorDraws.load reads it")
    return _read_evidence(read_text(path, "release", DOCUMENT_BYTES), f"release {shown_path(path)}")


def loads(text: str) -> Evidence:
    """Read a release, figures by others, or combined releases from JSON text.

    Args:
        text: JSON, as `dumps` of any of them returns it.

    Returns:
        What the text holds.

    Raises:
        InputError: none of these, or damaged.

    Guarantee:
        None spent: reads what was released alone.

    Example:
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("sex", ("f", "m")),), {"sex": ()})
        >>> exact = dc.external.StatedNoise("rounded", 1)
        >>> census = dc.external_table([510, 490], network, ["sex"], exact, guarantee=None, source="census 2021")
        >>> dc.tools.loads(census.dumps()).source
        'census 2021'
    """
    return _read_evidence(text, "the release")


def _read_evidence(text: str, subject: str) -> Evidence:
    """Read a document that errors name by `subject`."""
    raw, cells = read_json(text, subject, DOCUMENT_BYTES), free_cells(len(text))
    if isinstance(raw, dict) and raw.get("format") == FORMAT:
        return _read_combined(raw, cells)
    if isinstance(raw, dict) and raw.get("format") not in (RELEASE_FORMAT, EXTERNAL_FORMAT):
        formats = ", ".join(map(repr, (RELEASE_FORMAT, EXTERNAL_FORMAT, FORMAT)))
        raise InputError(f"not a release: the field 'format' must be one of {formats}")
    return _read_part(raw, cells)


def _read_part(raw: Any, cells: int) -> Release | External:
    """Read a release or external figures from JSON values."""
    external = isinstance(raw, dict) and raw.get("format") == EXTERNAL_FORMAT
    return read_external(raw, cells) if external else read_release(raw, cells)


def _read_combined(raw: Any, cells: int) -> Combined:
    """Read combined releases from JSON values, with at most `cells` cells in all tables."""
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise InputError(f"no combined releases: the field 'format' must be {FORMAT!r}")
    if type(raw.get("version")) is not int or raw["version"] != VERSION:
        raise InputError(f"the combined file is of another version; this package reads version {VERSION}")
    if set(raw) != {"format", "version", "public", "data_sets"}:
        raise InputError("the combined file is damaged: it needs the fields 'public' and 'data_sets', and no others")
    sets = raw["data_sets"]
    if not isinstance(sets, list) or not all(isinstance(item, list) for item in sets):
        raise InputError("the combined file is damaged at 'data_sets': lists of releases were expected")
    count = sum(map(len, sets))
    at_most(RELEASES, count, "combined releases")
    if not count:
        raise InputError("the combined file is damaged at 'data_sets': it has no release")
    # All are over one network and list their measured cells, so each gets its share of the limit.
    releases = tuple(tuple(_read_part(item, cells // count) for item in documents) for documents in sets)
    network = next(item for documents in releases for item in documents).network
    return Combined(releases, None if raw["public"] is None else _read_public(raw["public"], network))


def _require_one_data_set(documents: tuple[Release | External, ...]) -> None:
    """Refuse documents that cannot have measured the same records."""
    if len({document.records for document in documents} - {None}) > 1:
        raise InputError("releases on the same data set state different numbers of records; are they?")
    rules = {document.policy.units for document in documents if isinstance(document, Release)}
    if len(rules) > 1:
        raise InputError(
            "releases of one data set that kept other records of its units are neither of the same records nor of "
            "independent ones; read the records once (read_records) and make all releases of them"
        )


def _check_public(public: Tables, network: Network) -> None:
    """Refuse tables that are not counts of one set of records."""
    if public.network != network or public.draws is not None:
        raise InputError("public records must be counted over the network of the releases")
    if any(table.dtype.kind not in "iu" or np.any(table < 0) for table in public.values()):
        raise InputError("counts of public records are whole numbers, not negative")
    if len({int(table.sum()) for table in public.values()}) > 1:
        raise InputError("counts of public records must have the same total in every family")
    for node in network.nodes:
        for name in network.family(node):
            counts = margin(public[node], network.family(node), (name,))
            if not np.array_equal(counts, margin(public[name], network.family(name), (name,))):
                raise InputError(
                    f"counts of public records disagree on {shown(name)} between its own family and {shown(node)}'s"
                )


def _read_public(raw: object, network: Network) -> Tables:
    """Read counts of public records from a document."""
    if not isinstance(raw, dict) or set(raw) != set(network.nodes):
        raise InputError("the combined file is damaged at 'public': a list of counts for every node was expected")
    tables = {}
    for node, values in raw.items():
        whole = isinstance(values, list) and all(type(value) is int and 0 <= value < 2**62 for value in values)
        if not whole or len(values) != network.cells(network.family(node)):
            raise InputError(
                f"the combined file is damaged at {shown(f'public.{node}')}: a whole number for every cell was expected"
            )
        tables[node] = np.array(values, np.int64).reshape(network.shape(node))
    return Tables(network, tables)
