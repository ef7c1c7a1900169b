"""The Makefile as tests read it: its targets, and the commands of each."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["ROOT", "commands", "targets"]

ROOT = Path(__file__).parents[1]
RULE = re.compile(r"(?P<target>[a-z][a-z-]*):(?!=)(?P<needs>[^#\n]*)(## (?P<about>.*))?")


def rules() -> dict[str, tuple[str, list[str]]]:
    """By target: what its line says it is for, and its commands, with lines that go on joined."""
    found: dict[str, tuple[str, list[str]]] = {}
    open_rule: list[str] | None = None
    for line in (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "").splitlines():
        rule = RULE.fullmatch(line)
        if rule is not None:
            open_rule = []
            found[rule["target"]] = (rule["about"] or "", open_rule)
        elif line.startswith("\t") and open_rule is not None:
            open_rule.append(line[1:])
        elif line and not line.startswith("#"):
            open_rule = None
    return found


def targets() -> dict[str, str]:
    """All targets that a contributor may name, with what their lines say they are for."""
    return {target: about for target, (about, _) in rules().items()}


def commands(target: str) -> list[str]:
    """The commands of a target, with the folder of the environment's programs in place of `$(BIN)`."""
    return [line.replace("$(BIN)", ".venv/bin") for line in rules()[target][1]]
