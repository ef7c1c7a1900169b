"""All experiments, or those that are named: `python -m experiments [NAME ...] [--quick]`; `--list` prints the names."""

from .harness import command_by_name

if __name__ == "__main__":
    command_by_name()
