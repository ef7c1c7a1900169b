"""Pictures of the guides: beliefs by epsilon, half-widths by epsilon, and what the best attack finds.

`python -m bench.guide_pictures` writes them to `docs/pictures`. Beliefs and attacks follow from the guarantee alone.
Half-widths are those that the guide shows, which `discreet plan --within 0.02 "P(lung | smoke=yes)"` printed for Asia
and several numbers of records (add-remove, seed 0); nothing here simulates.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from discreet.display.charts import line_chart
from discreet.reporting.explain import least_misses, moved_belief

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
EPSILONS = tuple(float(each) for each in np.geomspace(0.05, 5, 41))
ALARMS = tuple(float(each) for each in np.geomspace(0.001, 1, 61))
PLANNED_EPSILONS = (0.0325, 0.065, 0.13, 0.26, 0.52)
PLANNED = {
    2_500: (0.267, 0.134, 0.0686, 0.0375, 0.0238),
    10_000: (0.0671, 0.0347, 0.0189, 0.012, 0.00936),
    40_000: (0.0175, 0.00956, 0.00602, 0.00468, 0.00428),
}
"""Half-widths of 95 % intervals by number of records, one for each epsilon."""


def draw_beliefs() -> str:
    """The largest belief after a release, by epsilon: of whether a record is there, and of its value."""
    cases = {
        "of 1 in 2: value": (0.5, 2),
        "of 1 in 2: whether": (0.5, 1),
        "of 1 in 100: value": (0.01, 2),
        "of 1 in 100: whether": (0.01, 1),
    }
    lines = {
        name: [(epsilon, moved_belief(prior, times * epsilon)) for epsilon in EPSILONS]
        for name, (prior, times) in cases.items()
    }
    return line_chart(
        lines, title="What a belief can become", x_label="epsilon (add-remove)", y_label="largest belief after"
    )


def draw_attacks() -> str:
    """What part of the records that are there the best attack finds, by its false alarms."""
    lines = {
        f"epsilon {epsilon:g}": [(alarm, 1 - least_misses(alarm, epsilon, 0.0)) for alarm in ALARMS]
        for epsilon in (3.0, 1.0, 0.1)
    }
    return line_chart(
        lines, title="The best attack there can be", x_label="false alarms", y_label="found of those that are there"
    )


def draw_widths() -> str:
    """Half-widths by epsilon, for three numbers of records."""
    lines = {
        f"{records:,} records": list(zip(PLANNED_EPSILONS, widths, strict=True)) for records, widths in PLANNED.items()
    }
    return line_chart(
        lines,
        title="P(lung | smoke=yes), Asia, 95 % intervals",
        x_label="epsilon (add-remove)",
        y_label="half-width",
        wanted=0.02,
    )


PICTURES: Mapping[str, str] = {
    "beliefs.svg": draw_beliefs(),
    "attacks.svg": draw_attacks(),
    "half-widths.svg": draw_widths(),
}
"""By name of the file; drawn at once, as that takes a millisecond."""


def main() -> None:
    for name, text in PICTURES.items():
        (FOLDER / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
