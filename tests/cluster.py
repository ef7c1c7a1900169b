"""A Spark of the tests' own: a master and two workers of this machine, gone when they are done."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from postgres import CALM_S, die_with_parent

HOST = "127.0.0.1"
PACKAGE = "org.apache.spark.deploy"
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of Java, for programs that end before it would be worth their while to optimise them."""


@dataclass
class Cluster:
    """Programs that run.

    Args:
        folder: of their logs and of what workers keep of executors.
        programs: the master and the workers, in the order of their start; each leads a group of processes, in which a
            worker's executors are.
    """

    folder: Path
    programs: list[subprocess.Popen[bytes]] = field(default_factory=list)
    url: str = ""

    def start(self, program: str, ready: str, *options: str) -> str:
        """Start a program; returns what follows `ready` in the line of its log in which it says so."""
        spec = find_spec("pyspark")
        assert spec is not None and spec.origin is not None
        home, log = Path(spec.origin).parent, self.folder / f"{len(self.programs)}.log"
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
            "SPARK_LOCAL_IP": HOST,
        }
        with log.open("w") as output:
            process = subprocess.Popen(
                [home / "bin" / "spark-class", f"{PACKAGE}.{program}", "--host", HOST, "--webui-port", "0", *options],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder, env=environment,
                start_new_session=True, preexec_fn=partial(die_with_parent, signal.SIGKILL),
            )  # fmt: skip
        self.programs.append(process)
        late = time.monotonic() + CALM_S
        while not (found := re.search(f"{ready}(.*)", log.read_text())):
            assert process.poll() is None and time.monotonic() < late, log.read_text()[-2000:]
            time.sleep(0.1)
        return found[1].strip()

    def start_worker(self) -> None:
        """One core, and memory for one executor."""
        work = self.folder / f"work{len(self.programs)}"
        self.start("worker.Worker", "Successfully registered with master", "--cores", "1", "--memory", "1g",
                   "--work-dir", str(work), self.url)  # fmt: skip

    def kill_worker(self) -> None:
        """Kill the newest worker with its executors, at once."""
        self._kill(self.programs.pop())

    def stop(self) -> None:
        """Kill all, and remove what they left."""
        while self.programs:
            self._kill(self.programs.pop())
        shutil.rmtree(self.folder, ignore_errors=True)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(CALM_S)


@cache
def running() -> Cluster:
    """One cluster for each process of the tests, which stops with it."""
    found = Cluster(Path(tempfile.mkdtemp(prefix="spark")))
    atexit.register(found.stop)
    found.url = found.start("master.Master", "Starting Spark master at ", "--port", "0")
    for _ in range(2):
        found.start_worker()
    return found
