"""One run of a synthesizer in an environment of its own: `python run.py NAME RECORDS.npz SYNTHETIC.npz`.

Read: `codes`, positions of states, shape (records, variables); `sizes`, numbers of states; `epsilon`, `delta`; `rows`,
how many records to make up. Written: `codes` of them. This file is run where the package is not installed.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def dpmm(name: str, given: Any) -> np.ndarray:
    """MST or AIM of dpmm, as they come but for the processing of columns, which costs epsilon of its own."""
    import pandas as pd
    from dpmm.pipelines import PIPELINE_DICT

    columns = [f"v{place}" for place in range(len(given["sizes"]))]
    records = pd.DataFrame(given["codes"], columns=columns)
    made = PIPELINE_DICT[name](
        epsilon=float(given["epsilon"]), delta=float(given["delta"]), disable_processing=True, n_jobs=1
    )
    made.fit(records, domain={column: int(size) for column, size in zip(columns, given["sizes"], strict=True)})
    return made.generate(n_records=int(given["rows"]))[columns].to_numpy()


def opendp(name: str, given: Any) -> np.ndarray:
    """AIM of OpenDP over mbi, as it comes but for the number of records, which it draws from its own table.

    It keeps a state for values that are missing: records that have one are left out.
    """
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    columns = [f"v{place}" for place in range(len(given["sizes"]))]
    epsilon, delta = float(given["epsilon"]), float(given["delta"])
    context = dp.Context.compositor(
        data=pl.DataFrame(given["codes"], schema=columns).lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=epsilon, delta=delta) if delta else dp.loss_of(epsilon=epsilon),
        split_evenly_over=1,
    )
    keys = {column: list(range(int(size))) for column, size in zip(columns, given["sizes"], strict=True)}
    table = context.query().select(*columns).contingency_table(keys=keys, algorithm=dp.mbi.AIM()).release()
    made = table.synthesize(rows=int(given["rows"]), method="sample").select(columns).drop_nulls()
    return made.to_numpy()


if __name__ == "__main__":
    which, source, target = sys.argv[1:]
    run = opendp if which == "opendp" else dpmm
    np.savez(target, codes=np.asarray(run(which, np.load(source)), np.int64))
