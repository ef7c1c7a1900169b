"""Posterior draws for ArviZ: its plots, summaries and diagnostics of chains."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from discreet.errors import DiscreetError
from discreet.model.tables import Array
from discreet.posterior.joint_draws import PosteriorDraws

NOT_INSTALLED = "ArviZ is not installed; pip install 'discreet[arviz]' brings it"
NO_CACHE = "ArviZ cannot be loaded, since the user's cache folder cannot be written; set XDG_CACHE_HOME to one that can"

obstacle = NOT_INSTALLED
"""What stands in the way where `arviz` is None."""
try:
    with warnings.catch_warnings():
        # ArviZ 0.23 announces its next version once a day, and keeps the day in the user's cache folder. Only that one
        # warning is hidden: it asks nothing of whoever reads a release, and pyproject.toml keeps to versions below 1.
        warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing a major refactor", FutureWarning)
        import arviz
except ImportError:
    arviz = None
except OSError:
    arviz, obstacle = None, NO_CACHE

__all__ = ["to_arviz"]


def to_arviz(posterior: PosteriorDraws) -> Any:
    """The draws as ArviZ keeps them, for its plots, summaries and diagnostics of chains.

    Args:
        posterior: all families of it are drawn. The exact one has several chains, any other has one.

    Returns:
        `arviz.InferenceData` with the group `posterior`: for each node a variable with the dimensions chain, draw, the
        parents and the node itself, whose coordinates are the names of states. The node's own dimension is called
        `node=`: a variable cannot share its name with one of its dimensions. Where chains have not the same number of
        draws the last ones are left out.

    Raises:
        DiscreetError: ArviZ is not installed, or has nowhere to write its cache.

    Guarantee:
        None spent: reads the posterior alone.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> exported = dc.tools.to_arviz(dc.results.PosteriorDraws(dc.Dirichlet.uniform(coin).draw(100, rng=1)))
        >>> dict(exported.posterior["coin"].sizes)
        {'chain': 1, 'draw': 100, 'coin=': 2}
    """
    if arviz is None:
        raise DiscreetError(obstacle)
    chains = 1 if posterior.mixing is None else posterior.mixing.chains
    network = posterior.network
    coords = {f"{variable.name}=": list(variable.states) for variable in network.schema}
    return arviz.from_dict(
        posterior={node: _split_chains(posterior.cells[node], chains) for node in network.nodes},
        coords=coords,
        dims={node: [f"{name}=" for name in network.family(node)] for node in network.nodes},
    )


def _split_chains(cells: Array, chains: int) -> Array:
    """Draws come in turn from the chains; to shape `(chains, draws, *parents, child)`."""
    length = cells.shape[-1] // chains
    # The last draws of a posterior are its latest: an incomplete turn is at the start.
    kept = cells[..., cells.shape[-1] - length * chains :].reshape(*cells.shape[:-1], length, chains)
    return np.moveaxis(kept, (-1, -2), (0, 1))
