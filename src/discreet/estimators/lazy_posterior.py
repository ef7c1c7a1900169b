"""Posteriors of fitted estimators, drawn on first access."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from discreet.designs.readers.weight_posterior import WeightPosterior
from discreet.estimators.options import generator
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.read import read
from discreet.releases.release import Release
from discreet.util.lazy_imports import lazy_import
from discreet.util.progress import under_way

stored_draws = lazy_import("discreet.posterior.stored")
"""Imported late, because few estimators are pickled."""


class LazyPosterior:
    """Posterior that is drawn on first access, and has the same draws whenever that is.

    Copies and pickles of an estimator carry it along, drawn or not. Two threads may both draw on first access. Their
    draws are equal, and both get the same object.

    Args:
        draws: number of draws.
        random_state: seed of the draws. It is read now, so later changes of it have no effect.
        options: further arguments of `discreet.read`.
    """

    def __init__(self, draws: int, random_state: Any, **options: Any) -> None:
        self._draws, self._options = draws, options
        rng = generator(random_state)
        # Advance the caller's own generator, so that the next fit has other draws.
        self._rng = np.random.default_rng(int(rng.integers(2**63))) if rng is random_state else rng

    def draw_weights(self, release: Release) -> WeightPosterior:
        """Draw the posterior of weights given a release, once; errors are those of `read`, each time."""
        return cast(WeightPosterior, self.draw(release))

    def draw(self, release: Release) -> Any:
        """Draw the posterior of a release by `read`, once."""
        if "_posterior" not in vars(self):
            with under_way("drawing the posterior"):
                posterior = read(release, draws=self._draws, rng=copy.deepcopy(self._rng), **self._options)
            vars(self).setdefault("_posterior", posterior)
        return vars(self)["_posterior"]

    def pack(self) -> LazyPosterior:
        """Prepare for a pickle: existing draws of a network are written as a file of draws."""
        return (
            self._change_draws(stored_draws.to_bytes)
            if isinstance(vars(self).get("_posterior"), PosteriorDraws)
            else self
        )

    def unpack(self, release: Release) -> LazyPosterior:
        """Restore from a pickle; the draws then refer to this release, whatever release the file names."""
        is_packed = isinstance(vars(self).get("_posterior"), bytes)
        return self._change_draws(lambda raw: stored_draws.from_bytes(raw, evidence=release)) if is_packed else self

    def _change_draws(self, convert: Callable[[Any], Any]) -> LazyPosterior:
        """Copy with the draws converted."""
        copied = copy.copy(self)
        vars(copied)["_posterior"] = convert(vars(self)["_posterior"])
        return copied
