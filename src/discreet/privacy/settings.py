"""Settings of a user: where the ledger is, and names for databases, from the environment and one file.

    # ~/.config/discreet/config.toml, or the file that DISCREET_CONFIG names
    ledger = "postgresql://ledger.example/budgets"
    [databases]
    hospital = "postgresql://reader@db.example/hospital"

`@hospital` then stands for that address wherever one is asked for. DISCREET_LEDGER and DISCREET_DATABASE_HOSPITAL come
before the file. Passwords are best left to the driver's own places, such as ~/.pgpass.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.errors import InputError, listed, shown, shown_path

__all__ = ["DEFAULT_LEDGER", "address_of", "ledger_address"]

DEFAULT_LEDGER = "sqlite:///discreet-ledger.db"
FILE_BYTES = 2**16
"""Most bytes of the file."""


def ledger_address(*given: str | None) -> str:
    """Find the address of the ledger.

    Args:
        given: by the command line, then by a project file; the first that is not None is taken.

    Returns:
        It, or else the environment's, the file's, or a file in the folder where the command runs.

    Raises:
        InputError: it is the name of no database; or the file of settings cannot be read.
    """
    said = next((text for text in given if text is not None), None) or os.environ.get("DISCREET_LEDGER")
    return address_of(said or _read_settings().get("ledger", DEFAULT_LEDGER))


def address_of(text: str) -> str:
    """Look up the address that a name such as `@hospital` stands for; any other text is its own.

    Args:
        text: an address, or a name behind an @.

    Returns:
        The address.

    Raises:
        InputError: no database has this name; or the file of settings cannot be read.

    Example:
        >>> address_of("sqlite:///budget.db")
        'sqlite:///budget.db'
    """
    if not text.startswith("@"):
        return text
    name = text[1:]
    told = os.environ.get(f"DISCREET_DATABASE_{name.upper().replace('-', '_')}")
    databases = _read_settings().get("databases", {})
    if told is None and name not in databases:
        raise InputError(
            f"no database is called {shown(name)} in {shown_path(_find_file())}: name it under [databases] (there are: "
            f"{listed(databases) or 'none'})"
        )
    return told or str(databases[name])


def _find_file() -> Path:
    """Find where the settings are."""
    told = os.environ.get("DISCREET_CONFIG")
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(told) if told else Path(home) / "discreet" / "config.toml"


def _read_settings() -> Mapping[str, Any]:
    """Read what the file says; nothing where there is none."""
    path = _find_file()
    try:
        if not path.is_file():
            return {}
        with path.open("rb") as file:
            text = file.read(FILE_BYTES + 1)
        if len(text) > FILE_BYTES:
            raise ValueError
        found = tomllib.loads(text.decode())
    except (OSError, ValueError):
        raise InputError(
            f"{shown_path(path)} cannot be read as TOML; mend it, or name another file in DISCREET_CONFIG"
        ) from None
    databases = found.get("databases", {})
    texts = [found.get("ledger", ""), *(databases.values() if isinstance(databases, dict) else [None])]
    if set(found) - {"ledger", "databases"} or not all(isinstance(text, str) for text in texts):
        raise InputError(
            f"{shown_path(path)} has `ledger`, an address, and [databases], a name and an address in each line"
        )
    return found
