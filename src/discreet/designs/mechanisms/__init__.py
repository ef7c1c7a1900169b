"""Mechanisms over designs: noise on sums of products, and a randomly tilted objective."""

from __future__ import annotations

from discreet.mechanisms import MechanismEntry

HERE = "discreet.designs.mechanisms."

MECHANISMS = (
    MechanismEntry(
        "grouped_moments",
        "design",
        "noise on sums of products, by groups: linear regression on many features",
        "used",
        targets=("number",),
        home=f"{HERE}grouped_moments",
    ),
    MechanismEntry(
        "noisy_moments",
        "design",
        "noise on all sums of products: linear regression, second moments",
        targets=("number", "nothing"),
        home=f"{HERE}noisy_moments",
    ),
    MechanismEntry(
        "objective_perturbation",
        "design",
        "weights of a logistic, multinomial or Poisson regression, from a randomly tilted objective",
        "used",
        targets=("class", "classes", "count"),
        options=("records", "regularisation", "curvature"),
        needed={"records": "10"},
        home=f"{HERE}objective_perturbation",
    ),
)
"""Entries of the pack in the registry."""
