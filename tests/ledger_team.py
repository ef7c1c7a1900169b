"""A team that charges one account on a server, while its members are killed and the server stops and crashes.

Run as a program, because it forks, which the process of the tests must not: it holds threads of numerical libraries.

    python ledger_team.py '{"processes": 10, "charges": 500, "kills": 30, "fast": 0, "immediate": 1, "seed": 1}' FOLDER

Each member is a spender with a role of its own. What was paid for is appended to FOLDER/outputs once `charge` returned,
what was refused with the promise that nothing was charged to FOLDER/refused, failures to FOLDER/errors. The account has
room for so many charges and no more; the storm ends when a member is told that it is full. Kills and restarts come at
random moments, spread over the charges, and so do the three isolation levels that the database has by default. What was
found in the end goes to stdout.
"""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import secrets
import select
import signal
import sys
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

import discreet as dc
import postgres
from discreet.privacy.ledger_grants import Grant, grant_sql

LEVELS = ("read committed", "repeatable read", "serializable")
BASE, ACCOUNT, UNIT = "team", "a", 10
SLOW_S = 600
"""A team that has paid nothing for so long is stuck."""


@dataclass(frozen=True)
class Plan:
    """A storm.

    Args:
        processes: members at any time.
        charges: that the account has room for.
        kills: members that are killed, others take their places.
        fast, immediate: restarts of the server.
        seed: of the moments.
    """

    processes: int
    charges: int
    kills: int = 0
    fast: int = 0
    immediate: int = 0
    seed: int = 1


@dataclass
class Team:
    """Those who charge now: process ids by role; and where they say that they paid."""

    url: str
    folder: Path
    told: int = 0
    live: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A pipe for all of them."""
        self.ear, self.mouth = os.pipe()

    def join(self, number: int) -> None:
        """Fork a member, with everything loaded."""
        pid = os.fork()
        if pid == 0:
            os.close(self.ear)
            gc.disable()
            work(self.url.replace("curator@", f"{BASE}{number}@"), self.folder, self.mouth)
        self.live[pid] = number

    def listen(self, wait_s: float) -> bytes:
        """What members said: "p" for each charge that was paid."""
        found = os.read(self.ear, 65536) if select.select([self.ear], [], [], wait_s)[0] else b""
        self.told += found.count(b"p")
        return found

    def lose(self, pid: int) -> int:
        """Kill a member; the number of its role."""
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return self.live.pop(pid)


def spend(epsilon: object) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")


def work(url: str, folder: Path, mouth: int) -> None:
    """Charge until the account is full or a signal comes."""
    files = {name: os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in ("outputs", "refused")}
    price, account = spend(f"1/{UNIT}"), None
    try:
        while True:
            release = secrets.token_hex(8)
            try:
                account = account or dc.Ledger(url).account(ACCOUNT)
                account.charge(release, "laplace", price)
                os.write(files["outputs"], f"{release}\n".encode())
                os.write(mouth, b"p")
            except dc.BudgetError:
                os.write(files["refused"], f"{release}\n".encode())
                os.write(mouth, b"f")
                os._exit(0)
            except dc.InputError as error:  # nothing was charged: the server was gone for too long
                os.write(files["refused"], f"{release}\n".encode())
                os.write(mouth, b"i")
                if "nothing was charged" not in str(error) or "\n" in str(error):
                    raise
                time.sleep(0.05)
            except dc.DiscreetError as error:
                os.write(mouth, b"u")
                if "outcome of the charge is unknown" not in str(error):
                    raise
    except BaseException:
        with (folder / "errors").open("a") as errors:
            errors.write(traceback.format_exc())
        os._exit(4)


def moments(plan: Plan) -> list[tuple[int, str]]:
    """What happens once so many charges were told, in order."""
    chance = random.Random(plan.seed)
    happenings = {"kill": plan.kills, "fast": plan.fast, "immediate": plan.immediate}
    found = [(chance.randrange(plan.charges), what) for what, times in happenings.items() for _ in range(times)]
    found += [(plan.charges * place // len(LEVELS), level) for place, level in enumerate(LEVELS)]
    return sorted(found)


def storm(plan: Plan, server: postgres.Server, folder: Path) -> dict[str, object]:
    """Charge until the account is full; what the members said, in numbers."""
    team, agenda, chance = Team(prepare(plan, server), folder), moments(plan), random.Random(plan.seed)
    said: Counter[str] = Counter()
    begun = heard = time.monotonic()
    thousand = 0.0
    for number in range(plan.processes):
        team.join(number)
    while team.live:
        words = team.listen(1)
        said.update(words.decode())
        heard = time.monotonic() if words else heard
        assert time.monotonic() - heard < SLOW_S, "the team is stuck"
        if team.told >= 1000 and not thousand:
            thousand = time.monotonic() - begun
        while agenda and (agenda[0][0] <= team.told or said["f"]):
            _, what = agenda.pop(0)
            if what == "kill":
                time.sleep(chance.uniform(0, 0.02))  # anywhere within a charge
                pid = chance.choice(list(team.live))
                team.join(team.lose(pid))
            elif what in postgres.STOPS:
                server.restart(what)
            else:
                server.run(f"ALTER DATABASE {BASE} SET default_transaction_isolation = '{what}'")
            said[what] += 1
        for pid in [pid for pid in team.live if os.waitpid(pid, os.WNOHANG) != (0, 0)]:
            del team.live[pid]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        **said,
        "seconds": time.monotonic() - begun,
        "seconds for 1000": thousand,
        "seconds of members": used.ru_utime + used.ru_stime,
    }


def prepare(plan: Plan, server: postgres.Server) -> str:
    """A ledger with one account, and a role for each member that may charge it and no more."""
    url = server.make_base(BASE)
    roles = [f"{BASE}{number}" for number in range(plan.processes)]
    server.run("; ".join(f"CREATE ROLE {role} LOGIN" for role in [*roles, "opener"]))
    grants = [Grant("opener", "opener"), *(Grant("spender", role, ACCOUNT) for role in roles)]
    server.run(";\n".join(grant_sql(grants)), BASE)
    dc.Ledger(url.replace("curator@", "opener@")).open(ACCOUNT, spend(f"{plan.charges}/{UNIT}"))
    dc.Ledger(url).account(ACCOUNT).balance()  # all is loaded before anybody is forked
    return url


def judge(server: postgres.Server, folder: Path) -> dict[str, object]:
    """What the storm left: `unpaid` outputs and `charged` refusals are to be none."""
    account = dc.Ledger(server.url(BASE)).account(ACCOUNT)
    last, charges = account.verify(), account.charges()
    names = {charge.release for charge in account.charges()}
    written = {name: (folder / name).read_text().split() if (folder / name).exists() else []
               for name in ("outputs", "refused", "errors")}  # fmt: skip
    return {
        "charges": len(charges), "sequence": last.sequence, "spent": last.epsilon_spent,
        "left": str(account.balance().epsilon_left), "outputs": len(written["outputs"]),
        "gaps": [entry["sequence"] for entry in account.export()["entries"]] != list(range(len(charges) + 1)),
        "unpaid": len(set(written["outputs"]) - names), "charged": len(set(written["refused"]) & names),
        "twice": len(charges) - len(names) + len(written["outputs"]) - len(set(written["outputs"])),
        "people": len({charge.user for charge in charges}), "errors": " ".join(written["errors"]),
    }  # fmt: skip


def main(plan: Plan, folder: Path) -> None:
    """Storm on a server of the program's own."""
    with postgres.serving() as server:
        found = storm(plan, server, folder)
        print(json.dumps({**asdict(plan), "told": found, **judge(server, folder)}))


if __name__ == "__main__":
    main(Plan(**json.loads(sys.argv[1])), Path(sys.argv[2]))
