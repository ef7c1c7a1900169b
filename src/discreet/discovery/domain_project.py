"""Project file of a found domain: what later releases need, with the origin of every value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from discreet.discovery.kinds.found_columns import FoundDomain
from discreet.formats.project_file import Project, draft_project
from discreet.model.network import Network
from discreet.model.schema import Variable
from discreet.privacy.guarantee import as_text
from discreet.releases.release import Release


def found_project(
    release: Release,
    *,
    source: Mapping[str, Any] | None = None,
    unit: Mapping[str, Any] | None = None,
    account: str | None = None,
    declared: Iterable[Variable] = (),
) -> Project:
    """Draft the project file of a found domain; releases that are made with it state the domain's origin.

    Args:
        release: of a domain.
        source: words of the section "source", such as the address of the records; numbers outside the found bounds are
            clipped, and missing values are kept where the domain has states for them.
        unit: words of the section "unit"; None for what the release says of its unit.
        account: that pays for later releases; None leaves it to commands.
        declared: further variables, whose states or bounds were public before.

    Returns:
        The project.

    Raises:
        InputError: a release of another kind, or nothing was found.

    Guarantee:
        None spent: all but the caller's words comes from the release.

    Example:
        >>> import pyarrow as pa
        >>> import discreet as dc
        >>> table = pa.table({"sex": ["f", "m"] * 500, "age": [20, 30, 40, 50] * 250})
        >>> columns = dc.discovery.columns_of(table)
        >>> promise = dc.Guarantee(epsilon=8, delta="1e-9", relation="add-remove", unit="record")
        >>> values, prior = dc.discovery.read_values(table, columns), dc.discovery.NoPrior(columns)
        >>> found = dc.simulate(dc.discovery.found_domain(), values, prior, promise, rng=1)
        >>> network = dc.discovery.found_project(found).network
        >>> low, high = network.schema["age"].bounds
        >>> network.schema["sex"].states, low <= 20 < 50 <= high
        (('f', 'm', 'other'), True)
    """
    payload, policy = release.payload_as(FoundDomain), release.policy
    words = {**(source or {}), "out_of_bounds": "clip"}
    words |= {} if policy.missing == "error" else {"missing": policy.missing}
    protected: dict[str, Any] = {"name": release.guarantee.unit}
    if policy.unit_column is not None:
        protected |= {"column": policy.unit_column, "max_records": policy.max_records, "weights": policy.weights}
    elif policy.one_record_a_unit:
        protected |= {"one_record": True}
    empty = release.learned_network
    variables = (*empty.variables, *declared)
    network = replace(empty, variables=variables, parents={variable.name: () for variable in variables})
    project = draft_project(network, source=words, unit=dict(unit or protected), account=account)
    spent = f"epsilon {as_text(release.guarantee.epsilon)}"
    spent += f", delta {as_text(release.guarantee.delta)}" if release.guarantee.delta else ""
    text = project.text
    for part in payload.parts:
        origin = f"# found in the records at {spent} (release {release.id[:8]})"
        if not part.found:
            text += f"\n# nothing was found of column {part.name!r} at {spent}: declare it, or leave it out\n"
            continue
        single = draft_project(Network((part.variable,), {part.name: ()}))
        section = single.text[single.text.index("[[variables]]") :]
        text = text.replace(section, f"{origin}\n{section}", 1)
    return Project.parse(text)
