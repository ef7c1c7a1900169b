"""Hostile inputs, and a place to read them: generators with seeds, and a child process with limits on time and memory.

`read_all` forks this process, so that what it imported is warm and nothing is pickled; the child may take no more
address space than it is given, is killed where one input takes too long, and tells what came of every input. A reader
returns, or raises a `DiscreetError` whose text is one short line; anything else is a fault.

Generators are functions of a `random.Random`: texts that keep the grammar of a format and use its rare corners, and
damage to such texts (`damaged_text`) or to their trees (`damaged_tree`).
"""

from __future__ import annotations

import copy
import ctypes
import gc
import json
import mmap
import os
import random
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import discreet as dc

MIB = 2**20
CPU_S = 1.0
"""Most CPU seconds that one input may take."""
MEMORY = 512 * MIB
"""Most bytes that reading may add to the process, in address space."""
GRACE_S = 4
"""CPU seconds beyond the limit after which the child is killed: the limit itself is measured, not enforced."""
WAIT_S = 120
"""Seconds after which a reader that waits for something is killed: it would wait for ever."""
M_ARENA_MAX = -8
"""glibc's number for the setting of the most arenas of its allocator."""
MESSAGE = 500
"""Most characters of a refusal."""
PACE_S = 0.14
"""CPU seconds of `_pace`'s work on the machine on which the limit is a second: a slower one is given as much more."""
READINGS = 3
"""Most readings of one input, of which the fastest counts: what else the machine does is no fault of a reader."""
NOTE = 2**16
"""Bytes in which the child notes what it reads, for the parent to tell if it is killed."""


@dataclass
class Report:
    """What came of some inputs.

    Args:
        accepted: inputs that were read.
        refused: inputs that were refused as they should be.
        slowest_s: CPU seconds of the slowest input, which is `slowest`.
        peak: bytes of memory beyond those at the start, over all inputs.
        faults: what should not be, with the input's beginning.
        messages: of the refusals, the first few hundred.
    """

    accepted: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    slowest: str = ""
    peak: int = 0
    faults: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = f"{self.accepted} accepted, {self.refused} refused, slowest {self.slowest_s:.3f} CPU s"
        return "\n".join([f"{head}, peak {self.peak / MIB:.0f} MiB", *self.faults[:20]])


def read_all(
    read: Callable[[Any], object], inputs: Iterable[Any], *, cpu_s: float = CPU_S, memory: int = MEMORY
) -> Report:
    """Read inputs one by one in a forked child.

    Args:
        read: raises a `DiscreetError` for what it refuses.
        inputs: made in the child, so a generator costs the parent nothing.
        cpu_s: most CPU seconds for one input.
        memory: most bytes of address space that the child may add.

    Returns:
        What came of them; a killed child is a fault of the input that it was at.
    """
    note = mmap.mmap(-1, NOTE)
    out, into = os.pipe()
    with warnings.catch_warnings():
        # Other threads hold nothing that a reader needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(out)
            found = _read_all_here(read, inputs, note, cpu_s, memory)
            with os.fdopen(into, "w") as pipe:
                json.dump(asdict(found), pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(into)
    with os.fdopen(out) as pipe:
        raw = pipe.read()
    _, status = os.waitpid(child, 0)
    if status == 0:
        return Report(**json.loads(raw))
    killed = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
    text = note[:].split(b"\0")[0].decode("utf-8", "replace")
    return Report(faults=[f"killed by {killed} ({cpu_s} CPU s allowed) at input {text[:400]}"])


def _read_all_here(
    read: Callable[[Any], object], inputs: Iterable[Any], note: mmap.mmap, cpu_s: float, memory: int
) -> Report:
    """What the child does."""
    report = Report()
    # A new thread's arena reserves 64 MiB of addresses, which count against the limit although nothing is in them: with
    # several threads of Arrow, C++ code died where no memory was used.
    ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    size, resident = (int(pages) * mmap.PAGESIZE for pages in Path("/proc/self/statm").read_text().split()[:2])
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))
    for kind in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(kind, signal.SIG_DFL)  # ends the process
    gc.freeze()  # what the parent made is not looked through, and so not copied, while an input is read
    for number, given in enumerate(inputs):
        shown = f"{number}: {given!r:.300}".encode("utf-8", "backslashreplace")[: NOTE - 1]
        note[: len(shown) + 1] = shown + b"\0"
        fault, spent = _timed(read, given, report, cpu_s)
        for _ in range(READINGS - 1):
            if spent > cpu_s:
                spent = min(spent, _timed(read, given, Report(), cpu_s)[1])
        if spent > report.slowest_s:
            report.slowest_s, report.slowest = spent, shown.decode("utf-8", "replace")
        if spent > cpu_s and spent > cpu_s * _pace():
            fault = f"{spent:.2f} CPU s"
        if fault:
            report.faults.append(f"{fault} at input {shown.decode('utf-8', 'replace')}")
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.alarm(0)
    report.peak = max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - resident)
    return report


def _pace() -> float:
    """How many times slower this machine is, at this moment, than one on which limits are what they say; at least 1."""
    start = time.process_time()
    for text in [json.dumps(list(range(20_000)))] * 20:
        len(json.loads(text)) + len(text.split(", ")) + sum(map(len, text))
    return max(1.0, (time.process_time() - start) / PACE_S)


def _timed(read: Callable[[Any], object], given: Any, report: Report, cpu_s: float) -> tuple[str, float]:
    """Read one input; what was wrong with that, and the CPU seconds it took."""
    start = time.process_time()
    # A timer of its own for each reading: limits on all CPU time drift from what the process measures.
    signal.setitimer(signal.ITIMER_PROF, cpu_s + GRACE_S)
    signal.alarm(WAIT_S)
    fault = _fault(read, given, report)
    return fault, time.process_time() - start


def _fault(read: Callable[[Any], object], given: Any, report: Report) -> str:
    """Read one input; what is wrong with the way in which it was read or refused, or nothing."""
    try:
        read(given)
    except dc.DiscreetError as error:
        report.refused += 1
        if len(report.messages) < 300:
            report.messages.append(str(error))
        return fault_of_message(str(error))
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"untyped {type(error).__name__} ({str(error)[:120]!r}, {Path(place.filename).name}:{place.lineno})"
    report.accepted += 1
    return ""


def fault_of_message(message: str) -> str:
    """What is wrong with the text of a refusal, or nothing."""
    if not message:
        return "an empty message"
    if len(message) > MESSAGE:
        return f"a message of {len(message)} characters"
    if not message.isprintable():
        return f"a message that is not one plain line: {message[:200]!r}"
    return ""


# ---------------------------------------------------------------------------------------------------------------- words

ODD_WORDS = (
    "", " ", "\t", "\n", "\r\n", "\x00", "\x1b[31m", "\u202e", "\u2028", "\ud800", "\udcff", "\ufeff", "é", "雪",
    "a" * 90, "'", '"', "\\", "\\u0000", "0", "-1", "1e400", "1e-400", "nan", "-inf", "0x10", "1_0", "٣", "9" * 400,
    "1" * 5000,
    "18446744073709551616", "2147483648", "-0", "0.1", "1/3", "1/0", "null", "true", "{", "}", "[", "]", "(", ")", ",",
    ";", ":", "|", "=", "<5", ">=7.5", "//", "/*", "*/", "#", "%s", "{0}", "../../x", "DROP TABLE x", "=1+1",
)  # fmt: skip
"""What no format expects: marks of all formats, numbers at the ends of every type, controls, halves of characters."""


def odd_word(rng: random.Random) -> str:
    """One of the odd words, or several run together."""
    return "".join(rng.choice(ODD_WORDS) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def name(rng: random.Random) -> str:
    """A name of a variable or state: mostly plain, sometimes with blanks and marks."""
    if rng.random() < 0.7:
        return rng.choice("abcdexyz") + rng.choice(("", "0", "1", "_2", "-3"))
    return rng.choice(("<5", "5-12", ">=7.5", "a b", "a, b", "x=1", "p|q", "(y)", "{z}", "1", "?", "é", "Asy/Patch"))


def names(rng: random.Random, least: int, most: int) -> list[str]:
    """Names of which, almost always, no two are equal."""
    found = [name(rng) for _ in range(rng.randint(least, most))]
    return found if rng.random() < 0.03 else list(dict.fromkeys(found))


# --------------------------------------------------------------------------------------------------------------- damage


def damaged_text(rng: random.Random, text: str, marks: Iterable[str] = ()) -> str:
    """A text with a few pieces cut, doubled, moved, or replaced by odd words or marks of its own format."""
    own = tuple(marks)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.choice((0, 0, 1, 2, 5, 20, 100)))
        kind = rng.randrange(5)
        if kind == 0:
            piece = ""
        elif kind == 1 and own:
            piece = rng.choice(own)
        elif kind == 2:
            piece = text[at:end] * rng.choice((2, 3, 30))
        elif kind == 3:
            start = rng.randrange(len(text) + 1)
            piece = text[start : start + rng.choice((1, 5, 40))]
        else:
            piece = odd_word(rng)
        text = text[:at] + piece + text[end:]
    return text


def odd_value(rng: random.Random) -> Any:
    """A JSON value of any type."""
    fixed: tuple[Any, ...] = (
        None, True, False, 0, 1, -1, 2, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e-320, 5e-324,
        1e308, 1.0, "", "1", "0", "0.1", "1/3", "1/0", "1e9", [], {}, [[]], [{}], {"": None}, {"kind": "choice"}, [0],
        [0, 0], [1] * 40, ["a"], ["a", "b"], ["b", "a"], ["a", "a"], "add-remove", "replace", "discrete_laplace",
        "noisy_tables", "a", "b",
    )  # fmt: skip
    return copy.deepcopy(rng.choice(fixed)) if rng.random() < 0.8 else odd_word(rng)


def damaged_tree(rng: random.Random, tree: Any, others: Iterable[Any] = ()) -> Any:
    """A JSON tree with a few nodes deleted, doubled, renamed, replaced, or taken from another tree."""
    tree, donors = copy.deepcopy(tree), list(others)
    for _ in range(rng.choice((1, 1, 2, 4))):
        above = _container(rng, tree)
        if above is None:
            return odd_value(rng)
        keys = list(above) if isinstance(above, dict) else range(len(above))
        key = rng.choice(keys)
        kind = rng.randrange(6)
        if kind == 0:
            del above[key]
        elif kind == 1 and isinstance(above, list):
            above.insert(rng.randrange(len(above) + 1), copy.deepcopy(above[key]))
        elif kind == 2 and isinstance(above, dict):
            above[rng.choice((*keys, odd_word(rng)))] = above.pop(key)
        elif kind == 3:
            donor = _container(rng, rng.choice(donors) if donors else tree)
            above[key] = copy.deepcopy(donor if donor is not None else 0)
        elif kind == 4 and isinstance(above, list):
            rng.shuffle(above)
        else:
            above[key] = odd_value(rng)
    return tree


def _container(rng: random.Random, tree: Any) -> Any:
    """A list or object of a tree that is not empty, reached by a walk from the top."""
    found = None
    while isinstance(tree, dict | list) and tree:
        found = tree
        if rng.random() < 0.25:
            break
        tree = rng.choice(list(tree.values()) if isinstance(tree, dict) else tree)
    return found


def json_text(rng: random.Random, tree: Any) -> str:
    """A tree as JSON text, in one of several layouts; rarely damaged as text, too."""
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, None, 0, 1)))
    return damaged_text(rng, text, ("{", "}", "[", "]", '"', ",", ":")) if rng.random() < 0.25 else text


def repeated(rng: random.Random, one: Callable[[random.Random], Any], count: int) -> Iterator[Any]:
    """A generator's inputs, one after the other."""
    return (one(rng) for _ in range(count))
