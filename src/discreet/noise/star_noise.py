"""Draw star noise exactly: integer noise on several tables that agrees on their shared variables.

The tables of a star share variables S. A table's cells fall into rows, one for each cell of S, which is a *block*: a
row of every table. Counts of records agree on S, so the noise need not be added to S once for every table. It has the
law

    P(z) ~ product over blocks of q^max over tables of |row of z|_1,   q = exp(-1 / scale),

over all integers z whose rows of a block have equal sums.

**Guarantee.** `N(z)`, the sum over blocks of `max |row|_1`, is a norm. A record adds 1 to one cell in each row of one
block: N moves by at most 1, whatever the number of tables, and by at most 2 if the record is replaced. So P changes by
a factor of at most exp(1 / scale), or exp(2 / scale). Tables may share more than S; they then do not agree on the rest.
The loss is tight: if tables share only S, the points of norm at most 1 are the convex hull of the changes by a record
and their mirror image.

**Sampler.** A row with sum c has `|row|_1 <= n`, for an n of c's parity, where its positive entries sum to at most
a = (n + c) / 2 and its negative ones to at least -b, b = (n - c) / 2. By a geometric series

    q^max |row|_1 / (1 - q^2) = sum over integers a, b >= 0 with a - b = c of q^(a + b) 1[every row is one of these].

So (a, b) has the weight `q^(a + b)` times the product over tables of `B_m(a, b)`, the number of rows of m cells, and
rows are then uniform and independent. By j, the number of positive entries among the first m - 1 (the last follows),

    B_m(a, b) = sum over j of C(m - 1, j) C(a, j) C(b + m - 1 - j, m - 1 - j);                                       (1)
    B_m(a, b) = sum over k of C(n + m - 1 - 2 k, m - 1 - 2 k) C(a, k) C(b, k),   n = a + b.                          (2)

(1) gives a sampler of a row: j by its terms, then a subset for the positive entries and one for the others. (2) has the
same generating function: with p = x y and s = x + y, the sum over m, a and b of `u^(m - 1) x^a y^b B_m(a, b)` is
1 / (1 - s + p - u (1 - p)) for both. By (2), B is a polynomial of degree m - 1 in a and b, and for given n largest at
the middle a: from a to a + 1, `C(a, k) C(n - a, k)` grows as long as a + 1 <= n - a.

*n first.* `H(n) = sum over a of product of B_m(a, n - a)` is a polynomial of degree d = 1 + sum (m - 1). Hence
`sum over n of H(n) x^n = (sum over i <= d of h_i x^i) / (1 - x)^(d + 1)`, where the h follow from H(0), .., H(d) by
differences, and are not negative: H counts the lattice points of multiples of a lattice polytope (Stanley). So n with
the weights `q^n H(n)` is i and d + 1 geometrics, where i has the weights `h_i q^i`, which are enclosed by rationals
with as many digits as a draw needs. *Then a*: uniform on 0, .., n, and accepted by the product of B over its largest
value.

None of this depends on the data. Source: Hardt and Talwar (2010), the K-norm mechanism; Stanley (1980),
Decompositions of rational convex polytopes, for h >= 0, which is also checked for every star.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np

from discreet.errors import InputError
from discreet.noise.exact_draws import (
    Entropy,
    below,
    exponential_bounds,
    float_above,
    geometric,
    pick,
    subset,
    under_exponential,
)
from discreet.noise.noise_laws import IntegerNoise
from discreet.util.arrays import Ints
from discreet.util.limits import STAR_DIMENSIONS

LEAST_SCALE = Fraction(1, 64)
"""Least scale: such noise differs from 0 in a cell once in 10^27 draws. Exponentials stay at thousands of digits."""
REACH_LIMIT = 2.0**52
"""Largest (d + 1) scale, as for `k_norm_noise`: all noise then fits into 64 bits."""
ENCLOSURE_BITS = 128
"""Binary digits of the first enclosure, beyond those of the smallest exponential."""


def dimensions(lengths: Sequence[int]) -> int:
    """Count the free numbers of a block: the sum of its rows, and of each row all cells but one.

    Args:
        lengths: cells of a row of each table.

    Returns:
        At least 1.

    Example:
        >>> dimensions([2, 3])
        4
    """
    return 1 + sum(length - 1 for length in lengths)


def star_scale(moved: int, epsilon: Fraction, lengths: Sequence[int]) -> tuple[float, Fraction]:
    """Find the smallest scale of star noise that keeps a budget.

    Args:
        moved: largest distance of neighbours' tables in the norm: 1 if a record is added or removed, 2 if one is
            replaced.
        epsilon: exact budget of the whole star, nats.
        lengths: cells of a row of each table.

    Returns:
        (scale in records, exact bound of its epsilon), at most `epsilon`.

    Raises:
        InputError: a budget that is not positive, or so small that the noise would not fit into 64 bits; too many
            dimensions.

    Guarantee:
        `moved / scale`, for the whole star.

    Source:
        Hardt and Talwar (2010); the module's docstring.

    Example:
        >>> star_scale(2, Fraction(1, 4), [2, 3])
        (8.0, Fraction(1, 4))
    """
    if not epsilon > 0:
        raise InputError(f"an epsilon of {epsilon}: expected a number greater than 0")
    exact = max(moved / epsilon, LEAST_SCALE)
    if exact * (dimensions(lengths) + 1) > int(REACH_LIMIT):
        raise InputError("epsilon is too small: the noise of a star would exceed 64-bit integers")
    scale = float_above(exact)
    _require_star(lengths, scale)
    return scale, moved / Fraction(scale)


def star_noise(noise: IntegerNoise, entropy: Entropy, blocks: int, lengths: Sequence[int], scale: float) -> list[Ints]:
    """Draw the noise of a star.

    Args:
        noise: source of discrete Laplace noise.
        entropy: source of all other randomness, independent of `noise`.
        blocks: cells of the shared variables.
        lengths: cells of a row of each table, at least 1.
        scale: unit: records; at least 1/64.

    Returns:
        For each table int64, shape (blocks, length), exactly with the law of the module's docstring, if the two sources
        are exact.

    Raises:
        InputError: more than 256 dimensions, a row without cells, or a scale out of bounds; before anything is drawn.

    Guarantee:
        None by itself; see `star_scale`. The law of its running time depends only on the arguments.
    """
    _require_star(lengths, scale)
    law = _tabulate_law(tuple(sorted(lengths)), scale)
    size = dimensions(lengths) + 1
    radii = geometric(noise, blocks * size, scale).reshape(blocks, size)
    tables = [np.empty((blocks, length), np.int64) for length in lengths]
    for block, parts in enumerate(radii.tolist()):
        n = law.numerator(entropy) + sum(parts)
        a = _draw_positive(entropy, lengths, n)
        for table, length in zip(tables, lengths, strict=True):
            table[block] = _draw_row(entropy, length, a, n - a)
    return tables


def _require_star(lengths: Sequence[int], scale: float) -> None:
    """Refuse a star that cannot be drawn in time, or whose noise does not fit into 64 bits."""
    if not lengths or min(lengths) < 1:
        raise InputError("a star needs tables, with rows of at least one cell")
    size = dimensions(lengths)
    if size > STAR_DIMENSIONS:
        raise InputError(f"a star of {size} dimensions: expected at most {STAR_DIMENSIONS}")
    if not LEAST_SCALE <= scale <= REACH_LIMIT / (size + 1):
        raise InputError(
            f"a noise scale of {scale} on a star of {size} dimensions: expected at least {float(LEAST_SCALE)} and at "
            f"most {REACH_LIMIT / (size + 1):.4g}"
        )


@dataclass(frozen=True)
class _Law:
    """The law of i, `h_i q^i`.

    Args:
        scale: as an exact fraction.
        numerators: the positive h.
        indices: their i.
        bits: binary digits of the bounds.
        ends: running sums of h times the upper bound of `2^bits q^i`.
    """

    scale: Fraction
    numerators: tuple[int, ...]
    indices: tuple[int, ...]
    bits: int
    ends: tuple[int, ...]

    def numerator(self, entropy: Entropy) -> int:
        """Draw i by upper bounds of the weights, then accept it by its exact weight."""
        while True:
            at = below(entropy, self.ends[-1])
            index = bisect_right(self.ends, at)
            digits = (at - (self.ends[index - 1] if index else 0)) // self.numerators[index]
            if under_exponential(entropy, digits, self.bits, self.indices[index] / self.scale):
                return self.indices[index]


@lru_cache(maxsize=256)
def _tabulate_law(lengths: tuple[int, ...], scale: float) -> _Law:
    """Tabulate the law of i, `h_i q^i`, for one star at one scale."""
    exact, numerators = Fraction(scale), _count_numerators(lengths)
    bits = ENCLOSURE_BITS + 3 * math.ceil(len(numerators) / exact) // 2
    uppers = [exponential_bounds(i / exact, bits)[1] for i, _ in numerators]
    ends = accumulate(h * upper for (_, h), upper in zip(numerators, uppers, strict=True))
    return _Law(exact, tuple(h for _, h in numerators), tuple(i for i, _ in numerators), bits, tuple(ends))


@lru_cache(maxsize=256)
def _count_numerators(lengths: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Compute (i, h_i) for positive h_i, from H(0), .., H(d)."""
    size = dimensions(lengths)
    counts = [sum(_count_rows(lengths, a, n - a) for a in range(n + 1)) for n in range(size + 1)]
    signed = [(-1) ** k * math.comb(size + 1, k) for k in range(size + 1)]
    numerators = [sum(signed[k] * counts[n - k] for k in range(n + 1)) for n in range(size + 1)]
    if min(numerators) < 0:
        raise AssertionError("lattice points of multiples of a lattice polytope have a numerator without signs")
    return tuple((i, h) for i, h in enumerate(numerators) if h)


def _count_rows(lengths: Sequence[int], a: int, b: int) -> int:
    """Count the collections of rows, one row for each table: the product of the B of the docstring's (2)."""
    product, counts = 1, dict[int, int]()
    for length in lengths:
        if length not in counts:
            counts[length] = sum(_list_terms(length - 1, a, b))
        product *= counts[length]
    return product


def _list_terms(free: int, a: int, b: int) -> Iterator[int]:
    """List the terms of (2), for `free` = m - 1."""
    n = a + b
    for k in range(min(free // 2, a, b) + 1):
        yield math.comb(n + free - 2 * k, n) * math.comb(a, k) * math.comb(b, k)


def _draw_positive(entropy: Entropy, lengths: Sequence[int], n: int) -> int:
    """Draw a, the largest sum of the positive entries of a row, given n."""
    most = _count_rows(lengths, n // 2, n - n // 2)
    while True:
        a = below(entropy, n + 1)
        if below(entropy, most) < _count_rows(lengths, a, n - a):
            return a


def _draw_row(entropy: Entropy, length: int, a: int, b: int) -> list[int]:
    """Draw a uniform row of cells: positive entries sum to at most a, negative ones to at least -b, all to a - b."""
    free = length - 1
    weights = [math.comb(free, j) * math.comb(a, j) * math.comb(b + free - j, b) for j in range(free + 1)]
    positive = pick(entropy, weights)
    ends = subset(entropy, a, positive)
    # j parts of at least 1 that sum to at most a are steps to the elements of a subset of 1, .., a.
    rising = [end - start for start, end in zip([-1, *ends], ends, strict=False)]
    ends = subset(entropy, b + free - positive, free - positive)
    falling = [end - start - 1 for start, end in zip([-1, *ends], ends, strict=False)]
    where = set(subset(entropy, free, positive))
    row = [rising.pop() if cell in where else -falling.pop() for cell in range(free)]
    return [*row, a - b - sum(row)]
