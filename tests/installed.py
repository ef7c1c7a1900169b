"""What an installation must do where nothing else is installed: `python -I tests/installed.py`, with its Python.

`make package` runs it once on the wheel and once on the sources. It needs nothing but the package, so that what the
package asks for is all there is: a name that needs an extra says so, and the commands of the README run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

NETWORK, RECORDS = "demo/asia.bif", "demo/records.parquet"
COMMANDS = (
    ("demo", "--keep", "demo"),
    ("check", RECORDS, "--network", NETWORK),
    ("ledger", "open", "smoke", "--epsilon", "3", "--relation", "add-remove"),
    ("release", RECORDS, "--network", NETWORK, "--account", "smoke", "--epsilon", "1", "--output", "release.json"),
    ("query", "release.json", "P(lung | smoke=yes)", "--json"),
)
"""From no file at all to an answer."""


def expect(held: bool, told: str) -> None:
    """End with a message where something is not as it must be."""
    if not held:
        raise SystemExit(f"the installation is broken: {told}")


def check_names() -> int:
    """Load all public names; those that need an extra may say so, and nothing else may.

    Returns:
        How many need one.
    """
    import discreet

    expect(Path(discreet.__file__).is_relative_to(sys.prefix), f"{discreet.__file__} is not of this environment")
    expect(discreet.__version__ == metadata.version("discreet"), "the version is not that of the metadata")
    lacking = 0
    for name in discreet.__all__:
        try:
            expect(getattr(discreet, name) is not None, name)
        except discreet.InputError as error:
            expect("pip install '.[" in str(error), f"{name}: {error}")
            lacking += 1
    expect(lacking < len(discreet.__all__) / 4, f"{lacking} names need an extra")
    return lacking


def run_commands(folder: Path) -> None:
    """Walk from made-up records to an answer, in an empty folder."""
    program = Path(sys.executable).with_name("discreet")
    for command in COMMANDS:
        done = subprocess.run([program, *command], cwd=folder, capture_output=True, text=True, check=False)
        expect(done.returncode == 0, f"discreet {' '.join(command)}: {done.stderr.strip()}")
    (answer,) = json.loads(done.stdout)["answers"]
    ends = [(value["lower"], value["mean"], value["upper"]) for value in answer["values"]]
    expect(all(0 <= lower <= mean <= upper <= 1 for lower, mean, upper in ends), f"no probabilities: {ends}")


if __name__ == "__main__":
    needing = check_names()
    with tempfile.TemporaryDirectory() as place:
        run_commands(Path(place))
    print(f"discreet {metadata.version('discreet')} works in {sys.prefix}: {needing} names need an extra and say so")
