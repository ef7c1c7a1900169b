"""A ledger's file that is damaged: no charge goes on unnoticed.

After each damage, whatever bytes it hits, a charge is refused in one line; or it is made, the balance is the true one,
and `verify` passes with all entries as they were, or names what is wrong.
"""

from __future__ import annotations

import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import discreet as dc

LIMIT, EACH, PAGE = "3", "1/7", 4096
CHARGES = {"a": 20, "b": 15}
PURPOSE = "study"


def spend(epsilon: object) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with two accounts, and a limit for a purpose in one of them, which is nearly spent."""
    path = tmp_path_factory.mktemp("whole") / "budget.db"
    ledger = dc.Ledger(f"sqlite:///{path}")
    for name, number in CHARGES.items():
        ledger.open(name, spend(LIMIT))
        for turn in range(number):
            ledger.account(name, purpose=PURPOSE if turn < 3 else "").charge(f"{name}{turn}", "laplace", spend(EACH))
    ledger.account("a").lower(spend("4/7"), purpose=PURPOSE)
    return path


def damaged(whole: bytes, rng: random.Random) -> bytes:
    """The bytes of a file, somewhere not as they were."""
    data = bytearray(whole)
    place, kind = rng.randrange(len(data)), rng.randrange(6)
    if kind == 0:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        for _ in range(20):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 2:
        length = rng.choice((16, 64, 512))
        data[place : place + length] = bytes(len(data[place : place + length]))
    elif kind == 3:
        del data[place:]
    elif kind == 4:
        one, other = (PAGE * rng.randrange(1, len(data) // PAGE) for _ in range(2))
        data[one : one + PAGE], data[other : other + PAGE] = data[other : other + PAGE], data[one : one + PAGE]
    else:  # a page of which the cells are fewer than they were
        start = PAGE * rng.randrange(1, len(data) // PAGE)
        cells = int.from_bytes(data[start + 3 : start + 5], "big")
        data[start + 3 : start + 5] = rng.randrange(max(cells, 1)).to_bytes(2, "big")
    return bytes(data)


def refused(error: dc.DiscreetError) -> bool:
    """A refusal in one line."""
    return "\n" not in str(error) and len(str(error)) < 700


def outcome(path: Path, purpose: str, price: str) -> str:
    """What became of a charge to account "a" and of verifying: "refused", "noticed" or "sound"."""
    spent = Fraction(CHARGES["a"]) * Fraction(EACH)
    try:
        account = dc.Ledger(f"sqlite:///{path}").account("a", purpose=purpose)
        balance = account.charge("new", "laplace", spend(price))
    except dc.DiscreetError as error:
        assert refused(error)
        return "refused"
    assert balance.epsilon_spent == spent + Fraction(price)
    try:
        last = account.verify()
    except dc.DiscreetError as error:
        assert refused(error)
        return "noticed"
    assert [charge.release for charge in account.charges()] == [*(f"a{turn}" for turn in range(CHARGES["a"])), "new"]
    assert last.epsilon_spent == str(balance.epsilon_spent)
    return "sound"


def shower(whole: Path, folder: Path, number: int) -> dict[str, int]:
    """How many of so many damages came to what; a charge that does not fit is never made."""
    data, found = whole.read_bytes(), {"refused": 0, "noticed": 0, "sound": 0}
    for seed in range(number):
        hit = damaged(data, random.Random(seed))
        for purpose, price in (("", EACH), (PURPOSE, "2/7"), ("", "1")):
            path = folder / f"{seed}-{purpose}-{price.replace('/', '_')}.db"
            path.write_bytes(hit)
            came = outcome(path, purpose, price)
            path.unlink()
            if price == EACH:
                found[came] += 1
            else:  # beyond the limit of the purpose, and of the account
                assert came == "refused", (seed, purpose, price)
    return found


@pytest.mark.costly("Damage that lets a charge be forgotten is searched for at random.", always=True)
def test_no_damage_of_300_lets_a_charge_go_on_unnoticed(whole: Path, tmp_path: Path) -> None:
    found = shower(whole, tmp_path, 300)
    assert sum(found.values()) == 300 and found["refused"] >= 100 and found["noticed"] >= 3 and found["sound"] >= 50


def test_what_is_whole_is_charged(whole: Path, tmp_path: Path) -> None:
    """Without damage the same charges come to what they should."""
    for purpose, price, came in (("", EACH, "sound"), (PURPOSE, EACH, "sound"), (PURPOSE, "2/7", "refused")):
        path = tmp_path / "copy.db"
        path.write_bytes(whole.read_bytes())
        assert outcome(path, purpose, price) == came


FULL = """
import resource, signal, sys
from pathlib import Path
import discreet as dc

url, path = sys.argv[1], Path(sys.argv[2])
each = dc.Guarantee(epsilon="1/700", delta=0, relation="add-remove", unit="record")
account = dc.Ledger(url).account("b")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, -1))
made = 0
try:
    for turn in range(200):
        account.charge(f"full{turn}", "laplace", each)
        made += 1
except dc.InputError as error:
    print(made, error)
"""


def test_a_full_disk_charges_nothing(whole: Path, tmp_path: Path) -> None:
    """Of the charges those that were reported are there, and no other; with room again it goes on."""
    path = tmp_path / "full.db"
    path.write_bytes(whole.read_bytes())
    command = [sys.executable, "-W", "error", "-c", FULL, f"sqlite:///{path}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    made, _, told = done.stdout.strip().partition(" ")
    assert int(made) < 200 and told.endswith("; nothing was charged") and "\n" not in told
    account = dc.Ledger(f"sqlite:///{path}").account("b")
    assert len(account.charges()) == CHARGES["b"] + int(made)
    assert account.charge("after", "laplace", spend("1/700")).epsilon_spent == Fraction(15, 7) + Fraction(
        int(made) + 1, 700
    )
    assert account.verify().release == "after"
