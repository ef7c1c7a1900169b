"""All experiments, and the index of their pages: `python -m experiments [--quick]`."""

from . import NAMES
from .harness import command

if __name__ == "__main__":
    command(NAMES)
