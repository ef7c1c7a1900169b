"""Randomness for computations on public data: seeds, generators, or the system.

Noise that protects records has no seed and another source (`mechanisms/noise.py`).
"""

from __future__ import annotations

from numbers import Integral

import numpy as np

from discreet.errors import InputError, shown

Seed = int | np.random.Generator | None
"""Types of `rng`: a seed (a whole number from 0) gives equal numbers in every call, a generator continues, and None
gives new numbers each time.
"""


def as_generator(rng: Seed) -> np.random.Generator:
    """Return the generator of an argument `rng`.

    Args:
        rng: a seed, a generator, or None for one that the operating system seeds.

    Returns:
        A NumPy generator; a given generator itself.

    Raises:
        InputError: another type, or a negative seed.

    Guarantee:
        None spent: reads no data.

    Example:
        >>> int(as_generator(7).integers(100)) == int(as_generator(7).integers(100))
        True
    """
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    if isinstance(rng, bool) or not isinstance(rng, Integral) or rng < 0:
        raise InputError(
            f"rng is a seed (a whole number from 0 on), a numpy.random.Generator, or None for new numbers each "
            f"time; got {shown(rng) if isinstance(rng, int | float | str) else type(rng).__name__}"
        )
    return np.random.default_rng(int(rng))
