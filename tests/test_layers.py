"""The import graph is the architecture (CONTRIBUTING.md), and the privacy boundary is one of its walls."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import discreet
from discreet.util.attached import _homes, above
from discreet.util.pack_entries import of_packs
from folding import every
from syntax_trees import tree_of

ROOT = Path(discreet.__file__).parent
GROUND = ("util", "noise", "model", "display", "formats")
CORE = (*GROUND, "privacy", "releases", "inference", "planning")
KERNEL = (*CORE, "records", "mechanisms", "posterior", "queries", "verify")
MAY_IMPORT = {
    "errors": set(),
    "util": set(),
    "noise": {"util"},
    "model": {"util"},
    "display": {"util", "model"},
    "formats": {"util", "model"},
    "privacy": set(),
    "releases": {*GROUND, "privacy"},
    "inference": {"util", "model"},
    "planning": {"util", "noise", "model", "inference"},
    "records": {*CORE},
    "mechanisms": {*CORE, "records"},
    "posterior": {*CORE},
    "queries": {*CORE, "posterior"},
    "verify": {*CORE, "records", "mechanisms", "posterior", "queries"},
    "cli": {*KERNEL},
    "interchange": {*CORE, "posterior"},
    "reporting": {*CORE, "posterior", "queries"},
    "discovery": {*KERNEL, "cli", "reporting"},
    "deciding": {*CORE, "posterior", "queries"},
    "predicting": {*CORE, "posterior", "queries"},
    "questions": {*CORE, "posterior", "queries"},
    "latent": {*CORE, "posterior", "cli"},
    "accuracy": {*KERNEL},
    "designs": {*KERNEL},
    "research": {*KERNEL, "designs"},
    "evidence": {*CORE, "posterior", "research"},
    "estimators": {*KERNEL, "designs", "research"},
    "server": {*CORE, "posterior", "queries", "deciding", "predicting", "reporting"},
}
"""Besides itself and `errors`, which all folders may import. The last thirteen are packs: the kernel imports none."""
PACKS = (
    "interchange", "discovery", "deciding", "predicting", "reporting", "questions", "latent", "accuracy", "designs",
    "research", "evidence", "estimators", "server",
)  # fmt: skip

TYPES_ABOVE = {
    "posterior/joint_draws.py": {"queries"},
}
"""Methods that a room above brings (`fluent.py`), and whose types stand there: for type checkers alone."""
DOORS = ("__init__.py", "decisions.py", "external.py", "kinds.py", "results.py", "tools.py")
"""What users import: lists of names (in the stubs beside them) and nothing else."""

PRIVATE = {
    "records",
    "mechanisms",
    "discovery/records",
    "discovery/mechanisms",
    "designs/records",
    "designs/mechanisms",
    "research/mechanisms",
}
PUBLIC = {
    "posterior",
    "queries",
    "deciding",
    "predicting",
    "reporting",
    "questions",
    "server",
    "designs/readers",
    "research/readers",
}
RECORD_READERS = ("duckdb", "ibis", "opendp", "pandas", "polars", "sqlite3")
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if path.parent != ROOT)


def tree(module: str) -> ast.Module:
    """The syntax tree of a module, given by its path inside the package."""
    return tree_of(ROOT / module)


def imported(node: ast.AST) -> Iterator[str]:
    """Dotted names that a statement imports; `from a import b` is `a.b`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


@cache
def imports(module: str) -> set[str]:
    """Dotted names that a module imports, anywhere in it."""
    return {name for node in ast.walk(tree(module)) for name in imported(node)}


def ours(module: str) -> set[str]:
    """Folders of ours that a module imports from; `discreet` stands for the package's own namespace."""
    parts = [name.split(".") for name in imports(module)]
    return {part[1] if len(part) > 1 else "discreet" for part in parts if part[0] == "discreet"}


def wing(path: str) -> str:
    """The folder of a file, or of a dotted name without the package's; of packs with both wings the folder inside."""
    first, *rest = path.replace(".", "/").split("/")
    return "/".join([first, *rest[:1]]) if first in ("designs", "discovery", "research") else first


def loaded_by(statement: str) -> set[str]:
    """Top-level packages that a fresh interpreter holds after a statement."""
    code = f"{statement}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def random_uses(module: str) -> set[str]:
    """Top-level definitions in which a module touches a seedable generator, or `module`."""
    generators = {"random", "default_rng", "Generator", "RandomState"}
    return {
        getattr(statement, "name", "module")
        for statement in tree(module).body
        for node in ast.walk(statement)
        if (isinstance(node, ast.Attribute) and node.attr in generators)
        or (isinstance(node, ast.Name) and node.id in ("rng", "random"))
        or any("random" in name.split(".") for name in imported(node))
    }


# ------------------------------------------------------------------------------------------ the graph


def test_every_file_stands_in_a_known_folder() -> None:
    assert {module.split("/")[0] for module in MODULES} <= set(MAY_IMPORT)
    assert {path.name for path in ROOT.glob("*.py")} == {*DOORS, "__main__.py", "errors.py", "fluent.py"}


def test_no_two_files_share_a_name() -> None:
    names = [path.name for path in ROOT.rglob("*.py") if path.name != "__init__.py"]
    assert [name for name in names if names.count(name) > 1] == []


def test_the_folders_stand_in_an_order() -> None:
    folders = list(MAY_IMPORT)
    assert all(allowed <= set(folders[: folders.index(folder)]) for folder, allowed in MAY_IMPORT.items())


@pytest.mark.costly("Every file of the package is parsed and its imports compared with the house.")
@every("module", MODULES)
def test_a_folder_imports_only_what_is_above_it(module: str) -> None:
    folder = module.split("/")[0]
    allowed = MAY_IMPORT[folder] | {folder, "errors"} | ({"discreet"} if folder == "cli" else set())
    assert ours(module) <= allowed | TYPES_ABOVE.get(module, set())
    assert not any(name.startswith(".") for name in imports(module)), "imports are absolute"


@pytest.mark.costly("Late imports are seen in the syntax trees of all files only.")
@every("module", MODULES)
def test_nothing_that_runs_looks_up_not_even_late(module: str) -> None:
    above = TYPES_ABOVE.get(module, set())
    run = [node for node in tree(module).body if ast.unparse(node).split(":")[0] != "if TYPE_CHECKING"]
    names = {name for node in run for name in imported(node) if name.startswith("discreet.")}
    folder = module.split("/")[0]
    late = {
        node.args[0].value
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_import"
        if isinstance(node.args[0], ast.Constant)
        if node.args[0].value.startswith("discreet.")
    }
    assert {name.split(".")[1] for name in late} <= MAY_IMPORT[folder] | {folder}
    assert not {name.split(".")[1] for name in names | late} & above
    assert above <= ours(module), "the exception is not needed any more"


def test_methods_that_a_room_above_brings_are_there() -> None:
    calls = {
        node.args[0].value
        for module in MODULES
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "above" and isinstance(node.args[0], ast.Constant)
    }
    assert calls == {*_homes, *dict(of_packs("discreet.methods"))}
    assert all(callable(above(name)) for name in calls)


@pytest.mark.costly("Circles of imports are seen in the graph of all files only.")
def test_no_file_needs_itself() -> None:
    """Imports that wait for a first use are counted, those for type checkers are not."""
    graph = {}
    for module in MODULES:
        run = [node for node in tree(module).body if ast.unparse(node).split(":")[0] != "if TYPE_CHECKING"]
        names = {name for node in run for one in ast.walk(node) for name in imported(one)}
        names |= {
            node.args[0].value
            for node in ast.walk(tree(module))
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_import"
            if isinstance(node.args[0], ast.Constant)
        }
        files = {name.removeprefix("discreet.").replace(".", "/") for name in names if name.startswith("discreet.")}
        graph[module] = {f"{file}.py" for file in files} | {f"{file.rpartition('/')[0]}.py" for file in files}
    TopologicalSorter(graph).prepare()


def test_exact_inference_has_one_door() -> None:
    """Plans and kernels stand behind `inference/exact_laws.py`: no other room imports them."""
    behind = {"discreet.inference.junction_tree", "discreet.inference.kernels"}
    found = {
        module: names
        for module in MODULES
        if not module.startswith("inference/")
        if (names := {name for name in imports(module) if name.rpartition(".")[0] in behind or name in behind})
    }
    assert found == {}


@every("module", [module for module in MODULES if wing(module) in PRIVATE | PUBLIC])
def test_the_two_wings_meet_only_in_the_release(module: str) -> None:
    other = PUBLIC if wing(module) in PRIVATE else PRIVATE
    assert (
        not {wing(name.removeprefix("discreet.")) for name in imports(module) if name.startswith("discreet.")} & other
    )


def test_nothing_of_the_kernel_imports_a_pack() -> None:
    """The commands ask the doors of packs for what --design, --score and --covariates name, and refuse without them."""
    kernel = [module for module in MODULES if module.split("/")[0] not in PACKS]
    assert not any(ours(module) & set(PACKS) for module in kernel)
    late = {
        (module, node.args[0].value)
        for module in kernel
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
        if str(node.args[0].value).startswith(tuple(f"discreet.{pack}" for pack in PACKS))
    }
    assert late == set()
    asked = {
        module
        for module in kernel
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {f"dc.{pack}" for pack in PACKS}
    }
    assert asked == {"cli/analyst.py", "cli/arguments.py", "cli/planning.py"}


@every("module", [module for module in MODULES if module.split("/")[0] != "cli"])
def test_no_import_hides_in_a_function(module: str) -> None:
    functions = [node for node in ast.walk(tree(module)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert not [name for function in functions for node in ast.walk(function) for name in imported(node)]
    # What loads others later, an engine whose libraries are an extra, packages that networks are made for,
    # and the registries, of mechanisms, which is read by whoever prints a help text, and of readers.
    if module not in (
        "util/lazy_imports.py",
        "util/attached.py",
        "records/spark.py",
        "interchange/conversions.py",
        "mechanisms/__init__.py",
        "posterior/read.py",
    ):
        assert not imports(module) & {"importlib", "importlib.import_module"}


def test_the_package_itself_imports_lazily() -> None:
    for doors in DOORS:
        more = {"discreet.fluent"} if doors == "__init__.py" else set()
        assert imports(doors) == {"discreet.util.lazy_imports.lazy_exports"} | more, doors
    assert imports("fluent.py") == {"discreet.util.attached.attach"}


def test_rooms_do_not_go_through_the_doors() -> None:
    """But for the command line, which calls what users call."""
    names = {Path(doors).stem for doors in DOORS}
    for module in MODULES:
        if not module.startswith("cli/"):
            assert not {name.split(".")[1] for name in imports(module) if name.startswith("discreet.")} & names, module


def test_errors_need_nothing() -> None:
    assert {name.split(".")[0] for name in imports("errors.py")} <= {"collections", "typing"}


# ------------------------------------------------------------------------------------------ what an import loads


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = {"numpy", "scipy", "networkx", "pyarrow", "pydantic", "sqlalchemy", "typer", "rich", *RECORD_READERS}
    assert not loaded_by("import discreet") & heavy


def test_the_public_wing_cannot_read_records() -> None:
    loaded = loaded_by("import discreet.queries.query, discreet.queries.synthetic, discreet.posterior.methods")
    assert "numpy" in loaded
    assert not loaded & set(RECORD_READERS)


@pytest.mark.costly("What a name loads is seen in a fresh process only.")
@every("name", ["answer", "noise_aware", "tools.plug_in", "Release", "Network"])
def test_a_public_name_of_the_public_wing_loads_no_reader(name: str) -> None:
    assert not loaded_by(f"import discreet; discreet.{name}") & set(RECORD_READERS)


def test_the_model_loads_no_science_it_does_not_need() -> None:
    loaded = loaded_by("import discreet.model.dirichlet")
    assert not loaded & {"scipy", "pyarrow", "pydantic", "sqlalchemy", *RECORD_READERS}


# ------------------------------------------------------------------------------------------ the package's namespace


def test_every_public_name_can_be_loaded() -> None:
    assert len(set(discreet.__all__)) == len(discreet.__all__)
    assert all(getattr(discreet, name) is not None for name in discreet.__all__)
    assert set(discreet.__all__) == set(dir(discreet)) - {Path(door).stem for door in DOORS[1:]} - set(PACKS)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'discreet' has no attribute 'nothing'"):
        discreet.nothing  # noqa: B018 - the access is the test


@every("module", MODULES)
def test_what_begins_with_an_underscore_stays_in_its_file(module: str) -> None:
    private = [name for name in imports(module) if name.startswith("discreet.") and "._" in name]
    assert private == []


# ------------------------------------------------------------------------------------------ randomness


@every("module", [module for module in MODULES if wing(module) in PRIVATE])
def test_nothing_near_records_can_be_seeded(module: str) -> None:
    allowed = {
        "mechanisms/noise.py": {"SimulatedNoise"},
        "mechanisms/crossing.py": {"simulate"},
        # A fixed seed for the Monte Carlo of the public shift, in a calibration: the next test looks where.
        "research/mechanisms/fourier.py": {"fourier"},
    }
    assert random_uses(module) <= allowed.get(module, set())


def test_the_one_seed_near_records_is_in_a_calibration_which_sees_none() -> None:
    (factory,) = (
        part for part in tree("research/mechanisms/fourier.py").body if getattr(part, "name", "") == "fourier"
    )
    inner = {part.name: part for part in ast.walk(factory) if isinstance(part, ast.FunctionDef) and part is not factory}
    assert set(inner) == {"calibrate", "draw"}
    seeded = {name for name, part in inner.items() if "default_rng" in ast.unparse(part)}
    assert seeded == {"calibrate"}
    assert ast.unparse(factory).count("default_rng") == ast.unparse(inner["calibrate"]).count("default_rng") == 1
    assert [argument.arg for argument in inner["calibrate"].args.args] == ["network", "prior", "guarantee"]


def test_the_search_for_randomness_finds_what_is_there() -> None:
    assert random_uses("mechanisms/crossing.py") == {"simulate"}
    assert random_uses("mechanisms/noise.py") == {"SimulatedNoise"}
    assert random_uses("model/dirichlet.py") == {"Dirichlet", "dirichlet_draws"}
