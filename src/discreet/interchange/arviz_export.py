"""Export of posterior draws to ArviZ (plots, summaries, diagnostics), and import of draws from it."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from discreet.errors import DiscreetError, InputError, listed, shown
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.releases.combined import Combined
from discreet.releases.external_figures import External
from discreet.releases.release import Release
from discreet.util.arrays import Array
from discreet.util.lazy_imports import lazy_import

arviz = lazy_import("arviz")

SUM_TOLERANCE = 1.000001e-6
"""Largest distance of a row's sum from 1: other programs hold draws in single precision."""
CHAINS = 4
"""Chains of an export whose draws are independent."""
NO_CACHE = "ArviZ cannot be loaded, since the user's cache folder cannot be written; set XDG_CACHE_HOME to one that can"


def _convert(**groups: Any) -> Any:
    """Make an InferenceData of ArviZ, which is loaded at the first call and takes more than a second.

    One warning of ArviZ, that it is being refactored, is suppressed while it is loaded.

    Args:
        groups: arguments of `arviz.from_dict`.

    Returns:
        `arviz.InferenceData`.

    Raises:
        InputError: ArviZ is not installed.
        DiscreetError: it cannot write its cache.
    """
    try:
        with warnings.catch_warnings():
            # ArviZ 0.23 announces its next version once a day, and keeps the day in the user's cache folder. Only that
            # one warning is hidden: it asks nothing of whoever reads a release, and pyproject.toml keeps to versions
            # below 1.
            warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing a major refactor", FutureWarning)
            from_dict = arviz.from_dict
    except OSError:
        raise DiscreetError(NO_CACHE) from None
    return from_dict(**groups)


def to_arviz(posterior: PosteriorDraws, source: Release | External | Combined | None = None) -> Any:
    """Convert the draws to an InferenceData of ArviZ, for its plots, summaries and diagnostics of chains.

    Args:
        posterior: posterior over a network; families that were not drawn yet are drawn and kept. Its number of chains
            is that of its `mixing`; independent draws are dealt out to four, so that diagnostics can compare
            them, or to two, or one, if four do not divide their number.
        source: what it was drawn from, to be named in the attributes of the group: its id and what it promises.

    Returns:
        `arviz.InferenceData` with the group `posterior`: for each node a variable of probabilities with the dimensions
        chain, draw, the parents and the node itself, whose coordinates are the names of states. Dimensions of states
        are called `name=`, for parents and node alike, as a variable cannot share its name with one of its dimensions.
        If the number of draws is not a multiple of the number of chains, the first draws are left out.

    Raises:
        DiscreetError: ArviZ is not installed, or cannot write its cache.

    Guarantee:
        No budget is spent; only the posterior is read.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> exported = dc.tools.to_arviz(dc.results.PosteriorDraws(dc.Dirichlet.uniform(coin).draw(100, rng=1)))
        >>> dict(exported.posterior["coin"].sizes)
        {'chain': 4, 'draw': 25, 'coin=': 2}
    """
    chains = math.gcd(CHAINS, posterior.draws) if posterior.mixing is None else posterior.mixing.chains
    network = posterior.network
    coords = {f"{variable.name}=": list(variable.states) for variable in network.schema}
    return _convert(
        posterior={node: _split_chains(posterior.probabilities[node], chains) for node in network.nodes},
        coords=coords,
        dims={node: [f"{name}=" for name in network.family(node)] for node in network.nodes},
        posterior_attrs=_describe(posterior, source),
    )


def _describe(posterior: PosteriorDraws, source: Release | External | Combined | None) -> dict[str, str]:
    """Describe draws and what they are from."""
    if source is None:
        return {"method": posterior.method}
    promise = "; ".join(str(guarantee or "none") for guarantee in source.guarantees)
    return {"method": posterior.method, "release": source.id, "guarantee": promise}


def from_arviz(data: Any, network: Network) -> PosteriorDraws:
    """Read draws of a network's probabilities from an InferenceData in the layout of `to_arviz`.

    Args:
        data: `arviz.InferenceData` with the group `posterior`; for each node a variable with the dimensions chain,
            draw, and `name=` for each variable of its family, in any order, whose coordinates are the names of states,
            in any order. Other variables are ignored.
        network: network whose probabilities were drawn.

    Returns:
        The posterior, whose draws alternate between the chains. Only probabilities are kept: method, mixing, replicates
        and basis are not, so its joint law is the network's own.

    Raises:
        InputError: an object of another type, a node without a variable, a variable with other dimensions or states, or
            rows that have a negative entry or do not sum to 1.

    Guarantee:
        No budget is spent; only the draws are read.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> sent = dc.tools.to_arviz(dc.results.PosteriorDraws(dc.Dirichlet.uniform(coin).draw(100, rng=1)))
        >>> dc.tools.from_arviz(sent, coin).probabilities
        Tables(1 families, 100 draws)
    """
    try:
        group = data.posterior
        variables = {node: group[node] for node in network.nodes if node in group.data_vars}
    except (AttributeError, TypeError):
        kind = type(data).__name__
        raise InputError(f"expected an InferenceData of ArviZ with a group posterior, got {kind}") from None
    for node in network.nodes:
        if node not in variables:
            raise InputError(f"the posterior has no variable {shown(node)}; it needs one for each node")
    arrays = {node: _join_chains(node, variables[node], network) for node in network.nodes}
    return PosteriorDraws(Tables(network, arrays, draws=arrays[network.nodes[0]].shape[-1]))


def _join_chains(node: str, drawn: Any, network: Network) -> Array:
    """Convert a variable of ArviZ to shape `(*parents, child, draws)`, with states in the network's order.

    Args:
        node: name of the variable, a node of the network.
        drawn: `xarray.DataArray` with the dimensions chain, draw, and `name=` for each variable of the family, in any
            order.
        network: network whose probabilities were drawn.

    Returns:
        Probabilities, float64, shape `(*parents, child, draws)`; draws alternate between the chains, in order of time.

    Raises:
        InputError: other dimensions, states other than the network's, or rows that have a negative entry or a sum that
            is off 1 by more than 1e-6.
    """
    dims = [f"{name}=" for name in network.family(node)]
    if set(drawn.dims) != {"chain", "draw", *dims}:
        raise InputError(f"variable {shown(node)} needs the dimensions chain, draw, {', '.join(map(shown, dims))}")
    picked = {}
    for name, dim in zip(network.family(node), dims, strict=True):
        states, labels = network.schema[name].states, [str(value) for value in drawn.coords[dim].values]
        if sorted(labels) != sorted(states):
            raise InputError(f"{shown(dim)} of {shown(node)} has other coordinates than the states {listed(states)}")
        picked[dim] = [labels.index(state) for state in states]
    cells = drawn.isel(picked).transpose(*dims, "draw", "chain").values
    if (cells < 0).any() or not np.allclose(cells.sum(axis=len(dims) - 1), 1, rtol=0, atol=SUM_TOLERANCE):
        raise InputError(f"rows of {shown(node)} fall below 0 or do not sum to 1: these are no draws of probabilities")
    return np.asarray(cells, float).reshape(*cells.shape[: len(dims)], -1)


def _split_chains(cells: Array, chains: int) -> Array:
    """Split draws that alternate between the chains, to shape `(chains, draws, *parents, child)`.

    Args:
        cells: shape `(*parents, child, draws)`.
        chains: number of chains; if it does not divide the number of draws, the first draws are left out.

    Returns:
        Draws of each chain, in order of time, `draws // chains` of each.
    """
    length = cells.shape[-1] // chains
    # The last draws of a posterior are its latest, so an incomplete turn of the chains is at the start.
    turns = cells[..., cells.shape[-1] - length * chains :].reshape(*cells.shape[:-1], length, chains)
    return np.moveaxis(turns, (-1, -2), (0, 1))
