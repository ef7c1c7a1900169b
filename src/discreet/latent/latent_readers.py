"""Reader of the pack: tables of observed variables, by a network with one node more."""

from __future__ import annotations

from discreet.posterior.read import TABLES, Reader

READERS = (
    Reader(
        *("latent", "network", "seconds to a minute", "discreet.latent.latent_reader:draw_latent", TABLES),
        options=("network", "prior", "progress"),
        restore="discreet.latent.latent_reader:restore_draws",
    ),
)
"""Stands behind the readers of the kernel: a release is read so when its reader is named."""
