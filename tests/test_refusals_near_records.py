"""What refusals tell of records: each that looks at them is in docs/refusals.md, and none comes before the budget."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet as dc
from discreet.estimators import PrivateGridSearch, release_score
from estimator_cases import CASES, Case, promise
from folding import every
from shell import Shell, opened

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "discreet"
NEAR = ("records", "mechanisms", "estimators", "designs/records", "designs/mechanisms",
        "discovery/records", "discovery/mechanisms", "research/mechanisms")  # fmt: skip
"""Folders of the code near records; in those of that name all functions may see them."""
SEEN = {
    "Any", "Array", "ArrayLike", "Block", "Counts", "FitSource", "Floats", "ArrayInput", "TableInput", "Gradients",
    "Integers", "Ints", "MaskedInput", "Moments", "NDArray", "Positions", "Records", "Rows", "S", "ScoreSums",
    "Statistic", "T", "Table", "Values", "object",
}  # fmt: skip
"""Types of what may be private: a function without an argument of one of them refuses what is public."""
REFUSING = {"_guard", "_read_quietly", "refuse_faulty", "require"}
"""Functions that refuse by being called."""
PUBLIC = {
    "estimators/accounts.py": "promised*5 paying",
    "estimators/columns.py": "declared_bounds*2 declared_pair declared_columns",
    "estimators/components_analysis.py": "PrivatePCA._release*2 PrivatePCA.from_release PrivatePCA.inverse_transform "
    "_require_at_most",
    "estimators/contract.py": "columns_of*2 class_labels*5 PrivateEstimator._release",
    "estimators/declared_designs.py": "declared_features*2 positive_number written_bounds",
    "estimators/found_bounds.py": "_list_shares*2",
    "estimators/table_input.py": "FitSource.of_project*3 FitSource.require_target*2 FitSource.columns*4 "
    "FitSource.target_column MaskedInput.of_table TableInput.records",
    "estimators/grid_search.py": "PrivateGridSearch._check_setting PrivateGridSearch._read_records _attempt "
    "_toss_coins release_score _find_private*3",
    "estimators/groups.py": "declared_groups*3",
    "estimators/linear_regression.py": "PrivateLinearRegression.from_release PrivateLinearRegression._require",
    "estimators/logistic_regression.py": "PrivateLogisticRegression.from_release*2",
    "estimators/naive_bayes.py": "PrivateNaiveBayes.from_release PrivateNaiveBayes._declare_features*2 _make_mechanism "
    "_make_star",
    "estimators/options.py": "generator refuse_options*2 yes_or_no whole_number*2",
    "estimators/poisson_regression.py": "PrivatePoissonRegression.from_release",
    "estimators/principal_direction.py": "PrivatePrincipalDirection._release PrivatePrincipalDirection.from_release "
    "_list_lengths",
    "estimators/public_records.py": "_require_public",
    "estimators/regressions.py": "expected_records RegressionEstimator._expect",
    "estimators/scaling.py": "PublicScaler.fit",
    "mechanisms/__init__.py": "MechanismEntry.from_text*2",
    "mechanisms/crossing.py": "statistic_of require_mechanism _calibrate*4",
    "research/mechanisms/factored.py": "factored.require",
    "research/mechanisms/posterior_sampler.py": "delta_of*2 dirichlet_renyi",
    "research/mechanisms/likely_parameters.py": "largest_shares",
    "research/mechanisms/scored.py": "scoring.require",
    "research/mechanisms/truncated_posterior.py": "_check_law*4 truncated_normal _find_mode",
    "records/counts.py": "Counts.__reduce__ Counts.require _refuse_large*2",
    "records/number_sums.py": "NumberSums.__reduce__",
    "records/dialects.py": "require_known",
    "records/drafts.py": "draft_schema*2",
    "records/engine.py": "_find_private_folder",
    "designs/records/gradients.py": "Gradients.__reduce__",
    "discovery/records/column_values.py": "ColumnValues.__reduce__",
    "discovery/mechanisms/found_domain.py": "_take_values",
    "designs/records/moments.py": "Moments.__reduce__ sum_moments",
    "records/records.py": "Records.__reduce__ read_records*2 _take_one_slice*3",
    "designs/records/rows.py": "Rows.__reduce__ _order_states",
    "research/mechanisms/score_sums.py": "ScoreSums.__reduce__",
    "records/sources.py": "_open_server _open_base*2",
    "records/spark.py": "open_spark",
    "records/text_form.py": "TextForm.__post_init__*6",
    "records/values.py": "markers*3",
}
"""Functions that may see records and refuse only what is public, with how many refusals were looked at. If one more
looks at records, its function moves to the table of docs/refusals.md."""


def refusals_in(text: str, *, all_see: bool) -> Counter[str]:
    """How often each function refuses that may see records."""
    found: Counter[str] = Counter()

    def walk(node: ast.AST, name: str, sees: bool) -> None:
        for child in ast.iter_child_nodes(node):
            inner, inside = name, sees
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                inner = f"{name}.{child.name}".removeprefix(".")
            if isinstance(child, ast.ClassDef):
                inside = sees or child.name in SEEN
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inside = sees or bool(SEEN & set(re.findall(r"\w+", ast.unparse(child.args))))
            called = child.func if isinstance(child, ast.Call) else None
            if isinstance(child, ast.Raise) or (isinstance(called, ast.Name) and called.id in REFUSING):
                found[name] += sees
            walk(child, inner, inside)

    walk(ast.parse(text), "", all_see)
    return +found


def listed() -> dict[tuple[str, str], str]:
    """Class of each refusal in the table of the page."""
    rows = re.findall(r"^\| `(\S+\.py)` \| (.*?) \| .*? \| (\w+) \|$", (ROOT / "docs/refusals.md").read_text(), re.M)
    return {(file, name): kind for file, names, kind in rows for name in re.findall(r"`(\S+?)`", names)}


def test_every_refusal_that_looks_at_records_is_in_the_table() -> None:
    table, there = listed(), dict[tuple[str, str], int]()
    for folder in NEAR:
        for path in sorted((SOURCES / folder).glob("*.py")):
            names = refusals_in(path.read_text(), all_see=folder.endswith("records"))
            there |= {(f"{folder}/{path.name}", name): number for name, number in names.items()}
    public = {}
    for file, names in PUBLIC.items():
        for one in names.split():
            name, _, number = one.partition("*")
            public[file, name] = int(number or 1)
    assert set(table.values()) == {"curator", "paid"} and not set(table) & set(public)
    assert set(there) == set(table) | set(public), "each refusal is in the table, or among those of what is public"
    assert {key: there[key] for key in public} == public, "a refusal more: does it look at records?"


def test_a_refusal_is_found_wherever_it_is_written() -> None:
    text = """
def blind(name: str) -> None:
    raise InputError
def near(rows: Rows) -> None:
    def inner() -> None:
        raise InputError
    require(rows, "")
class ArrayInput:
    def method(self) -> None:
        if self: raise InputError
"""
    assert refusals_in(text, all_see=False) == {"near": 1, "near.inner": 1, "ArrayInput.method": 1}
    assert refusals_in(text, all_see=True)["blind"] == 1


# ----------------------------------------------------------------------------------------------- the budget comes first


class Unread:
    """Records that nobody may look at."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"records were looked at: {name}")

    def __len__(self) -> int:
        raise AssertionError("records were counted")


def spent(limit: Any = None) -> Any:
    """An account with nothing left."""
    account = dc.Ledger("sqlite://").open("spent", limit or promise(1))
    account.charge("r", "m", limit or promise(1))
    return account


@every("case", CASES)
def test_a_fit_that_cannot_be_paid_looks_at_no_record(case: Case) -> None:
    declared = {"classes": (0, 1)} if "classes" in case.kind().get_params() else {}
    estimator = case.kind(**declared | case.options, guarantee=promise(1), account=spent())
    with pytest.raises(dc.BudgetError, match="spent 1 of 1"):
        estimator.fit(Unread(), Unread())


def test_scores_and_searches_that_cannot_be_paid_look_at_no_record() -> None:
    account = dc.Ledger("sqlite://").open("a", promise(1))
    public = {"classes": (0, 1), "bounds": (0, 1), "guarantee": promise(1), "draws": 40}
    fitted = dc.estimators.PrivateNaiveBayes(**public, account=account).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(dc.BudgetError):
        release_score(fitted, Unread(), Unread(), guarantee=promise(1), account=account)
    with pytest.raises(dc.BudgetError):
        PrivateGridSearch(dc.estimators.PrivateNaiveBayes(**public, account=account), {"bins": [2, 3]}).fit(
            Unread(), Unread()
        )


def test_a_release_that_cannot_be_paid_opens_no_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run: Shell = opened(tmp_path, monkeypatch, capfd)
    Path("d.parquet").write_bytes(b"no records")
    variables = ", ".join(f'{{"name": "{name}", "states": ["x", "y"]}}' for name in "abc")
    Path("s.json").write_text(f'{{"variables": [{variables}]}}')
    asked = "d.parquet --account add-remove --epsilon 4"
    assert "cannot pay" in run.fails(f"release {asked} --network asia.bif --output r.json", 3)
    assert "cannot pay" in run.fails(f"structure {asked} --schema s.json --output r.json", 3)


# --------------------------------------------------------------------------------- numbers of records that are declared


@every("relation", dc.tools.RECORD_RELATIONS)
def test_no_declared_number_tells_how_many_records_there_are(relation: dc.Relation) -> None:
    """However few are declared, a fit is made and paid for: the records are not asked whether they are too many."""
    n, guarantee = 500, promise(1, relation)
    X = np.random.default_rng(0).uniform(0, 1, (n, 1))
    y = np.where(X[:, 0] > 0.5, "p", "n")
    account = dc.Ledger("sqlite://").open("a", promise(8, relation))
    for number, records in enumerate((1, 5, n // 10 - 1, n // 10, n // 10 + 1, n, 10 * n, 10**9), 1):
        public = {"classes": ("n", "p"), "bounds": (0, 1), "records": records, "find_bounds": None}
        dc.estimators.PrivateLogisticRegression(**public, guarantee=guarantee, account=account).fit(X, y)
        assert len(account.charges()) == number
