"""Settings of a user: the ledger's address, and names of databases, from the environment and one file.

    # ~/.config/discreet/config.toml, or the file that DISCREET_CONFIG names
    ledger = "postgresql://ledger.example/budgets"
    [databases]
    hospital = "postgresql://reader@db.example/hospital"

`@hospital` then stands for that address wherever an address is accepted. DISCREET_LEDGER and
DISCREET_DATABASE_HOSPITAL take precedence over the file. Keep passwords in the driver's own files, such as ~/.pgpass.

The default ledger is one file of the user (`DEFAULT_LEDGER`). Neither it nor the one in the environment or the settings
may depend on the folder in which a program runs: its limit would apply in each folder anew.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.errors import InputError, listed, shown, shown_path

DEFAULT_LEDGER = "~/.local/state/discreet/ledger.db, or discreet/ledger.db under XDG_STATE_HOME"
"""Path of the default ledger, as text for a reader."""
FILE_BYTES = 2**16
"""Most bytes of the file."""


def ledger_address(*given: str | None) -> str:
    """Find the address of the ledger.

    Args:
        given: from the command line, then from a project file; the first that is not None is used.

    Returns:
        That address, or else the environment's, the file's, or `DEFAULT_LEDGER`, whose folder is made for its owner
        alone (0700).

    Raises:
        InputError: no database has this name; the environment or the file names a path that depends on the folder; the
            file cannot be read; or the folder of `DEFAULT_LEDGER` cannot be made.
    """
    named = next((text for text in given if text is not None), None)
    if named is not None:
        return address_of(named)
    configured = os.environ.get("DISCREET_LEDGER") or _read_settings().get("ledger")
    if configured is None:
        return f"sqlite:///{_make_state_folder() / 'ledger.db'}"
    address = address_of(configured)
    if re.match(r"sqlite[^:]*:///(?!/|:memory:)", address):
        raise InputError(
            f"ledger {shown(address)} would be another one in every folder: write the whole path, "
            "sqlite:////home/ada/budget.db, in DISCREET_LEDGER or the settings"
        )
    return address


def address_of(text: str) -> str:
    """Look up the address of a name such as `@hospital`; return any other text unchanged.

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
    address = os.environ.get(f"DISCREET_DATABASE_{name.upper().replace('-', '_')}")
    databases = _read_settings().get("databases", {})
    if address is None and name not in databases:
        raise InputError(
            f"no database is called {shown(name)} in {shown_path(_find_file())}: name it under [databases] (there are: "
            f"{listed(databases) or 'none'})"
        )
    return address or str(databases[name])


def _make_state_folder() -> Path:
    """Make the folder of this user's state by the XDG rules, which ignore a relative path."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        if not state.is_absolute():
            state = Path.home() / ".local" / "state"
        if not state.is_absolute():
            raise RuntimeError  # a HOME that depends on the folder
        folder = state / "discreet"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    except (OSError, RuntimeError, ValueError):
        pass
    raise InputError(
        "the ledger has no place: there is no home folder in which discreet could write; name a ledger in "
        "DISCREET_LEDGER, such as sqlite:////data/budget.db"
    )


def _find_file() -> Path:
    """Find the file of settings."""
    configured = os.environ.get("DISCREET_CONFIG")
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(configured) if configured else Path(home) / "discreet" / "config.toml"


def _read_settings() -> Mapping[str, Any]:
    """Read the file of settings; a missing file is empty."""
    path = _find_file()
    try:
        if not path.is_file():
            return {}
        with path.open("rb") as file:
            text = file.read(FILE_BYTES + 1)
        if len(text) > FILE_BYTES:
            raise ValueError
        settings = tomllib.loads(text.decode())
    except (OSError, ValueError):
        raise InputError(
            f"{shown_path(path)} cannot be read as TOML; mend it, or name another file in DISCREET_CONFIG"
        ) from None
    databases = settings.get("databases", {})
    texts = [settings.get("ledger", ""), *(databases.values() if isinstance(databases, dict) else [None])]
    if set(settings) - {"ledger", "databases"} or not all(isinstance(text, str) for text in texts):
        raise InputError(
            f"{shown_path(path)} has `ledger`, an address, and [databases], a name and an address in each line"
        )
    return settings
