"""Statistics of diffprivlib in an environment of its own: `python number_statistics.py GIVEN.npz FOUND.npz`.

Read: `values`, `low`, `high`, `epsilon`, `seed`. Written: `found`: the mean, the standard deviation, the median and the
quantile .9, each with all of epsilon, as they come. Several files may follow, GIVEN and FOUND in turn. This file is run
where the package is not installed.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np


def answer(given: dict[str, np.ndarray]) -> list[float]:
    """Answer four questions, each as if it were the only one."""
    from diffprivlib.tools import mean, quantile, std

    values, how = given["values"], {"epsilon": float(given["epsilon"]), "random_state": int(given["seed"])}
    how["bounds"] = (float(given["low"]), float(given["high"]))
    return [mean(values, **how), std(values, **how), quantile(values, 0.5, **how), quantile(values, 0.9, **how)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for source, place in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        with np.load(source) as file:
            read = dict(file)
        np.savez(place, found=np.asarray(answer(read), float))
