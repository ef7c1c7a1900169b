"""Posteriors of fitted estimators, drawn on first access."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from discreet.estimators.options import generator
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.read import read
from discreet.releases.release import Release
from discreet.util.progress import under_way


class LazyPosterior:
    """Posterior that is drawn on first access, and has the same draws whenever that is.

    Copies and pickles of an estimator carry it along. Two threads may both draw on first access. Their draws are equal,
    and both get the same object.

    Args:
        draws: number of draws.
        random_state: seed of the draws. It is read now, so later changes of it have no effect.
        reader: function that draws; None for `discreet.read`.
        options: its further arguments.
    """

    def __init__(self, draws: int, random_state: Any, reader: Callable[..., Any] | None = None, **options: Any) -> None:
        self._draws, self._reader, self._options = draws, reader, options
        rng = generator(random_state)
        # Advance the caller's own generator, so that the next fit has other draws.
        self._rng = np.random.default_rng(int(rng.integers(2**63))) if rng is random_state else rng

    def draw(self, release: Release) -> Any:
        """Draw the posterior of a release, once."""
        if "_posterior" not in vars(self):
            with under_way("drawing the posterior"):
                posterior = (self._reader or read)(release, draws=self._draws, rng=deepcopy(self._rng), **self._options)
            vars(self).setdefault("_posterior", posterior)
        return vars(self)["_posterior"]

    def __getstate__(self) -> dict[str, Any]:
        """Leave draws of a network out of copies: they know a release, and are drawn again, equal, when looked at."""
        return {name: value for name, value in vars(self).items() if not isinstance(value, PosteriorDraws)}
