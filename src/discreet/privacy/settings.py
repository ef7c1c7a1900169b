"""Settings of a user: where the ledger is, and names for databases, from the environment and one file.

    # ~/.config/discreet/config.toml, or the file that DISCREET_CONFIG names
    ledger = "postgresql://ledger.example/budgets"
    [databases]
    hospital = "postgresql://reader@db.example/hospital"

`@hospital` then stands for that address wherever one is asked for. DISCREET_LEDGER and DISCREET_DATABASE_HOSPITAL come
before the file. Passwords are best left to the driver's own places, such as ~/.pgpass.

The ledger that nothing names is one file of the user (`DEFAULT_LEDGER`). Neither it nor the one that the environment or
the settings name depends on the folder in which a program runs: a limit in it would be as many as there are folders.
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
"""Where the ledger is that nothing names, for a reader."""
FILE_BYTES = 2**16
"""Most bytes of the file."""


def ledger_address(*given: str | None) -> str:
    """Find the address of the ledger.

    Args:
        given: by the command line, then by a project file; the first that is not None is taken.

    Returns:
        It, or else the environment's, the file's, or `DEFAULT_LEDGER`, whose folder is made for its owner alone (0700).

    Raises:
        InputError: it is the name of no database; the environment or the file names a path that depends on the folder;
            the file cannot be read; or the folder of `DEFAULT_LEDGER` cannot be made.
    """
    named = next((text for text in given if text is not None), None)
    if named is not None:
        return address_of(named)
    said = os.environ.get("DISCREET_LEDGER") or _read_settings().get("ledger")
    if said is None:
        return f"sqlite:///{_make_state_folder() / 'ledger.db'}"
    address = address_of(said)
    if re.match(r"sqlite[^:]*:///(?!/|:memory:)", address):
        raise InputError(
            f"ledger {shown(address)} would be another one in every folder: write the whole path, "
            "sqlite:////home/ada/budget.db, in DISCREET_LEDGER or the settings"
        )
    return address


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


def _make_state_folder() -> Path:
    """Make the folder of this user's state, as the XDG rules have it, by which a relative path counts as none."""
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
