"""Commands of the server: run it, and make tokens."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.display.terminal import say
from discreet.errors import InputError
from discreet.server.server_limits import ServerLimits
from discreet.util.json_files import json_text
from discreet.util.lazy_imports import lazy_import

if TYPE_CHECKING:
    from discreet.server.application import Settings
    from discreet.server.catalog import ReleaseCatalog

application = lazy_import("discreet.server.application")
catalog = lazy_import("discreet.server.catalog")
tokens = lazy_import("discreet.server.tokens")

DEFAULTS = ServerLimits()
of_posterior, of_access, of_limits, of_output = (
    partial(typer.Option, rich_help_panel=heading) for heading in ("Posterior", "Access", "Limits", "Output")
)
"""Options under the headings of the help text."""

Json = Annotated[bool, of_output("--json", help="Print JSON.")]
Releases = Annotated[
    list[str], typer.Argument(metavar="RELEASE...", help="Releases, combined releases, or files of stored draws.")
]
StoredDraws = Annotated[
    list[str] | None, of_posterior("--draws", metavar="FILE", help="Stored draws of one of the releases; repeatable.")
]
Prepare = Annotated[bool, of_posterior("--prepare/--no-prepare", help="Compute the first answers before anybody asks.")]
Host = Annotated[
    str, of_access(metavar="ADDRESS", help="Address to listen on. Clients on other machines need a token.")
]
Port = Annotated[int, of_access(help="Port to listen on; 0 takes a free one.", min=0, max=65535)]
Tokens = Annotated[
    Path | None,
    of_access("--tokens", metavar="FILE", help="File of tokens that clients must have; see `discreet token`."),
]
Public = Annotated[bool, of_access("--public", help="Answer everybody, without tokens.")]
RootPath = Annotated[str, of_access(metavar="PATH", help="Prefix that a proxy adds to every path, such as /discreet.")]
Proxy = Annotated[bool, of_access("--proxy", help="Trust a proxy's X-Forwarded-For and X-Forwarded-Proto.")]
Workers = Annotated[int, of_limits(help="Answers to compute at once.", min=1, max=64)]
Queue = Annotated[int, of_limits(help="Most answers that wait for a worker.", min=0)]
Seconds = Annotated[float, of_limits(help="Most seconds that a request waits.", min=0.1)]
MostWork = Annotated[
    float,
    of_limits(
        help="Most work of a request: cells of inference times draws. Some 1e8 take a second.",
        min=1,
        show_default=f"{DEFAULTS.most_work:g}",
    ),
]
MostRecords = Annotated[int, of_limits(help="Most synthetic records of a request.", min=0)]
Rate = Annotated[float, of_limits(help="Most requests a second of one token or address.", min=0.01)]
Memory = Annotated[
    int, of_limits(help="MiB of posteriors to keep in memory. Others are read again when needed.", min=1)
]


def serve(
    releases: Releases,
    draws: StoredDraws = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token_file: Tokens = None,
    public: Public = False,
    root_path: RootPath = "",
    proxy: Proxy = False,
    workers: Workers = DEFAULTS.workers,
    queue: Queue = DEFAULTS.queue,
    seconds: Seconds = DEFAULTS.seconds,
    most_work: MostWork = DEFAULTS.most_work,
    most_records: MostRecords = DEFAULTS.most_records,
    rate: Rate = DEFAULTS.rate,
    memory: Memory = DEFAULTS.draws_bytes // 2**20,
    prepare: Prepare = True,
    as_json: Json = False,
) -> None:
    """Answer questions over HTTP and in a browser, from releases alone.

    The process cannot read a record, and answers spend no budget. Only this machine reaches the server, unless --host
    names another address.

    Example:
        discreet serve release.json
    """
    limits = ServerLimits(
        most_work=most_work,
        most_records=most_records,
        seconds=seconds,
        workers=workers,
        queue=queue,
        rate=rate,
        burst=max(1, round(4 * rate)),
        draws_bytes=memory * 2**20,
    )
    try:
        settings = application.Settings(host, port, token_file, public, _root(root_path), proxy, prepare, limits)
        settings.check()
        served = catalog.ReleaseCatalog(releases, draws or [])
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed: pip install '.[serve]' in a clone of discreet") from None
    _warn(served, settings)

    def ready(address: str) -> None:
        names = [version.name for version in served.newest()]
        document = json_text({"url": address, "releases": names})
        print(document if as_json else f"serving {', '.join(names)} at {address} (Ctrl-C ends it)", flush=True)  # noqa: T201

    application.serve(served, settings, version_of("discreet"), ready=ready)


def token(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File of tokens; made if it is missing.")],
    name: Annotated[str, of_access(metavar="NAME", help="Name of the person who gets the token.")],
    days: Annotated[int, of_access(help="Days until the token expires.")] = 90,
    revoke: Annotated[bool, of_access("--revoke", help="Remove the token of this name from the file.")] = False,
    as_json: Json = False,
) -> None:
    """Make a token for `discreet serve --tokens FILE`, or revoke one.

    A new token is shown once. The file has its digest.

    Example:
        discreet token tokens.json --name ada
    """
    if revoke:
        tokens.revoke_token(file, name)
        print(json_text({"revoked": name}) if as_json else f"revoked the token of {name}")  # noqa: T201
        return
    secret = tokens.add_token(file, name, days)
    print(json_text({"name": name, "token": secret}) if as_json else secret)  # noqa: T201


def _warn(served: ReleaseCatalog, settings: Settings) -> None:
    """Print warnings: simulations, and clients on other machines."""
    for version in served.newest():
        if not version.private:
            say(f"{version.name} is a simulation: it protects nobody")
    if settings.public:
        say(f"PUBLIC: everybody who reaches {settings.host} can ask")
    elif not (settings.loopback or settings.proxy):
        say(f"other machines can reach {settings.host}: they need a token, and a proxy with TLS to protect the token")


def _root(path: str) -> str:
    """Write a prefix with one slash at its start and none at its end."""
    return f"/{path.strip('/')}" if path.strip("/") else ""


COMMANDS = (("Serve releases", serve), ("Serve releases", token))
"""Commands that the pack adds to the command line, with their headings there."""
