"""A folded test fails where one of its cases fails, names each that does, and runs the others."""

from __future__ import annotations

import pytest

import folding
from folding import every


def failures(test: folding.Test) -> list[str]:
    """The names of the cases with which a folded test fails."""
    with pytest.raises(BaseExceptionGroup) as caught:
        test()
    return [note for failure in caught.value.exceptions for note in failure.__notes__]


def test_all_cases_run_and_all_that_fail_are_named() -> None:
    ran = []

    @every("number", range(5))
    def small(number: int) -> None:
        ran.append(number)
        assert number not in (1, 3)

    assert failures(small) == ["the case: 1", "the case: 3"]
    assert ran == [0, 1, 2, 3, 4]


def test_cases_that_hold_pass_and_each_gets_its_values() -> None:
    ran = []

    @every("one, two", [(1, "a"), pytest.param(2, "b", id="the second")])
    @every("other", [True, False])
    def pair(one: int, two: str, other: bool) -> None:
        ran.append((one, two, other))

    pair()
    assert sorted(ran) == [(1, "a", False), (1, "a", True), (2, "b", False), (2, "b", True)]


def test_a_failure_of_pytest_is_a_failure() -> None:
    """`pytest.raises` fails with what is no `Exception`."""

    @every("kind", [ValueError, KeyError])
    def raises(kind: type[Exception]) -> None:
        with pytest.raises(ValueError):
            raise ValueError if kind is ValueError else LookupError
        with pytest.raises(kind):
            pass

    assert failures(raises) == ["the case: ValueError", "the case: KeyError"]


def test_a_skipped_case_is_reported_and_hides_no_failure() -> None:
    def check(number: int) -> None:
        if number == 0:
            pytest.skip("no peer")
        assert number < 9

    with pytest.raises(pytest.skip.Exception, match=r"1 of 3 cases, the others held: 0 \(no peer\)"):
        every("number", range(3))(check)()
    assert failures(every("number", [0, 9])(check)) == ["the case: 9"]


def test_two_cases_of_one_name_both_run() -> None:
    def check(one: object) -> None:
        raise AssertionError

    assert len(failures(every("one", [1, "1"])(check))) == 2
    assert failures(every("one", [1, 2], ids=["a", "b"])(check)) == ["the case: a", "the case: b"]


def test_what_it_cannot_fold_is_refused() -> None:
    def with_folder(one: int, tmp_path: object) -> None: ...

    def alone(one: int) -> None: ...

    with pytest.raises(TypeError, match="would share tmp_path"):
        every("one", [1])(with_folder)
    with pytest.raises(TypeError, match="mark"):
        every("one", [pytest.param(1, marks=pytest.mark.slow)])(alone)
    with pytest.raises(ValueError, match="no cases"):
        every("one", [])(alone)
    with pytest.raises(ValueError):
        every("one, two", [(1, 2, 3)])(alone)


@pytest.fixture
def seven() -> int:
    return 7


@pytest.mark.parametrize("outer", [1, 2])
@every("one", [1, 2])
def test_other_fixtures_and_parameters_are_passed_through(outer: int, one: int, seven: int) -> None:
    assert seven == 7 and {outer, one} <= {1, 2}
