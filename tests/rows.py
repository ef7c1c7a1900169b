"""Rows of noisy counts that the sampler is held against enumeration on, and how far it may be off."""

from __future__ import annotations

import math

import numpy as np

DRAWS = 40_000
FALSE_ALARM = 1e-8
# The gate leaves at least DRAWS effective proposals, and resampling adds at most the variance of DRAWS draws: the
# variance of any mean is at most that of DRAWS / 2 independent draws.
EFFECTIVE = DRAWS / 2
# Dvoretzky-Kiefer-Wolfowitz-Massart: P(sup |F_n - F| > distance) <= 2 exp(-2 n distance^2); here 0.022.
DISTANCE = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * EFFECTIVE))
# A normal mean is more than 6 standard errors off with probability 2e-9.
SIGMAS = 6.0

# Noisy counts, concentrations, noise scale, top of the box of counts.
ROWS = {
    "ordinary": ((12, 5), (0.25, 0.25), 3.0, (110, 110)),
    "nothing": ((0, 0), (0.25, 0.25), 5.0, (150, 150)),
    "one negative": ((-8, 3), (0.25, 0.25), 3.0, (90, 100)),
    "all negative": ((-30, -4), (1.0, 1.0), 4.0, (120, 120)),
    "far negative": ((-150, 5), (0.25, 0.25), 3.0, (90, 110)),
    "concentration 5": ((9, 0), (5.0, 5.0), 3.0, (130, 130)),
    "tilted": ((20, 3), (50.0, 50.0), 3.0, (150, 150)),
    "tilted, unequal": ((5, 3), (50.0, 0.25), 3.0, (130, 130)),
    "unequal": ((40, 3), (0.1, 4.0), 4.0, (170, 150)),
    "sparse": ((3, 0), (0.1, 0.1), 2.0, (70, 70)),
    "large": ((900, 400), (0.25, 0.25), 6.0, (1080, 580)),
    "little noise": ((6, 2), (0.25, 1.0), 0.4, (30, 30)),
    "three": ((7, -2, 1), (0.25, 0.25, 0.25), 2.0, (60, 60, 60)),
    "three, 5": ((7, -2, 1), (5.0, 5.0, 5.0), 2.0, (80, 80, 80)),
    "three, tilted": ((5, 3, 1), (50.0, 50.0, 50.0), 2.0, (80, 80, 80)),
    "three, unequal": ((12, 0, -3), (0.25, 1.0, 6.0), 2.0, (80, 80, 80)),
}


def distance(sample: np.ndarray, values: np.ndarray, law: np.ndarray) -> float:
    """Largest difference of the distribution functions."""
    found = np.searchsorted(np.sort(sample), values, side="right") / sample.size
    return float(np.abs(found - np.cumsum(law)).max())
