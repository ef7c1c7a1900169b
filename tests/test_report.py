"""A report says what was promised and what the release says, as text: nothing in it is run, loaded or misread."""

from __future__ import annotations

import hashlib
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.errors import printable
from shell import RELEASE, Shell, opened

HOSTILE = dc.Variable('<script>alert("x")</script>', ("<b>no</b>", "a|b & `c`", "*yes*"))
VOID = {"meta", "br", "path", "rect", "circle"}


def released(guarantee: dc.Guarantee, variables: tuple[dc.Variable, ...] = (HOSTILE,)) -> dc.Release:
    """A simulated release of made-up records of variables without arcs."""
    network = dc.Network.empty(variables)
    rng = np.random.default_rng(1)
    codes = {one.name: rng.integers(one.size, size=500) for one in variables}
    counts = dc.tools.count_codes(network, codes)
    return dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network), guarantee, rng=2)


def promised(relation: str, *, epsilon: str = "1", delta: str = "0", unit: str = "patient") -> dc.Guarantee:
    """A guarantee."""
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit=unit)


class Page(HTMLParser):
    """Elements of a page, its text, and whether they close in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Note its end."""
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note text that a reader sees."""
        if self.open and self.open[-1] not in ("style", "title", "desc"):
            self.text.append(data)

    @property
    def words(self) -> str:
        """The text in one line."""
        return " ".join(" ".join(self.text).split())


# --------------------------------------------------------------------------------------------------- the promise


@pytest.mark.parametrize(
    ("guarantee", "said", "unsaid"),
    [
        (
            promised("add-remove", epsilon="0.5"),
            [
                "odds that the record of any one patient is among the records move by a factor of at most 1.65 (e^0.5)",
                "had that record not been used",
                "between any two values that the record of any one patient may have move by a factor of at most 2.72",
                "(e^1), compared in the same way",
            ],
            ["not protected", "reveals everything", "anybody could conclude"],
        ),
        (
            promised("replace"),
            [
                "between any two values that the record of any one patient may have move by a factor of at most 2.72",
                "(e^1), compared with what anybody would believe had the other of the two stood in its place",
                "not protected",
                "number is public",
            ],
            ["is among the records move", "had that record not been used"],
        ),
        (
            promised("add-remove", delta="0.00001", unit="record"),
            [
                "The odds that any one record is among",
                "a chance of 1e-05 (about 1 in 100,000), of values 3.72e-05 (about 1 in 26,894),",
            ],
            ["more than this"],
        ),
    ],
)
def test_the_promise_is_said_in_words_and_symbols(guarantee: dc.Guarantee, said: list[str], unsaid: list[str]) -> None:
    mechanism = dc.gaussian() if guarantee.delta else dc.laplace()
    network = dc.Network.empty([dc.Variable("ill", ("no", "yes"))])
    counts = dc.tools.count_codes(network, {"ill": [0, 1, 1]})
    made = dc.simulate(mechanism, counts, dc.Dirichlet.uniform(network), guarantee, rng=1)
    words = Page(dc.report(made, rng=1)).words
    for part in (*said, "k times the epsilon", "P(M(D) in S) <= e^"):
        assert part in words
    for part in unsaid:
        assert part not in words
    assert "protects nobody" in words  # a simulation


def test_under_a_metric_nothing_is_promised_of_records() -> None:
    wait = dc.Variable("wait", bounds=(0, 60), bins=(10, 20, 30))
    network = dc.Network.empty([wait])
    nearest = dc.research.own_score(network, lambda t, z: -abs(t["wait"][:, None] - z[:, 0]), [10, 30], low=-60, high=0)
    counts = dc.tools.count_codes(network, {"wait": [0, 1, 3]})
    guarantee = promised("metric", unit="1 minute in one wait")
    made = dc.simulate(dc.research.scored(nearest), counts, dc.Dirichlet.uniform(network), guarantee, rng=1)
    words = Page(dc.report(made, rng=1)).words
    assert "apart by 1 minute in one wait" in words and "Nothing is promised of whole records" in words
    assert "k times the epsilon" not in words and "discreet audit" not in words


def test_what_was_done_with_records_and_units_is_said(tmp_path: Path) -> None:
    import pyarrow as pa

    network = dc.Network.empty([dc.Variable("ill", ("no", "yes"))])
    table = pa.table({"ill": ["no", "yes", None, "no"], "who": [1, 1, 2, 3]})
    records = dc.read_records(table, network.schema, missing="drop", unit_column="who", max_records=1)
    account = dc.Ledger(f"sqlite:///{tmp_path / 'l.db'}").open("a", promised("add-remove", epsilon="3"))
    made = dc.release(
        dc.laplace(), dc.count(records, network), dc.Dirichlet.uniform(network), promised("add-remove"), account=account
    )
    words = Page(dc.report(made, rng=1, balance=account.balance())).words
    assert "told apart by column 'who'" in words
    assert "records with a missing value were left out" in words
    assert "spent epsilon 1 of at most 3; epsilon 2 is left" in words
    assert "protects nobody" not in words
    assert hashlib.sha256(made.dumps().encode()).hexdigest() in words


# --------------------------------------------------------------------------------------------------- what it is


@pytest.mark.costly("Reports of networks with very many names.")
def test_names_are_listed_to_the_end_or_their_number_is_said() -> None:
    """Long names and many: what is not written is counted, and the state of missing values is no bin."""
    long = tuple(f"a state with a rather long name, number {number}" for number in range(15))
    parents = tuple(dc.Variable(f"a parent with a rather long name {letter}", ("no", "yes")) for letter in "abcde")
    child, wait = dc.Variable("child", long), dc.Variable("wait", bounds=(0, 60), bins=(10, 20), missing="unknown")
    arcs: dict[str, tuple[str, ...]] = {one.name: () for one in (*parents, wait)}
    network = dc.Network((*parents, child, wait), {**arcs, "child": tuple(one.name for one in parents)})
    counts = dc.tools.count_codes(network, {one.name: np.zeros(50, int) for one in network.variables})
    made = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network), promised("replace"), rng=1)
    words = dc.report(made, form="markdown")
    assert f"* child: {', '.join(long[:12])} and 3 more states\n" in words
    assert f"| child | {', '.join(one.name for one in parents)} |" in words
    assert "* wait: numbers from 0 to 60, in 3 bins, or unknown\n" in words
    assert f"# Private release of {', '.join(one.name for one in parents[:3])} and 4 more variables\n" in words


def test_its_commands_can_be_pasted() -> None:
    name = "my release; `rm`\n.json"
    page = dc.report(released(promised("replace")), rng=1, form="markdown", name=name)
    (line,) = [line for line in page.splitlines() if line.startswith("sha256sum")]
    assert line == r"sha256sum 'my release; `rm`\n.json'"


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_names_are_text_whatever_is_in_them(form: str) -> None:
    made = released(promised("replace"))
    page = dc.report(made, rng=1, form=form)  # type: ignore[arg-type]
    if form == "markdown":
        assert not re.search(r"(?<!\\)<(script|b)>", page)
        assert r"a\|b & \`c\`" in page
        return
    read = Page(page)
    assert read.open == []
    assert not {"script", "b", "link", "img", "iframe", "object", "form"} & set(read.tags)
    assert not any(name.startswith("on") or name in ("src", "href") for name, _ in read.attributes)
    assert HOSTILE.name in read.words and "a|b & `c`" in read.words
    assert "url(" not in page and "@import" not in page


def test_numbers_are_those_of_answers() -> None:
    made = released(promised("replace"), (dc.Variable("ill", ("no", "yes")), dc.Variable("old", ("no", "yes"))))
    posterior = made.posterior(rng=1)
    read = Page(dc.report(made, posterior=posterior))
    for answer in dc.marginals(posterior):
        for row in answer.rows:
            assert f"{row['mean']:.4f}" in read.words
            assert f"{row['lower']:.4f} to {row['upper']:.4f}" in read.words
    assert read.tags.count("main") == 1 and ("lang", "en") in read.attributes
    assert all(role == "img" for name, role in read.attributes if name == "role" and role != "region")


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_network_is_drawn_with_what_is_not_known_of_it(level: float) -> None:
    coin, dull = dc.Variable("coin", ("heads", "tails")), dc.Variable("<dull>", ("only",))
    release = released(promised("replace"), (coin, dull))
    posterior = release.posterior(rng=3)
    page = dc.report(release, posterior=posterior, level=level)
    ends = np.quantile(posterior.probabilities["coin"], [(1 - level) / 2, (1 + level) / 2], axis=-1)
    width = float(np.mean(ends[1] - ends[0]))
    assert f"<title>coin: heads, tails; intervals {width:.2g} wide on average</title>" in page
    bars = {
        float(end) - float(left): float(full) - float(left)
        for left, full, end in re.findall(r'd="M([\d.]+) \d+H([\d.]+)"[^>]*/>\s*<path d="M[\d.]+ \d+H([\d.]+)"', page)
    }
    assert len(bars) == 2 and 0.0 in bars  # a variable of one state is certain
    assert max(bars) / bars[max(bars)] == pytest.approx(width, abs=0.01)
    text = dc.report(release, posterior=posterior, level=level, form="markdown")
    assert f"| coin |  | {width:.2g} |" in text and r"| \<dull\> |  | 0 |" in text


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_beliefs_are_those_that_the_factors_allow(form: str) -> None:
    for relation, value in (("add-remove", 2.0), ("replace", 1.0)):
        text = dc.report(released(promised(relation)), form=form, rng=1)  # type: ignore[arg-type]
        after = [100 / (1 + (1 / before - 1) / math.exp(value)) for before in (0.01, 0.5)]
        assert all(f"{one:.3g} %" in text for one in after)
        there = 100 / (1 + 99 / math.exp(1.0))
        assert (f"{there:.3g} %" in text) and ("that a record is there" in text) == (relation == "add-remove")
        assert "before the release" in text and "measured" in text


def with_gaps() -> dc.Release:
    """A simulated release that kept missing values as a state."""
    ill = dc.Variable("ill", ("no", "yes"), missing="gap")
    network = dc.Network.from_edges([("old", "ill")], [dc.Variable("old", ("no", "yes")), ill])
    rows = {"old": ["no", "yes", "yes", "no"] * 100, "ill": ["no", "yes", None, "no"] * 100}
    records = dc.read_records(pa.table(rows), network.schema, missing="keep")
    return dc.simulate(
        dc.laplace(), dc.count(records, network), dc.Dirichlet.uniform(network), promised("replace"), rng=1
    )


def test_a_release_that_kept_missing_values_is_reported_as_it_is_asked() -> None:
    made = with_gaps()
    posterior = dc.tools.assume_at_random(made.posterior(rng=1))
    page = Page(dc.report(made, posterior=posterior))
    for answer in dc.marginals(posterior):
        for row in answer.rows:
            assert f"{row['lower']:.4f} to {row['upper']:.4f}" in page.words
    assert "missing at random given what was seen" in page.words
    assert "missing at random given what was seen" not in dc.report(made, rng=1, form="markdown")


def test_a_release_over_a_design_says_who_reads_it() -> None:
    design = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("days", bounds=(0, 40)))
    rows = dc.designs.read_rows(design, [[45.0], [90.0]], [10.0, 40.0])
    guarantee = promised("replace")
    made = dc.simulate(
        dc.designs.noisy_moments(), dc.designs.sum_moments(rows), dc.designs.Normal(design, 1.0), guarantee, rng=1
    )
    words = Page(dc.report(made)).words
    assert "discreet query" in words and "age, days" in words
    assert "Every variable" not in words


def test_what_is_no_report_is_refused() -> None:
    made = released(promised("replace"))
    with pytest.raises(dc.InputError, match="html or markdown"):
        dc.report(made, form="pdf")  # type: ignore[arg-type]
    with pytest.raises(dc.InputError, match="a release or combined releases were expected, not str"):
        dc.report("release.json")  # type: ignore[arg-type]
    other = released(promised("replace"), (dc.Variable("x", ("n", "y")),)).posterior(draws=50, rng=1)
    with pytest.raises(dc.InputError, match="another network"):
        dc.report(made, posterior=other)


# --------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    shell = opened(tmp_path, monkeypatch, capfd)
    assert shell(RELEASE)[0] == 0
    return shell


def test_commands_take_releases_that_kept_missing_values(run: Shell) -> None:
    with_gaps().save("gaps.json")
    assert run("report gaps.json --output gaps.html")[0] == 0
    assert "missing at random given" not in Path("gaps.html").read_text(encoding="utf-8")
    ask = "decide gaps.json --missing at-random --query 'P(ill | old=yes)' --payoffs"
    code, out, _ = run(f"""{ask} '{{"see": {{"yes": 1, "no": 0}}, "leave": {{"yes": 0, "no": 1}}}}'""")
    assert code == 0 and "see" in out
    told = run.fails(f"""{ask} '{{"see": {{"yes": 1, "not": 0}}, "leave": {{"yes": 0, "no": 1}}}}'""")
    assert "must name every state of 'ill' once: 'no', 'yes'" in told
    both = '{"see": {"yes": 1, "no": 0}, "leave": {"yes": 0, "no": 1}}'
    told = run.fails(f"{ask.replace('--missing at-random', '')} '{both}'")
    assert "'no', 'yes', 'gap'" in told
    assert "the noise share is not available" in run("query gaps.json 'P(ill)' --missing at-random")[1]


@pytest.mark.costly("The commands that a report prints are run.")
def test_the_command_writes_both_forms(run: Shell) -> None:
    assert run.json("report r.json --output r.html --account add-remove --draws 200") == {
        "output": "r.html",
        "format": "html",
    }
    page = Page(Path("r.html").read_text(encoding="utf-8"))
    assert "of this account together" in page.words and "sha256sum r.json" in page.words
    run.json("draw r.json --output r.draws --draws 200 --seed 3")
    run.json("report r.draws --output r.md")
    commands = Path("r.md").read_text(encoding="utf-8").partition("```\n")[2].partition("```")[0].splitlines()
    assert commands[0] == "sha256sum release.json"  # draws are no release
    Path("release.json").write_bytes(Path("r.json").read_bytes())
    assert hashlib.sha256(Path("r.json").read_bytes()).hexdigest() in Path("r.md").read_text(encoding="utf-8")
    for command in commands[1:]:
        assert run(command.removeprefix("discreet "))[0] == 0, command
    told = run.json("query r.draws")["answers"][0]["values"][0]
    assert f"| {told['mean']:.4f} | {told['lower']:.4f} to {told['upper']:.4f} |" in Path("r.md").read_text()
    assert "exists" in run.fails("report r.json --output r.html")
    assert "did not pay" in run.fails("report r.json --output s.html --account replace") and not Path("s.html").exists()
    assert ".html or .md" in run.fails("report r.json --output r.pdf")


# --------------------------------------------------------------------------------------------------- small pictures


def test_an_interval_says_in_words_what_it_draws() -> None:
    from discreet.display.charts import interval_bar, line_chart

    bar = interval_bar(0.3, 0.2, 0.5, noise=0.75)
    assert "0.3, interval from 0.2 to 0.5, 75 % of its variance is noise" in bar
    starts = [float(found) for found in re.findall(r'd="M([\d.]+) 9.0H', bar)]
    assert starts[1] < starts[2]  # the whisker begins before what sampling alone makes
    whole, part = 172 * 0.1, 172 * 0.1 * math.sqrt(0.25)
    assert starts[2] - starts[1] == pytest.approx(whole - part, abs=0.11)
    chart = line_chart({"<i>": [(1, 0.5), (10, 0.1)], "b": [(1, 0.4), (10, 0.1)]}, title="t", x_label="x", y_label="y")
    assert "&lt;i&gt;" in chart and "<i>" not in chart
    heights = [float(found) for found in re.findall(r'<text x="464" y="([\d.]+)"', chart)]
    assert abs(heights[0] - heights[1]) >= 15
    assert printable("a\nb") == "a\\nb"
