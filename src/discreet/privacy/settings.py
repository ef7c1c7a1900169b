"""Settings of a user: address of the ledger, and names of databases, from the environment and one file.

    # ~/.config/discreet/config.toml, or the file that DISCREET_CONFIG names
    ledger = "postgresql://ledger.example/budgets"
    [databases]
    hospital = "postgresql://reader@db.example/hospital"

`@hospital` then means that address in all options. DISCREET_LEDGER and DISCREET_DATABASE_HOSPITAL override the file.
Keep passwords in the driver's own files, such as ~/.pgpass.

The default ledger is one file of the user (`DEFAULT_LEDGER`). Neither it nor the ledger of the environment or the
settings depends on the working folder: otherwise each folder would have a limit of its own.
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
"""Default address of the ledger, for help texts."""
FILE_BYTES = 2**16
"""Most bytes of the file."""


def ledger_address(*addresses: str | None) -> str:
    """Find the address of the ledger.

    Args:
        addresses: of the command line, then of a project file; the first that is not None is used.

    Returns:
        The address given, or the environment's, the file's, or `DEFAULT_LEDGER`, whose folder only its owner can access
        (0700).

    Raises:
        InputError: an unknown name of a database; a path of the environment or the file that depends on the working
            folder; a file that cannot be read; or a folder of `DEFAULT_LEDGER` that cannot be made.
    """
    named = next((text for text in addresses if text is not None), None)
    if named is not None:
        return address_of(named)
    setting = os.environ.get("DISCREET_LEDGER") or _read_settings().get("ledger")
    if setting is None:
        return f"sqlite:///{_make_state_folder() / 'ledger.db'}"
    address = address_of(setting)
    if re.match(r"sqlite[^:]*:///(?!/|:memory:)", address):
        raise InputError(
            f"ledger {shown(address)} would be another one in every folder: write an absolute path, "
            "sqlite:////home/ada/budget.db, in DISCREET_LEDGER or the settings"
        )
    return address


def address_of(text: str) -> str:
    """Look up the address of a name such as `@hospital`; other texts are addresses.

    Args:
        text: an address, or a name after an @.

    Returns:
        The address.

    Raises:
        InputError: an unknown name, or a file of settings that cannot be read.

    Example:
        >>> address_of("sqlite:///budget.db")
        'sqlite:///budget.db'
    """
    if not text.startswith("@"):
        return text
    name = text[1:]
    variable = os.environ.get(f"DISCREET_DATABASE_{name.upper().replace('-', '_')}")
    databases = _read_settings().get("databases", {})
    if variable is None and name not in databases:
        raise InputError(
            f"no database is called {shown(name)} in {shown_path(_find_file())}: add it to [databases] (it has: "
            f"{listed(databases) or 'none'})"
        )
    return variable or str(databases[name])


def _make_state_folder() -> Path:
    """Make the folder of this user's state by the XDG rules, which ignore a relative path."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        if not state.is_absolute():
            state = Path.home() / ".local" / "state"
        if not state.is_absolute():
            raise RuntimeError  # a relative HOME
        folder = state / "discreet"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    except (OSError, RuntimeError, ValueError):
        pass
    raise InputError(
        "there is no writable home folder for the default ledger; set DISCREET_LEDGER to another one, "
        "such as sqlite:////data/budget.db"
    )


def _find_file() -> Path:
    """Find the path of the settings."""
    variable = os.environ.get("DISCREET_CONFIG")
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(variable) if variable else Path(home) / "discreet" / "config.toml"


def _read_settings() -> Mapping[str, Any]:
    """Read the settings; empty without a file."""
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
            f"{shown_path(path)} cannot be read as TOML; correct it, or set DISCREET_CONFIG to another file"
        ) from None
    databases = settings.get("databases", {})
    texts = [settings.get("ledger", ""), *(databases.values() if isinstance(databases, dict) else [None])]
    if set(settings) - {"ledger", "databases"} or not all(isinstance(text, str) for text in texts):
        raise InputError(
            f"{shown_path(path)} may have `ledger`, an address, and [databases], a name and an address in each line"
        )
    return settings
