"""Commands of the server: it answers from releases alone, and who may ask it."""

from __future__ import annotations

from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.display.terminal import say
from discreet.errors import InputError
from discreet.server.server_limits import ServerLimits
from discreet.util.json_files import json_text
from discreet.util.lazy_imports import import_late

if TYPE_CHECKING:
    from discreet.server.application import Settings
    from discreet.server.shelf import Shelf

application = import_late("discreet.server.application")
shelf = import_late("discreet.server.shelf")
tokens = import_late("discreet.server.tokens")

DEFAULTS = ServerLimits()
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


Releases = Annotated[
    list[str], typer.Argument(metavar="RELEASE...", help="Releases, combined ones, or files of stored draws.")
]
StoredDraws = Annotated[
    list[str] | None, typer.Option("--draws", help="Stored draws of one of the releases; repeatable.")
]
Host = Annotated[str, typer.Option(help="Address to listen on; others than this machine need a token.")]
Port = Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)]
Tokens = Annotated[Path | None, typer.Option("--tokens", help="File of those who may ask; see `discreet token`.")]
Public = Annotated[bool, typer.Option("--public", help="Let everybody ask who reaches the server.")]
RootPath = Annotated[str, typer.Option(help="What a proxy adds before every path, such as /discreet.")]
Proxy = Annotated[bool, typer.Option("--proxy", help="Believe a proxy's X-Forwarded-For and X-Forwarded-Proto.")]
Workers = Annotated[int, typer.Option(help="Answers that are computed at once.", min=1, max=64)]
Queue = Annotated[int, typer.Option(help="Answers that wait at most.", min=0)]
Seconds = Annotated[float, typer.Option(help="That a request waits at most.", min=0.1)]
MostWork = Annotated[
    float, typer.Option(help="Cells of inference times draws of one request; some 1e8 take a second.", min=1)
]
MostRecords = Annotated[int, typer.Option(help="Synthetic records of one request.", min=0)]
Rate = Annotated[float, typer.Option(help="Requests a second of one token or address.", min=0.01)]
Memory = Annotated[int, typer.Option(help="MiB of posteriors that are held at once; others are read again.", min=1)]
Prepare = Annotated[bool, typer.Option("--prepare/--no-prepare", help="Compute the first answers while nobody waits.")]


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
    """Answer over HTTP and in a browser, from releases alone: this process cannot read a record.

    Whatever is asked costs no privacy. Only this machine reaches the server unless --host says otherwise.
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
        served = shelf.Shelf(releases, draws or [])
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed: pip install '.[serve]' in a clone of discreet") from None
    _warn(served, settings)

    def ready(address: str) -> None:
        names = [version.name for version in served.newest()]
        told = json_text({"url": address, "releases": names})
        print(told if as_json else f"serving {', '.join(names)} at {address} (Ctrl-C ends it)", flush=True)  # noqa: T201

    application.serve(served, settings, version_of("discreet"), ready=ready)


def token(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File of tokens, which is made if there is none.")],
    name: Annotated[str, typer.Option(help="Of whoever will have the token.")],
    days: Annotated[int, typer.Option(help="That it is good for.")] = 90,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take the token of this name out of the file.")] = False,
    as_json: Json = False,
) -> None:
    """Make a token for `discreet serve --tokens FILE`, or revoke one. It is shown once; the file has its digest."""
    if revoke:
        tokens.revoke_token(file, name)
        print(json_text({"revoked": name}) if as_json else f"revoked the token of {name}")  # noqa: T201
        return
    made = tokens.add_token(file, name, days)
    print(json_text({"name": name, "token": made}) if as_json else made)  # noqa: T201


def _warn(served: Shelf, settings: Settings) -> None:
    """Say what nobody should overlook: simulations, and who can ask."""
    for version in served.newest():
        if not version.private:
            say(f"{version.name} is a simulation: it protects nobody")
    if settings.public:
        say(f"PUBLIC: everybody who reaches {settings.host} can ask")
    elif not (settings.loopback or settings.proxy):
        say(
            f"others can reach {settings.host}: they need a token, and a proxy with TLS so that nobody reads it on its "
            "way"
        )


def _root(path: str) -> str:
    """A path before all others, with one slash at its start and none at its end."""
    return f"/{path.strip('/')}" if path.strip("/") else ""


COMMANDS = (serve, token)
"""What the pack brings to the command line."""
