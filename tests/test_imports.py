"""The package imports without a warning where nobody has been before, and loads no more than its core."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import discreet

ROOT = Path(discreet.__file__).parent
MODULES = sorted(
    ".".join(("discreet", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
)
EXTRAS = {"arviz", "httpcore2", "numba", "prometheus_client", "sklearn", "starlette", "uvicorn"}
"""What the core does without."""
HEAVY = EXTRAS | {"matplotlib", "pandas", "polars", "torch", "xarray"}
HOMES = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
CACHES = ("MPLCONFIGDIR", "NUMBA_CACHE_DIR")
NO_FOLDER = Path(os.devnull, "home")
"""A home that nobody can write, not even root."""

IMPORT_ALL = """
import importlib, json, sys
faults = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        first = str(error).strip().splitlines()[:1]
        faults[name] = f"{type(error).__name__} of {getattr(error, 'name', None)}: {first}"
print(json.dumps(faults))
"""


def python(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter whose user has this home and no cache or setting elsewhere."""
    kept = {name: value for name, value in os.environ.items() if name not in (*HOMES, *CACHES)}
    environment = {**kept, "HOME": str(home)}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False)


def faults(home: Path, *modules: str) -> dict[str, str]:
    """What went wrong, by module, where a fresh interpreter for which warnings are errors imports them in turn."""
    done = python(home, "-W", "error", "-c", IMPORT_ALL, *modules)
    assert done.returncode == 0, done.stderr
    absent = {f"ModuleNotFoundError of {extra}:" for extra in EXTRAS}
    found: dict[str, str] = json.loads(done.stdout)
    return {module: fault for module, fault in found.items() if not any(map(fault.startswith, absent))}


@pytest.mark.costly("A warning of an import shows in a process with an empty home only.")
def test_every_module_imports_without_a_warning_in_an_empty_home(tmp_path: Path) -> None:
    assert len(MODULES) > 80
    assert faults(tmp_path, *MODULES) == {}


@pytest.mark.costly("What ArviZ does in an empty home is seen in a fresh process only.")
def test_an_export_to_arviz_does_not_repeat_its_warning_in_an_empty_home(tmp_path: Path) -> None:
    pytest.importorskip("arviz", reason="arviz: the extra [arviz] is not installed")
    code = "from discreet.interchange import arviz_export\narviz_export._convert(posterior={'x': [[1.0, 2.0]]})"
    done = python(tmp_path, "-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr


def test_a_module_that_warns_is_found(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text("import warnings\nwarnings.warn('heard', FutureWarning)\n")
    (tmp_path / "quiet.py").write_text("")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{IMPORT_ALL}"
    done = python(tmp_path, "-W", "error", "-c", code, "noisy", "quiet")
    assert json.loads(done.stdout) == {"noisy": "FutureWarning of None: ['heard']"}


def test_an_arviz_that_cannot_write_its_cache_is_one_line(tmp_path: Path) -> None:
    """ArviZ 0.23 fails so on import in a home that cannot be written; this stand-in does everywhere."""
    (tmp_path / "arviz.py").write_text("raise PermissionError(13, 'Permission denied', '/home/.cache/arviz')\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import discreet as dc\ncoin = dc.Network((dc.Variable('coin', ('heads', 'tails')),), {'coin': ()})\n"
        "drawn = dc.results.PosteriorDraws(dc.Dirichlet.uniform(coin).draw(2, rng=1))\n"
        "try:\n    dc.tools.to_arviz(drawn)\nexcept dc.DiscreetError as error:\n    print(error)"
    )
    done = python(NO_FOLDER, "-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr
    assert "XDG_CACHE_HOME" in done.stdout
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("statement", ["import discreet", "import discreet.cli.cli"])
def test_the_core_loads_no_extra_and_needs_no_home(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = set(python(NO_FOLDER, "-W", "error", "-c", code).stdout.split())
    assert "discreet" in loaded
    assert not loaded & HEAVY


ASIA = ROOT / "cli" / "asia.bif"
NEVER = HEAVY | {"networkx", "scipy.optimize", "scipy.stats", "scipy.fft", "scipy.linalg"}
"""What no usual command loads: a tenth of a second each, and more."""
BUDGETS = {
    "ledger open patients --epsilon 2 --relation add-remove": {
        "discreet.queries",
        "ibis",
        "duckdb",
        "scipy.special",
    },
    "release records.csv --network asia.bif --account patients --epsilon 1 --output release.json": {
        "discreet.estimators",
        "discreet.queries",
        "pyarrow.dataset",
    },
    "query release.json P(lung|smoke=yes)": {
        "discreet.estimators",
        "discreet.records",
        "ibis",
        "duckdb",
        "sqlalchemy",
    },
    "explain release.json": {"discreet.estimators", "discreet.records", "ibis", "duckdb", "sqlalchemy"},
}
"""Commands in their order, and what each does without beside that; the modules below a name count as it."""
COMMAND = """
import json, sys
from discreet.cli.cli import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


@pytest.mark.costly("What a command loads shows in a process for each command only.")
def test_no_command_loads_what_it_does_without(tmp_path: Path) -> None:
    (tmp_path / "asia.bif").write_bytes(ASIA.read_bytes())
    network = discreet.Network.read(tmp_path / "asia.bif")
    rows = [",".join(network.nodes)] + [
        ",".join(variable.states[at % 2] for variable in network.variables) for at in range(40)
    ]
    (tmp_path / "records.csv").write_text("\n".join(rows))
    for command, without in BUDGETS.items():
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *command.split()], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        code, loaded = json.loads(done.stderr.splitlines()[-1])
        assert code == 0, done.stderr.splitlines()[0]
        found = {name for name in NEVER | without for module in loaded if f"{module}.".startswith(f"{name}.")}
        assert not found, f"{command}: {sorted(found)}"
