"""Posteriors of fitted estimators: drawn when somebody first asks for them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from discreet.estimators.options import generator
from discreet.posterior.design.weight_posterior import WeightPosterior
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.read import read
from discreet.releases.release import Release
from discreet.util.lazy_imports import lazy_import
from discreet.util.progress import under_way

stored_draws = lazy_import("discreet.posterior.stored")
"""Few estimators are pickled."""


class DrawnLater:
    """A posterior that is drawn when somebody first asks for it: the same draws, whenever that is.

    Copies and pickles of an estimator carry it along, drawn or not. Two threads that ask first may both draw; they draw
    the same, and both get what one of them made.

    Args:
        draws: how many.
        random_state: of the draws; read now, so nothing that happens to it later has an effect.
        options: more for `discreet.read`.
    """

    def __init__(self, draws: int, random_state: Any, **options: Any) -> None:
        self._draws, self._options = draws, options
        rng = generator(random_state)
        # A caller's own generator moves on, so that the next fit draws others.
        self._rng = np.random.default_rng(int(rng.integers(2**63))) if rng is random_state else rng

    def of(self, release: Release) -> WeightPosterior:
        """The posterior of weights given a release, always the same one; errors as of `read`, each time."""
        return cast(WeightPosterior, self.drawn(release))

    def drawn(self, release: Release) -> Any:
        """What `read` makes of a release, always the same."""
        if "_found" not in vars(self):
            with under_way("drawing the posterior"):
                drawn = read(release, draws=self._draws, rng=copy.deepcopy(self._rng), **self._options)
            vars(self).setdefault("_found", drawn)
        return vars(self)["_found"]

    def packed(self) -> DrawnLater:
        """The same for a pickle: draws of a network, if they were drawn, as a file of them."""
        return (
            self._change_draws(stored_draws.to_bytes) if isinstance(vars(self).get("_found"), PosteriorDraws) else self
        )

    def unpacked(self, release: Release) -> DrawnLater:
        """The inverse; draws then are of this release, whatever the file says that they were made of."""
        reading = isinstance(vars(self).get("_found"), bytes)
        return self._change_draws(lambda raw: stored_draws.from_bytes(raw, evidence=release)) if reading else self

    def _change_draws(self, change: Callable[[Any], Any]) -> DrawnLater:
        """Make a copy whose draws are in another form."""
        other = copy.copy(self)
        vars(other)["_found"] = change(vars(self)["_found"])
        return other
