"""Figures and tables of the papers, as printed and as corrected: `python -m experiments NAME [--quick]`.

`harness` runs an experiment, `pages` and `pictures` show it; modules that are not in `NAMES` are what experiments
share, above all what the papers print and the package does not offer. Nothing here is private.
"""

__all__ = ["NAMES"]

NAMES = (
    "zhang_figure_1",
    "zhang_figure_2",
    "zhang_table_1",
    "williams_figure_2",
    "williams_tables",
    "williams_figure_3a",
    "williams_figure_3b",
    "williams_figure_4",
    "chowdhury_figure_2",
    "chowdhury_table_1",
    "chowdhury_table_2",
    "chowdhury_allocation",
    "dimitrakakis_figure_1",
    "dimitrakakis_examples",
    "dimitrakakis_regret",
    "dimitrakakis_distinguishability",
    "errata",
    "coverage",
    "scaling",
    "planned_noise",
    "wrong_networks",
    "missing_values",
    "audits",
    "peers",
)
"""Of the experiments, in the order of the index."""
