"""Defaults and descriptions of options that both the command line and the server have, each stated once."""

from __future__ import annotations

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
INSIDE = "Law of numbers inside their bins, for E(X), median(X), quantile(X, 0.9) and P(X > 40)."
KIND = "Kind of regression: linear, or logistic for the log odds of the target's second state."
PAYOFFS = "What each response pays in every state of the query."
QUANTITY = "Query for one probability, which is to be named as a number."
LOSS = "Loss of the number: squared, absolute, quantile:0.9 or interval:0.9."
FAILURE = "Chance that some bound fails."
ROWS = "Rows of tables to name for each query."
