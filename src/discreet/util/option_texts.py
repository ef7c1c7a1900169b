"""Words, defaults and descriptions of options of functions, the command line and the server, each stated once."""

from __future__ import annotations

from typing import Literal

MissingValues = Literal["error", "drop", "keep"]
"""Treatment of missing values; see `RecordsPolicy`."""
OutOfBounds = Literal["error", "clip"]
"""Treatment of numbers outside their public bounds."""
Weights = Literal["record", "unit"]
"""Unit of weight 1."""
Gaps = Literal["at-random", "state"]
"""Assumption about missing values that a release kept."""
LawAssume = Literal["network", "robust"]
"""Assumption of joint laws about variables that no table measures together."""
Assume = Literal[LawAssume, "nothing"]
"""Assumption of answers about them."""
Inside = Literal["log-linear", "uniform"]
"""Law of numbers inside their bins."""
RegressionKind = Literal["linear", "logistic"]
TableLoss = Literal["squared", "absolute"]
"""Loss that estimated probabilities of a table minimize."""
LevelLoss = Literal["quantile", "interval"]
"""Losses of a number that have a level: `quantile:0.9`."""
DataSets = Literal["same", "different"]
"""Relation of the records of several releases: the same, or none in common."""
ReportForm = Literal["html", "markdown"]
FileFormat = Literal["csv", "parquet", "arrow"]
"""Format of a file of records."""
FORM_WORDS = {
    **dict.fromkeys(("encoding", "delimiter", "quote", "decimal", "thousands"), str),
    **dict.fromkeys(("preamble", "footer"), int),
}
"""Options that declare the form of a text file, and their types; see `TextForm`."""

DEFAULT_LEVEL = 0.95
"""Posterior probability of intervals; every `level` of the package has this default."""
DEFAULT_FAILURE = 0.05
"""Chance that the bound of a decision fails."""
DEFAULT_ROWS = 5
"""Rows of tables that an explanation names for each query."""

LEVEL = "Posterior probability of each interval."
PREDICTIVE = "Answer for the next record with this evidence, not for the population."
MISSING = (
    "How to read missing values that a release kept. state: as a state like others. at-random: answer for complete "
    "records, if values are missing at random; such answers are marked as assumed."
)
ASSUME = (
    "What to assume of variables that no table measures together. network: the network's independences. robust: a "
    "distance from them that the measured pairs, or real tables, suggest. nothing: bounds of all that is possible."
)
INSIDE = "Law of numbers inside their bins, for E(X), median(X) and P(X > 40) where no sums of them were released."
KIND = "Kind of regression: linear, or logistic for the log odds of the target's second state."
PAYOFFS = "What each response pays in every state of the query."
QUANTITY = "Query for one probability, or for a number as E(X), which is to be named."
LOSS = "Loss of the number: squared, absolute, quantile:0.9 or interval:0.9."
FAILURE = "Chance that some bound fails."
ROWS = "Rows of tables to name for each query."
