"""Latent pack: a node without a column, such as a class behind questions, read from tables of the other variables.

The release is an ordinary one, over `without_latent(network, node)`; `read(release, method="latent", network=network)`
draws the network with the node. Nothing more crosses the privacy boundary.
"""

from discreet.util.lazy_imports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
