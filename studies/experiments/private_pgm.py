"""The peer that reads our noisy tables: private-pgm (package `mbi`, of the bench extra).

Maximum-entropy mirror descent over the measured tables (McKenna, Sheldon and Miklau, ICML 2019), with the quadratic
loss weighted by the noise's variances, in double precision; rows of its estimated tables are normalised as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.noise.star import star_variances
from discreet.releases.measurement import Measurement

__all__ = ["importable", "mirror_descent", "read_by_mbi"]

LEAST = 1e-9
"""Records in a cell, lest a row that is estimated to be empty has no probabilities; nothing else is added."""


def importable() -> bool:
    """Whether mbi is installed."""
    return find_spec("mbi") is not None


def read_by_mbi(release: dc.Release, *, steps: int = 1000) -> dc.Tables:
    """The probabilities that mirror descent finds in a release of noisy tables; axes `(*parents, child)`."""
    payload = release.payload
    if not isinstance(payload, dc.kinds.NoisyTables | dc.kinds.NoisyCounts):
        raise TypeError(f"mirror descent is run on noisy tables, not on {type(payload).__name__}")
    tables = {part.scope: part.values for part in payload.measurements}
    variances = {part.scope: _cell_variance(part) for part in payload.measurements}
    return mirror_descent(release.network, tables, variances, release.records, steps=steps)


def _cell_variance(part: Measurement) -> float:
    """Of the noise in one cell of a table."""
    if part.star is None or part.scale is None:
        return part.variance
    found, place = star_variances(part.star.lengths, part.scale), part.star.scopes.index(part.scope)
    length = part.star.lengths[place]
    return found.rows[place] * (1 - 1 / length) + found.shared / length**2


def mirror_descent(
    network: dc.Network,
    tables: Mapping[tuple[str, ...], npt.NDArray[np.int64]],
    variances: Mapping[tuple[str, ...], float],
    records: int | None,
    *,
    steps: int = 1000,
) -> dc.Tables:
    """Estimate the probabilities of a network from noisy tables with `mbi.estimation.MirrorDescent`.

    Args:
        network: public.
        tables: noisy counts by scope, one axis for each of its variables.
        variances: of the noise in a cell of each table.
        records: their number where it is public; None where mbi is to estimate it from the tables.
        steps: of mirror descent; the default is the library's.

    Returns:
        Probabilities, axes `(*parents, child)`.
    """
    import jax

    # In single precision the line search stalls; a cache on the disk would hide the cost of compiling.
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    from mbi import Domain, LinearMeasurement
    from mbi.estimation import MirrorDescent

    domain = Domain(network.nodes, [variable.size for variable in network.schema])
    measured = [
        LinearMeasurement(np.asarray(table, np.float64).ravel(), scope, float(np.sqrt(variances[scope])))
        for scope, table in tables.items()
    ]
    model = MirrorDescent().estimate(domain, measured, known_total=records, iters=steps)
    theta = {}
    for node in network.nodes:
        found = model.project(network.family(node))
        cells = np.maximum(np.asarray(found.datavector(), np.float64).reshape(network.shape(node)), LEAST)
        theta[node] = cells / cells.sum(axis=-1, keepdims=True)
    return dc.Tables(network, theta)
