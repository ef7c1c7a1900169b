"""Partial identification: bounds of an answer from measured margins alone, without independence assumptions.

In each draw the margins of all measured sets (of the query's variables that one table contains) are known, and the
joint law of the query's variables may be any law with these margins. The least and the largest P(x | e) among them are
two linear programs, after Charnes and Cooper (1962): with t >= 0 and y = t q for the joint law q,

    minimise  sum of y over x and e    subject to    margins of y = t times the measured ones,  sum of y over e = 1.

Such bounds are sharp and often wide. They are not a posterior: they are uninformative about where between them the
answer lies.

Source: Manski (2003), *Partial Identification of Probability Distributions*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy
from scipy.sparse import csr_array, hstack, vstack

from discreet.errors import InputError
from discreet.model.schema import Scope
from discreet.util.arrays import Floats

MOST_BOUNDED_STATES, MOST_BOUNDED_ROWS = 4096, 64
"""Largest number of joint states of a query and of rows of its answer: each row and draw takes some milliseconds."""
BOUNDED_DRAWS = 40
"""Number of draws of the margins that are used: their uncertainty is small beside the width of the identified
interval."""
LEAST_EVIDENCE = 1e-12
"""Probability of the evidence at or below which a draw is left out."""


class IdentificationBounds(NamedTuple):
    """Lower and upper ends of an interval for each row, shape (rows,)."""

    lower: Floats
    upper: Floats


def identification_bounds(
    names: Sequence[str],
    law: Floats,
    parts: Sequence[Scope],
    rows: Sequence[Mapping[str, int]],
    evidence: Mapping[str, int],
    level: float,
) -> IdentificationBounds:
    """Compute bounds of `P(row | evidence)` over all joint laws with the measured margins, by linear programming.

    At most BOUNDED_DRAWS draws are used, at equal distances from the first to the last, rounded down. Draws in which
    the evidence has a probability of LEAST_EVIDENCE or less are left out.

    Args:
        names: variables of the query; their order is that of the axes.
        law: any joint law with the measured margins, shape `(*sizes, draws)`.
        parts: measured sets of these variables; every variable lies in one.
        rows: codes of the states of each row; a code of an observed variable is replaced by that of the evidence.
        evidence: codes of the observed states; if empty, the bounds are of `P(row)`.
        level: fraction of the draws whose bounds the interval contains, half of the rest at either end; not checked.

    Returns:
        For each row the `(1 - level) / 2` quantile of the used draws' lower bounds and the `(1 + level) / 2` quantile
        of their upper bounds, interpolated linearly. If a linear program fails, that end of the draw's bounds is the
        ratio under its own `law`, which is inside the bounds.

    Raises:
        InputError: more than MOST_BOUNDED_STATES joint states or MOST_BOUNDED_ROWS rows, or evidence that is impossible
            in every draw at those distances.
    """
    sizes = law.shape[:-1]
    if law[..., 0].size > MOST_BOUNDED_STATES or len(rows) > MOST_BOUNDED_ROWS:
        raise InputError(
            f"bounds that assume nothing are found for up to {MOST_BOUNDED_STATES:,} joint states and "
            f"{MOST_BOUNDED_ROWS} rows; ask for fewer variables, or name their states"
        )
    states = list(product(*map(range, sizes)))
    sums = vstack([_make_sums(names, scope, states) for scope in parts]).tocsr()
    observed = _mark_states(names, evidence, states)
    ends_by_draw: list[Floats] = []
    for draw in np.unique(np.linspace(0, law.shape[-1] - 1, BOUNDED_DRAWS).astype(int)):
        q = law[..., draw].ravel()
        if q @ observed > LEAST_EVIDENCE:
            pairs = [_solve_ends(_mark_states(names, {**row, **evidence}, states), observed, sums, q) for row in rows]
            ends_by_draw.append(np.reshape(pairs, (len(rows), 2)))
    if not ends_by_draw:
        raise InputError("the evidence is impossible under every draw")
    tail = (1 - level) / 2
    ends = np.stack(ends_by_draw, axis=-1)
    return IdentificationBounds(np.quantile(ends[:, 0], tail, axis=-1), np.quantile(ends[:, 1], 1 - tail, axis=-1))


def _make_sums(names: Sequence[str], scope: Scope, states: Sequence[tuple[int, ...]]) -> csr_array:
    """Build the sparse 0-1 matrix that sums a joint law to a margin, shape (cells of the margin, joint states).

    Its rows are the cells of the margin in the order in which `states` first has them.

    Args:
        names: variables of the joint law, in the order of the codes.
        scope: variables of the margin, all of them in `names`.
        states: codes of each joint state.
    """
    axes = [names.index(name) for name in scope]
    keys = [tuple(state[axis] for axis in axes) for state in states]
    index = {key: row for row, key in enumerate(dict.fromkeys(keys))}
    return csr_array((np.ones(len(keys)), ([index[key] for key in keys], range(len(keys)))), (len(index), len(keys)))


def _mark_states(names: Sequence[str], codes: Mapping[str, int], states: Sequence[tuple[int, ...]]) -> Floats:
    """Return 1.0 for joint states that have all of the given codes, else 0.0; shape (joint states,).

    Without any code all are 1. The order of `names` is that of the codes in `states`.
    """
    wanted = {names.index(name): code for name, code in codes.items()}
    return np.array([all(state[axis] == code for axis, code in wanted.items()) for state in states], np.float64)


def _solve_ends(wanted: Floats, observed: Floats, sums: csr_array, q: Floats) -> tuple[float, float]:
    """Find the least and the largest `wanted q / observed q` over all joint laws with the margins of q.

    Args:
        wanted: 1 for the joint states of the row and the evidence, else 0, shape (joint states,).
        observed: 1 for the joint states of the evidence, else 0, same shape.
        sums: sparse matrix that computes the margins, shape (margins' cells, joint states).
        q: a joint law with the margins, shape (joint states,); `observed q` is positive.

    Returns:
        The least ratio, raised to at least 0, and the largest, lowered to at most 1. If the solver fails at an end,
        that end is the ratio of q.
    """
    # Charnes-Cooper: unknowns (y, t), constraints sums y - t (sums q) = 0 and observed y = 1, objective wanted y.
    margins = csr_array(-(sums @ q)[:, None])
    equal = vstack([hstack([sums, margins]), hstack([csr_array(observed[None]), csr_array((1, 1))])])
    right = np.append(np.zeros(sums.shape[0]), 1.0)
    ends = []
    for sign in (1, -1):
        # The full name loads scipy.optimize here, not with every query.
        solved = scipy.optimize.linprog(
            sign * np.append(wanted, 0.0), A_eq=equal, b_eq=right, bounds=(0, None), method="highs"
        )
        # Rounding may make the margins infeasible; q itself has them.
        ends.append(sign * solved.fun if solved.success else float(q @ wanted) / float(q @ observed))
    return max(ends[0], 0.0), min(ends[1], 1.0)
