"""Where the randomness of what is computed from public things comes from: seeds, generators, or the system.

Noise that protects records never comes from here: it has no seed (`mechanisms/noise.py`).
"""

from __future__ import annotations

from numbers import Integral

import numpy as np

from discreet.errors import InputError, shown

Seed = int | np.random.Generator | None
"""What `rng` may be: a whole number from 0 on gives the same numbers in every call, a generator goes on where it is,
None takes other numbers each time."""


def as_generator(rng: Seed) -> np.random.Generator:
    """Return the generator that an argument `rng` stands for.

    Args:
        rng: a seed, a generator, or None for one that the operating system seeds.

    Returns:
        A NumPy generator; the one that was given, where one was.

    Raises:
        InputError: neither of these, or a negative seed.

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
            f"rng is a seed (a whole number from 0 on), a numpy.random.Generator, or left out for other numbers each "
            f"time; got {shown(rng) if isinstance(rng, int | float | str) else type(rng).__name__}"
        )
    return np.random.default_rng(int(rng))
