"""Every place of the package that opens a file, beside the readers of generated inputs in `hostile_readers`.

A new place fails here until its reader is named, or why no stranger's file comes there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import discreet
from hostile_readers import READERS

ROOT = Path(discreet.__file__).parent
OPENERS = {
    "GzipFile", "ParquetFile", "ZipFile", "connect", "create_engine", "dataset", "decompress", "from_connection",
    "from_path", "open", "open_csv", "open_stream", "read_bytes", "read_csv", "read_metadata", "read_packed_text",
    "read_schema", "read_text",
}  # fmt: skip
"""What opens a file, whoever's function it is."""
OWN = "a file of the package or of the system"
WRITTEN = "a file that is written or locked, and not read"
SERVER = "a server, and no file"
PLAIN = "what others read files with"
TEXTS = "the text of a value, and no file"
NETWORKS = ("BIF", "XMLBIF", "packed network")
CSVS = ("CSV", "packed CSV")

PLACES: dict[str, tuple[str, ...] | str] = {
    "cli/arguments.py network_over": (*NETWORKS, "arcs"),
    "cli/arguments.py queries_of": ("queries", "query"),
    "cli/deciding.py _read_payoffs": ("payoffs",),
    "cli/demo.py run_demo": OWN,
    "cli/ledgers.py _read_json": ("account",),
    "cli/ledgers.py open_account": ("ledger",),
    "cli/network_view.py _read_network": NETWORKS,
    "cli/posteriors.py _begins_with": ("draws",),
    "discovery/domain_task.py _read_project": ("project",),
    "discovery/first_answers.py _open_account": ("ledger",),
    "display/terminal.py abandon_stdout": OWN,
    "research/mechanisms/factored.py _read_factor": ("factor",),
    "mechanisms/private_selection.py prepaid": OWN,
    "util/json_files.py _link_nameless": WRITTEN,
    "util/json_files.py _open_new": WRITTEN,
    "util/json_files.py decompress": PLAIN,
    "util/json_files.py read_bytes": PLAIN,
    "util/json_files.py read_packed_text": PLAIN,
    "util/json_files.py read_text": PLAIN,
    "util/lazy_imports.py _read_stub": OWN,
    "model/network.py Network": (*NETWORKS, "arcs"),
    "formats/network_files.py read_network": NETWORKS,
    "formats/network_files.py read_structure": NETWORKS,
    "formats/project_file.py Project": ("project",),
    "model/number_types.py NumberType": TEXTS,
    "model/schema.py Schema": ("schema",),
    "research/scores/score_files.py read_score_file": ("score",),
    "posterior/stored.py _read_file_head": ("heads of draws",),
    "posterior/stored.py check_draws": ("draws",),
    "posterior/stored.py load_draws": ("draws",),
    "privacy/default_account.py _open_or_find": ("ledger",),
    "privacy/ledger_books.py script": OWN,
    "privacy/ledger_database.py Database": ("ledger",),
    "privacy/ledger_database.py _create_private": WRITTEN,
    "privacy/ledger_database.py _make_engine": ("ledger",),
    "privacy/ledger_database.py _refuse_network": OWN,
    "privacy/settings.py _read_settings": ("settings",),
    "predicting/predict.py _encode": TEXTS,
    "reporting/release_report.py _texts": OWN,
    "server/remote_posterior.py _read_batches": ("records sent",),
    "queries/synthetic.py write_records": WRITTEN,
    "releases/combined.py load": ("release", "combined"),
    "designs/design_document.py read_design_file": ("design",),
    "interchange/external_cells.py _read_csv": ("cells",),
    "releases/external_figures.py External": ("external",),
    "releases/release.py Release": ("release",),
    "records/dates.py _number_array": TEXTS,
    "records/engine.py _make_locked": WRITTEN,
    "records/engine.py _remove_if_left": WRITTEN,
    "records/engine.py open_engine": ("DuckDB",),
    "records/sources.py open_dataset": ("data set",),
    "records/sources.py open_store": ("Parquet of a store",),
    "records/record_files.py _has_long_line": CSVS,
    "records/record_files.py _plan_parquet": ("Parquet",),
    "records/record_files.py _plan_parquet_blocks": ("Parquet",),
    "records/record_files.py _open_rewritten": ("rewritten CSV",),
    "records/record_files.py _read_workbook": ("Excel",),
    "records/record_files.py parse_csv": ("CSV stream",),
    "records/text_form.py open_text": (*CSVS, "rewritten CSV"),
    "records/sources.py _open_base": ("SQLite", "DuckDB"),
    "records/sources.py _open_server": SERVER,
    "records/spark.py open_spark": SERVER,
    "records/spark.py spark_table": SERVER,
    "server/pages.py _static": OWN,
    "server/page_tables.py templates": OWN,
    "server/catalog.py _read": ("release", "combined", "draws", "heads of draws"),
    "server/tokens.py _lock": WRITTEN,
    "server/tokens.py _read": ("tokens",),
}
"""The readers that stand for each place, or why no stranger's file comes there."""


def places() -> Iterator[str]:
    """Functions and classes that open something, by their file."""
    for path in ROOT.rglob("*.py"):
        for top in ast.parse(path.read_text("utf-8")).body:
            if isinstance(top, ast.FunctionDef | ast.ClassDef):
                words = {node.id for node in ast.walk(top) if isinstance(node, ast.Name)}
                words |= {node.attr for node in ast.walk(top) if isinstance(node, ast.Attribute)}
                if words & OPENERS:
                    yield f"{path.relative_to(ROOT).as_posix()} {top.name}"


@pytest.mark.costly("Places that open files are seen in the syntax trees of all files only.")
def test_every_place_that_opens_a_file_is_a_reader_of_generated_inputs() -> None:
    assert set(places()) == set(PLACES)
    assert {reader for told in PLACES.values() if isinstance(told, tuple) for reader in told} == set(READERS)
