"""Published mechanisms that the kernel's default dominates, and mechanisms by a score of your own."""

from __future__ import annotations

from discreet.mechanisms import MechanismEntry

HERE = "discreet.research.mechanisms."

MECHANISMS = (
    MechanismEntry(
        "fourier",
        "network",
        "Laplace noise on contrasts",
        options=("stealth",),
        home=f"{HERE}fourier",
    ),
    MechanismEntry(
        "allocated",
        "network",
        "two stages, the second where it helps most",
        options=("first", "sampling", "weights", "floor"),
        home=f"{HERE}allocated",
    ),
    MechanismEntry(
        "posterior_sampler",
        "network",
        "draws from a trimmed posterior",
        "used",
        options=("draws", "temper", "floor", "given"),
        home=f"{HERE}posterior_sampler",
    ),
    MechanismEntry(
        "map_estimate",
        "network",
        "one likely set of probabilities",
        options=("candidates", "floor"),
        home=f"{HERE}map_estimate",
    ),
    MechanismEntry(
        "scored",
        "network",
        "one candidate of a public list, by a score of your own",
        options=("score", "draws"),
        needed={
            "score": '{"variables": [{"name": "a", "states": ["no", "yes"]}], "candidates": [[0.2], [0.5], [0.8]], '
            '"range": [0, 1], "scores": [[1, 0.6, 0], [0, 0.5, 1]]}'
        },
        brings=True,
        home=f"{HERE}scored",
    ),
    MechanismEntry(
        "sampled",
        "network",
        "draws of the parameters of a family: exponential, normal, Poisson, ...",
        "used",
        options=("score", "draws", "temper", "records"),
        needed={
            "score": '{"family": "exponential", "variables": [{"name": "x", "bounds": [0, 4], "bins": 4}], '
            '"parameters": {"low": 0.25, "high": 4}, "points": 5}'
        },
        brings=True,
        home=f"{HERE}sampled",
    ),
    MechanismEntry(
        "truncated_posterior",
        "design",
        "draws of a linear regression's weights",
        targets=("number",),
        options=("draws", "variance", "radius"),
        delta="used",
        home=f"{HERE}truncated_posterior",
    ),
    MechanismEntry(
        "noisy_gradients",
        "design",
        "noise on gradients of a logistic regression",
        targets=("class",),
        options=("steps", "records"),
        needed={"records": "10"},
        home=f"{HERE}noisy_gradients",
    ),
    MechanismEntry(
        "factored",
        "design",
        "one of finitely many directions or laws",
        targets=("nothing",),
        options=("factor",),
        needed={
            "factor": '{"factor": "direction", "parameters": {"noise_variance": 0.25, "tau": 2.0}, '
            '"candidates": [[0.7, 0.7], [0.7, -0.7]]}'
        },
        home=f"{HERE}factored",
    ),
)
"""Entries of the pack in the registry."""
