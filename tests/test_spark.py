"""What only Spark can do to a release: fail in a task, lose a worker, or not be there; `make test-spark` runs these."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ibis
import numpy as np
import pytest

import cluster
import discreet as dc
import shell
from discreet.designs.indicators import features_of
from discreet.designs.records import executors
from discreet.mechanisms import crossing
from discreet.records import sources
from discreet.records.sources import arrow_blocks
from discreet.records.spark import open_spark
from engines import on_cluster, on_parquet, on_spark, spark
from postgres import CALM_S
from sources import CANARY
from test_engines import CHAIN, outcome, table

pytestmark = pytest.mark.costly(
    "Spark loses workers, repeats tasks and reads text as no other engine does", reads=("src/discreet/records",)
)
ROWS, PARTS = 2400, 24
SECRET = f"concat('{CANARY[:-1]}', if(id < 0, '', '{CANARY[-1]}'))"
"""SQL of a value that stands in no text of SQL."""
SCRIPT = f"""
import discreet as dc
from design_cases import numeric
from discreet.records.spark import open_spark
from sources import AB

code, number = dc.Variable("z", ("0", "1")), numeric("z")
network = dc.Network((AB, code), {{"x": (), "z": ()}})
reads = ((code, lambda found: dc.count(found, network)), (code, dc.check),
         (number, lambda found: dc.designs.read_rows(dc.designs.Design((number,)), found)))
base = open_spark("spark://")
for at, value in enumerate(("raise_error({SECRET})", "cast({SECRET} AS int)")):
    base.raw_sql(f"CREATE TEMPORARY VIEW visits{{at}} AS SELECT 'a' AS x, if(id = 7, {{value}}, 1) AS z FROM range(20)")
    for variable, read in reads:
        records = dc.read_records("spark://", dc.Schema((AB, variable)), table=f"visits{{at}}")
        try:
            read(records)
        except dc.InputError as refused:
            print(refused)
"""
"""Reads tables of which a task fails."""


def test_spark_that_is_not_there_is_refused_in_a_line_and_nothing_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = shell.opened(tmp_path, monkeypatch, capfd)
    release = shell.RELEASE.replace("d.parquet", "spark:// --table clinic.visits")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyspark.sql", None)  # as where the extra is not installed
        assert "'.[spark]' in a clone" in run.fails(release)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyspark.sql", SimpleNamespace(SparkSession=SimpleNamespace(builder=None)))
        patch.setattr(shutil, "which", lambda _name: None)
        patch.delenv("JAVA_HOME", raising=False)
        assert "needs Java" in run.fails(release)
    assert not dc.Ledger(shell.LEDGER).account("add-remove").charges()


def test_a_session_of_ours_logs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the session is told that stands in for one; a test below looks at what a real one writes."""
    told: list[Any] = []
    context = SimpleNamespace(setLogLevel=told.append)
    builder = SimpleNamespace(getOrCreate=lambda: SimpleNamespace(sparkContext=context))
    builder.config = builder.master = lambda *_given: builder
    logger = SimpleNamespace(disabled=False)
    named = {"pyspark.sql": {"SparkSession": SimpleNamespace(builder=builder)},
             "pyspark.logger": {"PySparkLogger": SimpleNamespace(getLogger=lambda _name: logger)}}  # fmt: skip
    for name, held in named.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**held))
    monkeypatch.setitem(vars(ibis), "pyspark", SimpleNamespace(connect=lambda session: session))
    monkeypatch.setenv("JAVA_HOME", "/")
    for url in ("spark://", "spark://host:7077"):
        logger.disabled = False
        open_spark(url)
        assert logger.disabled and told.pop() == "OFF"


def test_rows_of_spark_are_asked_for_as_they_are_read() -> None:
    """A part at a time, of a session that stands in for one."""
    asked: list[int] = []
    found = SimpleNamespace(toLocalIterator=lambda: ((asked.append(at) or at,) for at in range(100)))
    engine = SimpleNamespace(name="pyspark", compile=str, raw_sql=lambda _query: found)
    expression = SimpleNamespace(get_backend=lambda: engine, schema=lambda: ibis.schema({"z": "int64"}))
    blocks: Any = arrow_blocks(expression, 30)  # type: ignore[arg-type]
    assert next(blocks)["z"].to_pylist() == list(range(30)) and asked == list(range(30))
    assert [len(block) for block in blocks] == [30, 30, 10]


def test_blocks_come_as_they_are_read() -> None:
    """Those of some parts are here before another one fails."""
    spark().raw_sql(
        f"CREATE OR REPLACE TEMPORARY VIEW fails AS SELECT if(id < 300, id, raise_error({SECRET})) AS z "
        "FROM range(0, 400, 1, 4)"
    )
    found = []
    with pytest.raises(dc.InputError, match="read to the end") as refused:
        found.extend(block["z"].to_pylist() for block in arrow_blocks(spark().table("fails"), 50))
    assert found == [list(range(start, start + 50)) for start in range(0, 300, 50)]
    assert CANARY not in str(refused.value)


def test_a_frame_of_spark_is_fitted_where_it_is(tmp_path: Path) -> None:
    """Like the same records in a file: no part of it is brought here but numbers of a design, and counts."""
    session = spark()._session
    frame = session.sql("SELECT id % 7 AS age, IF(id % 3 = 0, 'm', 'f') AS sex, IF(id % 7 > 3, 'y', 'n') AS ill "
                        "FROM range(500)")  # fmt: skip
    limit = dc.Guarantee(epsilon=100, delta=0, relation="add-remove", unit="record")
    account = dc.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").open("visits", limit)
    options = {"classes": ("n", "y"), "bounds": {"age": (0, 6), "sex": ("f", "m")}, "epsilon": 20, "account": account}
    fitted = dc.estimators.PrivateLogisticRegression(**options, records=500).fit(frame, target="ill")
    assert fitted.coef_[0, 0] > 0.3
    counted = dc.estimators.PrivateNaiveBayes(**options, draws=50, random_state=0).fit(frame, target="ill")
    assert counted.predict([["0", "f"], ["6", "f"]]).tolist() == ["n", "y"]
    over = dc.designs.Design((dc.Variable("age", bounds=(0, 6)),), None, None)
    schema = dc.Schema((dc.Variable("age", bounds=(0, 6)),))
    rows = dc.designs.read_rows(over, dc.read_records(frame, schema))
    assert np.array_equal(np.sort(rows.coordinates[:, 0]), np.sort(np.rint((np.arange(500) % 7 / 3 - 1) * 4096)))


def in_spark_and_in_a_file(tmp_path: Path) -> tuple[Any, Path]:
    """The same 500 records with a number, a state, a gap, and a number and a class to predict."""
    path = tmp_path / "visits.parquet"
    session = spark()._session
    columns = ("id % 7 + id / 1000 AS age", "IF(id % 3 = 0, 'm', 'f') AS sex", "IF(id % 5 = 0, NULL, id % 11) AS score",
               "id % 13 / 3 AS days", "IF(id % 7 > 3, 'y', 'n') AS ill")  # fmt: skip
    frame = session.range(0, 500, 1, 5).selectExpr(*columns)
    frame.toPandas().to_parquet(path)
    return frame, path


AGE, SEX = dc.Variable("age", bounds=(0, 7)), dc.Variable("sex", ("f", "m"))
SCORE = dc.Variable("score", bounds=(0, 10), missing="none")
COLUMNS = (AGE, SEX, SCORE)
TARGETS = (dc.Variable("days", bounds=(0, 4)), dc.Variable("ill", ("n", "y")))


def rows_over(source: Any, target: dc.Variable) -> dc.designs.Rows:
    """Rows of the columns, of a source."""
    over = dc.designs.Design(features_of(COLUMNS), target)
    records = dc.read_records(source, dc.Schema((*COLUMNS, target)), missing="keep", out_of_bounds="clip")
    return dc.designs.read_rows(over, records, columns=COLUMNS, target_column=target)


def sums_over(source: Any) -> list[np.ndarray]:
    """All sums of integers that mechanisms take of a design."""
    gradients = dc.designs.sum_gradients(rows_over(source, TARGETS[1]))
    theta = np.linspace(-1, 2, gradients.over.weights)
    moments = dc.designs.sum_moments(rows_over(source, TARGETS[0])).values
    return [moments, gradients.at(theta), gradients.signed(), *gradients.curvature(theta)]


def test_executors_sum_the_integers_of_a_file_and_no_record_comes_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, path = in_spark_and_in_a_file(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(sources, "_read_batches", lambda *_: pytest.fail("records come here"))
        there = sums_over(frame)
    assert all(map(np.array_equal, there, sums_over(path)))
    rows = rows_over(frame, TARGETS[1])
    theta = np.linspace(-1, 2, rows.design.weights)
    for one, other in zip(
        *(dc.designs.sum_gradients(each).expansion(theta) for each in (rows, rows_over(path, TARGETS[1]))), strict=True
    ):
        assert np.abs(one - other).max() < 1e-9


def without_package(*_: Any) -> Any:
    """Fail as Python does on an executor that lacks the package."""
    raise ModuleNotFoundError("No module named 'discreet'")


def test_executors_without_the_package_leave_the_records_to_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, path = in_spark_and_in_a_file(tmp_path)
    monkeypatch.setattr(executors, "_sum_partition", without_package)
    with pytest.warns(UserWarning, match="executors could not run this package"):
        there = sums_over(frame)
    assert all(map(np.array_equal, there, sums_over(path)))


def test_a_fault_on_an_executor_is_refused_by_its_column(tmp_path: Path) -> None:
    frame, _ = in_spark_and_in_a_file(tmp_path)
    with pytest.raises(dc.InputError, match="'days'"):
        rows_over(frame.selectExpr("age", "sex", "score", "IF(days > 3.9, NULL, days) AS days", "ill"), TARGETS[0])


def test_a_task_that_fails_leaves_no_record_on_the_screen() -> None:
    """In a process of its own, all of whose output is seen; its executor writes there, too."""
    spark()
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": "--master local[1] pyspark-shell"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=Path(__file__).parent, env=environment, text=True,
                          capture_output=True, timeout=CALM_S, check=False)  # fmt: skip
    assert done.returncode == 0 and done.stdout.count("records could not be read") == 6, done.stderr[-2000:]
    assert CANARY not in done.stdout + done.stderr


def kill_a_worker_in_the_midst(session: Any) -> bool:
    """Kill a worker with its executor when some tasks of a job are done; whether more of them were not."""
    tracker = session.sparkContext.statusTracker()
    while True:
        for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()):
            if stage and stage.numTasks == PARTS and stage.numCompletedTasks >= 3:
                cluster.running().kill_worker()
                return bool(stage.numCompletedTasks < PARTS / 2)
        time.sleep(0.02)


def test_a_worker_that_is_killed_in_the_midst_changes_no_integer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What it had counted is counted again, and the release is charged once."""
    if not on_cluster():
        pytest.skip("a worker can be killed on a cluster of the tests' own alone: `make test-spark` starts one")
    session = spark()._session
    while session._jsc.sc().getExecutorMemoryStatus().size() < 3:  # this process is one of them
        time.sleep(0.1)
    # Each part sleeps once, whichever columns are read of it.
    slow = f"id % {ROWS // PARTS} > 0 OR coalesce(reflect('java.lang.Thread', 'sleep', 200L), '') <> 'x'"
    spark().raw_sql(
        "CREATE OR REPLACE TEMPORARY VIEW slow AS SELECT if(id % 5 < 2, 'a', 'b') AS x, if(id % 7 < 3, 'a', 'b') AS y "
        f"FROM range(0, {ROWS}, 1, {PARTS}) WHERE {slow}"
    )
    run = shell.opened(tmp_path, monkeypatch, capfd)
    (tmp_path / "slow.bif").write_text(
        "network slow { }\n"
        + "".join(f"variable {name} {{ type discrete [ 2 ] {{ a, b }}; }}\n" for name in "xy")
        + "probability ( x ) { }\nprobability ( y | x ) { }\n"
    )
    killed, counted, statistic_of = [], [], crossing.statistic_of

    def watched(*given: Any) -> Any:
        killer = threading.Thread(target=lambda: killed.append(kill_a_worker_in_the_midst(session)), daemon=True)
        killer.start()
        counted.append(statistic_of(*given))
        killer.join(CALM_S)
        return counted[0]

    monkeypatch.setattr(crossing, "statistic_of", watched)
    code, _, err = run(
        "release spark:// --table slow --network slow.bif --account add-remove --epsilon 1 --output r.json"
    )
    cluster.running().start_worker()
    assert (code, killed, shell.charges()) == (0, [True], 1), err
    wanted, at = np.zeros((2, 2), np.int64), np.arange(ROWS)
    np.add.at(wanted, (np.int64(at % 5 >= 2), np.int64(at % 7 >= 3)), 1)
    assert counted[0].tables["y"].tolist() == wanted.tolist()


def test_spark_reads_a_table_by_its_parts_and_a_stopped_session_is_refused(tmp_path: Path) -> None:
    base, held = spark(), table()
    path = on_parquet(held, tmp_path, False)["source"]
    base.raw_sql(f"CREATE DATABASE IF NOT EXISTS clinic LOCATION '{tmp_path / 'clinic'}'")
    base.raw_sql(f"CREATE TABLE clinic.visits USING parquet AS SELECT * FROM parquet.`{path}`")
    wanted = outcome({"source": path})
    for name in ("clinic.visits", "spark_catalog.clinic.visits"):
        assert outcome({"source": "spark://", "table": name}) == wanted
    for name in ("clinic.nothing", "nowhere.visits", "nothing"):
        with pytest.raises(dc.InputError):
            dc.read_records("spark://", CHAIN.schema, table=name)
    base.raw_sql("DROP DATABASE clinic CASCADE")
    records = dc.read_records(on_spark(held, tmp_path, False)["source"], CHAIN.schema)
    base._session.stop()
    spark.cache_clear()
    with pytest.raises(dc.InputError, match="has its session been stopped"):
        dc.count(records, CHAIN)
