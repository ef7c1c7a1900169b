"""Regressions of diffprivlib in an environment of its own: `python regress.py KIND GIVEN.npz FOUND.npz`.

KIND is "logistic" or "linear". Read: `train`, `target`, `test`, features already scaled to [-1, 1] and a target of 0
and 1 or in [-1, 1]; `epsilons`; `seeds`. Written: `predicted`, shape (epsilons, seeds, test records): probabilities of
1, or the scaled target. This file is run where the package is not installed.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np


def logistic(given: Any, epsilon: float, seed: int) -> np.ndarray:
    """As it comes, with the norm that the bounds imply and steps enough to converge."""
    from diffprivlib.models import LogisticRegression

    norm = float(np.sqrt(given["train"].shape[1]))
    model = LogisticRegression(epsilon=epsilon, data_norm=norm, max_iter=300, random_state=seed)
    return model.fit(given["train"], given["target"].astype(int)).predict_proba(given["test"])[:, 1]


def linear(given: Any, epsilon: float, seed: int) -> np.ndarray:
    """As it comes, with the bounds."""
    from diffprivlib.models import LinearRegression

    ends = np.ones(given["train"].shape[1])
    model = LinearRegression(epsilon=epsilon, bounds_X=(-ends, ends), bounds_y=(-1.0, 1.0), random_state=seed)
    return model.fit(given["train"], given["target"]).predict(given["test"])


if __name__ == "__main__":
    kind, source, place = sys.argv[1:]
    warnings.simplefilter("ignore")
    with np.load(source) as file:
        read = dict(file)
    run = {"logistic": logistic, "linear": linear}[kind]
    found = [[run(read, float(epsilon), int(seed)) for seed in read["seeds"]] for epsilon in read["epsilons"]]
    np.savez(place, predicted=np.asarray(found, np.float32))
