"""Latent pack."""

from __future__ import annotations

from discreet.posterior.read import TABLES, Reader

READERS = (
    Reader(
        *("latent", "network", "seconds to a minute", "discreet.latent.latent_reader:draw_latent", TABLES),
        options=("network", "prior", "progress"),
    ),
)
