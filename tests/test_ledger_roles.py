"""Roles on a server: whoever may only charge cannot do anything else, whatever SQL they send; auditors only read."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import discreet as dc
import postgres
from discreet.privacy.gaussian_loss import KEPT_SHARE, largest_rho
from discreet.privacy.ledger_grants import SPENDING, Grant, grant, grant_sql
from discreet.privacy.ledger_losses import with_loss
from folding import every
from postgres import Server

numbers = itertools.count()
ROLES = ("ann", "ben", "olga", "aud", "nobody_known")
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


def spend(epsilon: object, delta: object = 0) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation="add-remove", unit="record")


@dataclass(frozen=True)
class Team:
    """A database with accounts "a", which ann charges, and "b", which ben does; olga opened them, and aud reads."""

    server: Server
    base: str

    def url(self, role: str) -> str:
        return self.server.url(self.base, role)

    def account(self, role: str, name: str = "a") -> dc.results.Account:
        return dc.Ledger(self.url(role)).account(name)

    @contextmanager
    def connected(self, role: str, *, autocommit: bool = True) -> Iterator[Any]:
        """A connection of the driver's own, which sends what it likes."""
        psycopg = pytest.importorskip("psycopg")
        with psycopg.connect(self.url(role).replace("+psycopg", ""), autocommit=autocommit) as connection:
            yield connection

    def refusal(self, role: str, statement: str, values: Any = None) -> tuple[str, str]:
        """The code and the words with which the server refuses a statement; of several, the last."""
        psycopg = pytest.importorskip("psycopg")
        with self.connected(role) as connection:
            *before, last = statement.split(";; ")
            for one in before:
                connection.execute(one)
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(last, values)
        return caught.value.sqlstate, str(caught.value)

    def run(self, statement: str) -> str:
        """As the superuser."""
        return self.server.run(statement, self.base)

    def state(self) -> str:
        """Everything in the tables."""
        tables = ("entries", "balances", "spenders", "ledger")
        return self.run("; ".join(f"SELECT md5(string_agg(t::text, ',' ORDER BY t)) FROM discreet.{one} t"
                                  for one in tables))  # fmt: skip

    def functions(self, role: str) -> set[str]:
        """Functions of the ledger that a role may call."""
        statement = (
            "SELECT proname FROM pg_proc WHERE pronamespace = 'discreet'::regnamespace "
            f"AND has_function_privilege('{role}', oid, 'EXECUTE')"
        )
        return set(self.run(statement).split())


def permit(server: Server, base: str) -> None:
    """Make the ledger in a database, its owner, and give each role what it may do."""
    grants = (Grant("opener", "olga"), Grant("spender", "ann", "a"), Grant("spender", "ben", "b"),
              Grant("auditor", "aud"))  # fmt: skip
    server.run(";\n".join(grant_sql(grants)), base)


@cache
def make_model(server: Server) -> str:
    """The database that each test gets a copy of."""
    server.run("; ".join(f"CREATE ROLE {role} LOGIN" for role in ROLES))
    server.make_base("model")
    permit(server, "model")
    with Team(server, "model").connected("olga") as connection:
        for name in ("a", "b"):
            connection.execute("SELECT discreet.open(%s, '1', '1/10', 'add-remove', 'record')", [name])
    return "model"


def made(server: Server) -> Team:
    """A team with a database of its own."""
    team = Team(server, f"team{next(numbers)}")
    server.run(f"CREATE DATABASE {team.base} TEMPLATE {make_model(server)}")
    return team


@pytest.fixture
def team(server: Server) -> Team:
    return made(server)


CHARGE = "SELECT * FROM discreet.charge(%s, %s, %s, %s, %s)"


# ------------------------------------------------------------------------------------------------------ what they may


def test_each_role_does_its_part_and_the_account_says_who_did_it(team: Team) -> None:
    team.account("ann").charge("r", "laplace", spend("0.25"))
    team.account("olga").lower(spend("0.5"))
    team.account("ben", "b").charge("s", "laplace", spend(1))
    team.account("olga", "b").close()
    entries = [team.account("aud", name).export()["entries"] for name in ("a", "b")]
    assert [[(entry["kind"], entry["who"]) for entry in some] for some in entries] == [
        [("opened", "olga"), ("charged", "ann"), ("limited", "olga")],
        [("opened", "olga"), ("charged", "ben"), ("closed", "olga")],
    ]
    assert dc.Ledger(team.url("ann")).paid("s")[0] == "b"  # all of them read everything
    with pytest.raises(dc.BudgetError, match=r"epsilon asked 0\.3, spent 0\.25 of 0\.5, left 0\.25"):
        team.account("ann").charge("q", "laplace", spend("0.3"))


def test_a_role_may_call_what_it_needs_and_nothing_else(team: Team) -> None:
    found = {role: team.functions(role) for role in ROLES}
    assert found.pop("olga") - {"settled"} == {"open", "lower", "close", "permit"}
    assert found == {"ann": {"charge", "settled"}, "ben": {"charge", "settled"}, "aud": set(), "nobody_known": set()}
    owner = "SELECT rolcanlogin, rolsuper FROM pg_roles JOIN pg_namespace ON nspowner = pg_roles.oid " \
            "WHERE nspname = 'discreet'"  # fmt: skip
    assert team.run(owner) == "f|f"
    assert team.run("SELECT count(*) FROM pg_proc WHERE pronamespace = 'discreet'::regnamespace AND "
                    "NOT proconfig::text LIKE '%search_path=pg_catalog, pg_temp%'") == "0"  # fmt: skip


@every(
    ("role", "name", "words"),
    [("ann", "b", "not a spender of this account"), ("aud", "a", "permission denied for function charge"),
     ("olga", "a", "permission denied for function charge")],
)  # fmt: skip
def test_python_says_in_one_line_who_may_not_charge(team: Team, role: str, name: str, words: str) -> None:
    before = team.state()
    with pytest.raises(
        dc.InputError, match=rf"this user may not do that in ledger .*{words}.*nothing was charged"
    ) as e:
        team.account(role, name).charge("r", "laplace", spend("0.1"))
    assert "\n" not in str(e.value) and not isinstance(e.value, dc.BudgetError)
    assert team.state() == before


def test_a_role_that_was_granted_nothing_is_refused_in_one_line(team: Team) -> None:
    with pytest.raises(dc.InputError, match=r"permission denied for schema discreet.*nothing was charged") as caught:
        dc.Ledger(team.url("nobody_known"))
    assert "\n" not in str(caught.value)


def test_a_spender_through_a_group_is_named_and_not_the_group(team: Team) -> None:
    team.run("DO $$ BEGIN CREATE ROLE crew; GRANT crew TO ann; EXCEPTION WHEN duplicate_object THEN NULL; END $$; "
             "GRANT USAGE ON SCHEMA discreet TO crew; "
             f"GRANT EXECUTE ON FUNCTION {SPENDING[0]} TO crew; "
             "SELECT discreet.permit('b', 'crew')")  # fmt: skip
    with team.connected("ann") as connection:
        connection.execute("SET ROLE crew")
        connection.execute(CHARGE, ("b", "r", "laplace", "1/2", "0"))
    last = team.account("aud", "b").verify()
    assert (last.user, last.sequence, last.epsilon_spent) == ("ann", 1, "1/2")


# -------------------------------------------------------------------------------------------------- what they may not

NO_NUMBERS = (
    "-1", "-1/10", "+1", "NaN", "nan", "Infinity", "-Infinity", "inf", "0.1", ".1", "1.", "1e-1", "1E0", "2/20", "0/5",
    "10/1", "1/0", "1/-2", "-1/-2", " 1", "1 ", "1\n", "\n1", "01", "1/010", "", "/", "1/", "/2", "1/2/3", "0x1", "1_0",
    "1,0", "٣", "½", "1; DROP TABLE discreet.entries", None, "9" * 6200, "true",
)  # fmt: skip


@every("value", NO_NUMBERS, ids=repr)
def test_an_amount_is_a_reduced_fraction_without_a_sign(team: Team, value: str | None) -> None:
    before = team.state()
    for amounts in ((value, "0"), ("1/10", value)):
        code, words = team.refusal("ann", CHARGE, ("a", "r", "laplace", *amounts))
        assert code == "DP008" and "not a whole number or a reduced fraction, without a sign" in words
    assert team.state() == before


@every("amounts", [("0", "0"), ("1/10", "1"), ("1/10", "3/2"), ("0", "1/10")])
def test_epsilon_is_positive_and_delta_below_one(team: Team, amounts: tuple[str, str]) -> None:
    code, words = team.refusal("ann", CHARGE, ("a", "r", "laplace", *amounts))
    assert code == "DP008" and "epsilon is positive, and delta below 1" in words
    assert team.account("aud").verify().sequence == 0


@every(
    "amounts",
    [("1/1" + "0" * 5000, "0"), ("1/10", "1/1" + "0" * 3500), ("1/" + "7" * 3100, "0")],
    ids=["epsilon", "delta", "just beyond"],
)
def test_no_spender_can_charge_more_digits_than_python_reads(team: Team, amounts: tuple[str, str]) -> None:
    code, _ = team.refusal("ann", CHARGE, ("a", "r", "laplace", *amounts))
    assert code in ("DP008", "DP011")
    account = team.account("aud")
    assert account.verify().sequence == 0 and account.balance().epsilon_spent == 0


@every(
    ("position", "value"),
    [
        (1, ""), (1, None), (1, "x" * 81), (1, "r\n"), (1, "r\x1b[2J"), (2, ""), (2, None), (2, "m" * 81), (2, "m\t"),
        (5, "p\r"), (5, None), (5, "p" * 81), (6, "q\x07"), (6, None), (6, "q" * 81),
    ],
)  # fmt: skip
def test_texts_are_short_and_have_no_control_characters(team: Team, position: int, value: str | None) -> None:
    values: list[str | None] = ["a", "r", "laplace", "1/10", "0", "", ""]
    values[position] = value
    code, words = team.refusal("ann", "SELECT discreet.charge(%s, %s, %s, %s, %s, %s, %s)", values)
    assert code == "DP008" and "at most 80 characters" in words
    assert team.account("aud").verify().sequence == 0


def test_the_limit_holds_within_one_statement_one_transaction_and_to_the_last_digit(team: Team) -> None:
    many = "SELECT count(*) FROM generate_series(1, {}) AS i, LATERAL discreet.charge('a', 'r' || i, 'm', '1/10', '0')"
    assert team.refusal("ann", many.format(11))[0] == "DP001"
    assert team.account("aud").verify().sequence == 0
    with team.connected("ann") as connection:
        assert connection.execute(many.format(10)).fetchone() == (10,)
    tiny = "1/1" + "0" * 300
    assert team.refusal("ann", CHARGE, ("a", "s", "m", tiny, "0"))[0] == "DP001"
    twice = (
        "BEGIN;; SELECT discreet.charge('b', 'x', 'm', '2/3', '0');; SELECT discreet.charge('b', 'y', 'm', '2/3', '0')"
    )
    assert team.refusal("ben", twice)[0] == "DP001"
    assert team.account("aud").verify().epsilon_spent == "1" and team.account("aud", "b").verify().sequence == 0


@every("delta", ["1/10", "1/9"])
def test_delta_has_its_limit_too(team: Team, delta: str) -> None:
    if delta == "1/10":
        with team.connected("ann") as connection:
            connection.execute(CHARGE, ("a", "r", "m", "1/100", delta))
    assert team.refusal("ann", CHARGE, ("a", "s", "m", "1/100", delta))[0] == "DP001"
    assert team.account("aud").verify().delta_spent == "1/10"


@every(
    "statement",
    [
        "SELECT discreet.charge('a', 'r', 'm', '1/10', '0', '', '', '0', '0', '0', '0')",
        "SELECT discreet.charge('a', 'r', 'm', '1/10', '0', who => 'ben')",
        "SELECT discreet.charge('a', 'r', 'm', '1/10', '0', day => '2020-01-01')",
        "SELECT discreet.charge('a', 'r', 'm', '1/10', '0', sequence => 7)",
        "SELECT discreet.charge('a', 'r', 'm', '1/10', '0', epsilon_spent => '0')",
        "SELECT discreet.charge('a', 'r', 'm', 0.1, 0)",
    ],
)  # fmt: skip
def test_there_is_no_way_to_say_sums_places_people_or_days(team: Team, statement: str) -> None:
    code, words = team.refusal("ann", statement)
    assert code == "42883" and "does not exist" in words
    assert team.account("aud").verify().sequence == 0


@every("account", ["b", "c", "A", "a ", "", None])
def test_a_spender_charges_the_own_account_alone(team: Team, account: str | None) -> None:
    before = team.state()
    for statement in ("SELECT discreet.charge(%s, 'r', 'm', '1/10', '0')", "SELECT discreet.settled(%s, 'r')"):
        code, words = team.refusal("ann", statement, (account,))
        assert code == "DP007" and "not a spender of this account" in words
    assert team.state() == before


@every("role", ["ben", "olga", "discreet_owner", postgres.USER, "pg_write_all_data"])
@every("how", ["SET ROLE {}", "SET SESSION AUTHORIZATION {}", "GRANT {} TO ann", "ALTER ROLE {} RENAME TO x"])
def test_nobody_becomes_somebody_else(team: Team, role: str, how: str) -> None:
    code, words = team.refusal("ann", how.format(role))
    assert code in (("42501", "42939") if "RENAME" in how else ("42501",)), words
    with team.connected("ann") as connection:
        assert connection.execute("SELECT session_user::text, current_user::text").fetchone() == ("ann", "ann")


WRITES = {
    "insert": "INSERT INTO discreet.{0} SELECT * FROM discreet.{0}", "update": "UPDATE discreet.{0} SET {1} = {1}",
    "delete": "DELETE FROM discreet.{0}", "truncate": "TRUNCATE discreet.{0}",
    "copy": "COPY discreet.{0} FROM STDIN", "lock rows": "SELECT * FROM discreet.{0} FOR UPDATE",
    "share rows": "SELECT * FROM discreet.{0} FOR KEY SHARE",
    "lock": "BEGIN;; LOCK TABLE discreet.{0} IN ROW EXCLUSIVE MODE", "lock all": "BEGIN;; LOCK TABLE discreet.{0}",
    "merge": "MERGE INTO discreet.{0} t USING discreet.{0} s ON t.{1} = s.{1} WHEN MATCHED THEN DELETE",
}  # fmt: skip
TABLES = {"ledger": "version", "entries": "epsilon", "balances": "epsilon_limit", "spenders": "role"}


@every("role", ["ann", "olga", "aud"])
@every("table", TABLES)
@every("write", WRITES)
def test_no_table_can_be_written_or_locked(team: Team, role: str, table: str, write: str) -> None:
    code, words = team.refusal(role, WRITES[write].format(table, TABLES[table]))
    assert code == "42501" and f"permission denied for table {table}" in words


@every("write", ["insert", "update", "delete"])
def test_nor_can_the_view(team: Team, write: str) -> None:
    before = team.state()
    assert team.refusal("ann", WRITES[write].format("charges", "epsilon"))[0] == "42501"
    assert team.state() == before


@every(
    "statement",
    [
        "ALTER TABLE discreet.entries DISABLE TRIGGER ALL", "DROP TRIGGER append_only ON discreet.entries",
        "ALTER TABLE discreet.balances DROP CONSTRAINT balances_pkey", "ALTER TABLE discreet.entries OWNER TO ann",
        "DROP TABLE discreet.entries", "DROP INDEX discreet.one_charge_a_release", "DROP SCHEMA discreet CASCADE",
        "ALTER SCHEMA discreet RENAME TO other", "DROP FUNCTION discreet.append_only CASCADE",
        "ALTER FUNCTION discreet.plus(text, text) SET search_path = public",
        "ALTER FUNCTION discreet.charge SECURITY INVOKER", "ALTER FUNCTION discreet.charge RESET ALL",
        "CREATE OR REPLACE FUNCTION discreet.plus(a text, b text) RETURNS text LANGUAGE sql AS $$ SELECT '0' $$",
        "CREATE FUNCTION discreet.plus(a varchar, b varchar) RETURNS text LANGUAGE sql AS $$ SELECT '0' $$",
        "CREATE TABLE discreet.other (a text)", "CREATE TRIGGER mine BEFORE INSERT ON discreet.entries FOR EACH ROW "
        "EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger()",
        "CREATE RULE mine AS ON INSERT TO discreet.entries DO INSTEAD NOTHING",
        "CREATE INDEX ON discreet.entries (epsilon)", "ALTER TABLE discreet.spenders ADD COLUMN x text",
        "CREATE POLICY mine ON discreet.entries USING (true)", "SET session_replication_role = replica",
        "SET lo_compat_privileges = on", "ALTER ROLE ann SUPERUSER", "ALTER SYSTEM SET fsync = off",
        "GRANT INSERT ON discreet.entries TO ann;; INSERT INTO discreet.entries SELECT * FROM discreet.entries",
        "CREATE CAST (text AS discreet.entries) WITH INOUT",
        "CREATE FUNCTION pg_catalog.gcd(text, text) RETURNS text LANGUAGE sql AS $$ SELECT '1' $$",
        "UPDATE pg_catalog.pg_proc SET prosecdef = false", "SET allow_system_table_mods = on",
        "CREATE EVENT TRIGGER mine ON ddl_command_end EXECUTE FUNCTION discreet.append_only()",
        "COPY (SELECT 1) TO PROGRAM 'true'", "SELECT pg_read_file('postgresql.conf')", "CREATE EXTENSION file_fdw",
        "LOAD 'plpgsql'", "CHECKPOINT", "SELECT pg_reload_conf()", "SELECT pg_switch_wal()",
    ],
)  # fmt: skip
def test_nothing_of_the_ledger_or_the_server_can_be_altered(team: Team, statement: str) -> None:
    before = team.state()
    code, words = team.refusal("ann", statement)
    assert code in ("42501", "0LP01"), words
    assert team.state() == before


BALANCE = "('a','','100','0','0','0',-1,'','','0','0','0','0','0')"


@every(
    "call",
    [
        f"append(ROW{BALANCE}, NULL)", f"keep(ROW{BALANCE})", "locked('a')", "share('a', '')", "check_spender('a')",
        f"check_open(ROW{BALANCE})", f"fits(ROW{BALANCE})", f"keeps_limit(ROW{BALANCE})",
        f"charged(ROW{BALANCE}, NULL)", "gaussian_delta(1, 1)", "times('1', '2')", "minus('2', '1')",
        "plus('1', '1')", "exceeds('1', '2')", "digest('x')", "check_number('1', 'x')",
        "check_text('1', 'x', 1)", "is_member('ann')", "open('c', '1', '0', 'add-remove', 'record')",
        "lower('a', '', '1/2', '0')", "close('a')", "permit('b', 'ann')", "append_only()",
    ],
)  # fmt: skip
def test_a_spender_calls_no_other_function(team: Team, call: str) -> None:
    before = team.state()
    code, words = team.refusal("ann", f"SELECT discreet.{call}")
    assert code == "42501" and "permission denied for function" in words
    assert team.state() == before


@every(
    ("call", "code"),
    [
        ("lower('a', '', '2', '0')", "DP010"), ("lower('a', '', '1', '1/2')", "DP010"),
        ("lower('a', 'person ann', '2', '0')", "DP010"), ("lower('a', '', '-1', '0')", "DP008"),
        ("lower('a', '', '1/4', '0')", "DP013"), ("lower('a', '', '0', '0')", "DP013"),
        ("lower('a', 'nobody', '1/2', '0')", "DP008"), (f"lower('a', 'person {'x' * 81}', '1/2', '0')", "DP008"),
        ("lower('c', '', '1/2', '0')", "DP003"), ("open('a', '100', '0', 'add-remove', 'record')", "DP009"),
        ("open('b', '100', '0', 'add-remove', 'record')", "DP009"), ("close('c')", "DP003"),
        ("lower('b', '', '1/2', '0')", "DP002"), ("close('b')", "DP002"),
        ("open('c', '1', '0', 'other', 'record')", "DP008"), ("open('c', '0', '0', 'replace', 'record')", "DP008"),
        ("open('c', '1', '1', 'replace', 'record')", "DP008"), ("open('c', '1', '0', NULL, 'record')", "DP008"),
        ("open('c', '1', '0', 'replace', '')", "DP008"), ("open('', '1', '0', 'replace', 'record')", "DP008"),
        ("permit('a', 'nobody at all')", "DP008"), ("permit('', 'ann')", "DP008"),
    ],
)  # fmt: skip
def test_an_opener_cannot_raise_a_limit_or_open_an_account_again(team: Team, call: str, code: str) -> None:
    if not team.account("aud").charges():
        team.account("ann").charge("r", "laplace", spend("0.5"))
        team.account("olga", "b").close()
    before = team.state()
    assert team.refusal("olga", f"SELECT discreet.{call}")[0] == code
    assert team.state() == before


def test_a_closed_account_takes_nothing_from_raw_sql_either(team: Team) -> None:
    team.account("olga").close()
    assert team.refusal("ann", CHARGE, ("a", "r", "m", "1/10", "0"))[0] == "DP002"
    with pytest.raises(dc.InputError, match="account 'a' is closed"):
        team.account("ann").charge("r", "laplace", spend("0.1"))
    assert team.account("aud").verify().kind == "closed"


@pytest.mark.parametrize("at_once", [False, True])
def test_a_release_is_paid_for_once_in_all_accounts(team: Team, at_once: bool) -> None:
    second = team.account("ben", "b")
    with team.connected("ann", autocommit=False) as first, ThreadPoolExecutor(1) as pool:
        first.execute(CHARGE, ("a", "r", "m", "1/10", "0"))
        if not at_once:
            first.commit()
        charge = pool.submit(second.charge, "r", "laplace", spend("0.1"))
        while at_once and team.run("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") != "1":
            assert not charge.done()
        first.commit()
        with pytest.raises(dc.InputError, match=r"this release was paid for before.*nothing was charged"):
            charge.result(60)
    assert [team.account("aud", name).verify().sequence for name in "ab"] == [1, 0]


# ---------------------------------------------------------------------------------------------------------- shadows

SHADOWS = {
    "temporary tables": """
        CREATE TEMP TABLE entries (LIKE discreet.entries); CREATE TEMP TABLE spenders (account text, role text);
        CREATE TEMP TABLE balances AS SELECT account, subject, '1000'::text AS epsilon_limit, '0'::text AS delta_limit,
            '0'::text AS epsilon_spent, '0'::text AS delta_spent, sequence, digest, seal FROM discreet.balances;
        CREATE TEMP TABLE ledger (version int); INSERT INTO spenders VALUES ('b', 'ann');
        CREATE TEMP TABLE pg_roles AS SELECT * FROM pg_catalog.pg_roles; UPDATE pg_temp.pg_roles SET rolsuper = true;
        CREATE TEMP TABLE pg_namespace AS SELECT nspname, 'ann'::regrole::oid AS nspowner FROM pg_catalog.pg_namespace
    """,
    "functions in public": """
        CREATE FUNCTION public.gcd(numeric, numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 1000::numeric';
        CREATE FUNCTION public.div(numeric, numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 0::numeric';
        CREATE FUNCTION public.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT ''::bytea $$;
        CREATE FUNCTION public.split_part(text, text, int) RETURNS text LANGUAGE sql AS $$ SELECT '0' $$;
        CREATE FUNCTION public.length(text) RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE FUNCTION public.pg_has_role(name, oid, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE FUNCTION public.current_setting(text) RETURNS text LANGUAGE sql AS $$ SELECT 'on' $$;
        CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql
            AS $$ SELECT '2001-01-01'::timestamptz $$;
        SET search_path = public, pg_catalog
    """,
    "functions in pg_temp": """
        CREATE FUNCTION pg_temp.gcd(numeric, numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 1000::numeric';
        CREATE FUNCTION pg_temp.to_char(timestamp, text) RETURNS text LANGUAGE sql AS $$ SELECT '2001-01-01' $$;
        CREATE FUNCTION pg_temp.plus(text, text) RETURNS text LANGUAGE sql AS $$ SELECT '0' $$;
        CREATE FUNCTION pg_temp.exceeds(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
        SET search_path = pg_temp, pg_catalog
    """,
    "operators": """
        CREATE FUNCTION public.joined(text, text) RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$;
        CREATE FUNCTION public.never(numeric, numeric) RETURNS boolean LANGUAGE sql AS 'SELECT false';
        CREATE FUNCTION public.alike(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE OPERATOR public.|| (LEFTARG = text, RIGHTARG = text, FUNCTION = public.joined);
        CREATE OPERATOR public.> (LEFTARG = numeric, RIGHTARG = numeric, FUNCTION = public.never);
        CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = public.alike);
        CREATE OPERATOR public.* (LEFTARG = numeric, RIGHTARG = numeric, FUNCTION = pg_catalog.numeric_sub);
        SET search_path = public, pg_catalog
    """,
    "types": """
        CREATE DOMAIN pg_temp.numeric AS pg_catalog.numeric CHECK (VALUE IS NULL);
        CREATE DOMAIN pg_temp.text AS pg_catalog.text DEFAULT 'x';
        CREATE TYPE pg_temp.record AS (a int);
        SET search_path = pg_temp, pg_catalog
    """,
    "a schema of the own": """
        CREATE SCHEMA mine; CREATE TABLE mine.spenders (account text, role text);
        INSERT INTO mine.spenders VALUES ('b', 'ann');
        CREATE TABLE mine.balances (LIKE discreet.balances); CREATE TABLE mine.entries (LIKE discreet.entries);
        CREATE FUNCTION mine.check_spender(text) RETURNS void LANGUAGE sql AS '';
        ALTER ROLE ann SET search_path = mine, public; SET search_path = mine, pg_temp, public
    """,
    "settings": """
        SET standard_conforming_strings = off; SET transform_null_equals = on; SET TimeZone = 'Pacific/Kiritimati';
        SET DateStyle = 'German'; SET IntervalStyle = 'iso_8601'; SET bytea_output = 'escape';
        SET timezone_abbreviations = 'Australia'; SET client_encoding = 'LATIN1'; SET extra_float_digits = -15;
        SET quote_all_identifiers = on; SET force_parallel_mode = on; SET row_security = off; SET jit = on;
        SET jit_above_cost = 0; SET enable_indexscan = off; SET enable_seqscan = off; SET check_function_bodies = off;
        SET default_transaction_deferrable = on; SET array_nulls = off; SET backslash_quote = on;
        SET plan_cache_mode = force_generic_plan; SET statement_timeout = 0; SET escape_string_warning = off
    """,
}  # fmt: skip


@pytest.mark.parametrize("shadow", SHADOWS)
def test_nothing_that_a_spender_makes_stands_before_what_the_functions_use(team: Team, shadow: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    team.run(f"GRANT CREATE, TEMP ON DATABASE {team.base} TO ann; GRANT CREATE ON SCHEMA public TO ann")
    team.account("olga").lower(spend("0.75", "0.1"), person="ann")
    before = today(team)
    try:
        with team.connected("ann") as connection:
            for statement in SHADOWS[shadow].split(";\n"):
                connection.execute(statement)
            for release, epsilon, code in (
                ("r", "1/10", None), ("s", "1/3", None), ("t", "1/2", "DP001"), ("r", "1/10", "DP004"),
                ("u", "0.1", "DP008"), ("v", "1/10", None),
            ):  # fmt: skip
                if code is None:
                    connection.execute(CHARGE, ("a", release, "m", epsilon, "1/100"))
                    continue
                with pytest.raises(psycopg.Error) as caught:
                    connection.execute(CHARGE, ("a", release, "m", epsilon, "1/100"))
                assert caught.value.sqlstate == code
            with pytest.raises(psycopg.Error, match="not a spender of this account"):
                connection.execute(CHARGE, ("b", "w", "m", "1/10", "0"))
    finally:
        team.run("ALTER ROLE ann RESET ALL")
    account = team.account("aud")
    assert account.verify().epsilon_spent == "8/15"
    assert [charge.release for charge in account.charges()] == ["r", "s", "v"]
    assert all(before <= charge.date <= today(team) for charge in account.charges())
    assert team.account("aud", "b").verify().sequence == 0
    team.account("ann").charge("x", "laplace", spend("0.1"))  # Python is not misled by them either
    assert team.account("aud").verify().epsilon_spent == "19/30"


def today(team: Team) -> date:
    """The server's day, in UTC."""
    return date.fromisoformat(team.run("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')"))


# ------------------------------------------------------------------------------------------------- transactions


@every("level", LEVELS)
@every(
    "seen", ["SELECT * FROM discreet.balances", "SELECT 1 FROM discreet.ledger", "SELECT discreet.settled('a', 'z')"]
)
def test_an_old_snapshot_cannot_overspend(team: Team, level: str, seen: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    name = f"n{next(numbers)}"
    dc.Ledger(team.url("olga")).open(name, spend(1))
    team.run(f"SELECT discreet.permit('{name}', 'ann')")
    with team.connected("ann") as connection:
        connection.execute(f"BEGIN ISOLATION LEVEL {level}")
        connection.execute(seen)
        team.account("ann", name).charge(f"{name} first", "laplace", spend("0.6"))
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(CHARGE, (name, f"{name} second", "m", "3/5", "0"))
        assert caught.value.sqlstate == ("DP001" if level == "READ COMMITTED" else "40001")
    assert team.account("aud", name).verify().epsilon_spent == "3/5"


@every("level", LEVELS)
def test_an_old_snapshot_does_not_hide_a_limit_that_was_set_since(team: Team, level: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    name = f"n{next(numbers)}"
    dc.Ledger(team.url("olga")).open(name, spend(1))
    team.run(f"SELECT discreet.permit('{name}', 'ann')")
    with team.connected("ann") as connection:
        connection.execute(f"BEGIN ISOLATION LEVEL {level}")
        connection.execute("SELECT * FROM discreet.balances")
        team.account("olga", name).lower(spend("0.1"), person="ann")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(CHARGE, (name, f"{name} second", "m", "3/5", "0"))
        assert caught.value.sqlstate == ("DP001" if level == "READ COMMITTED" else "40001")
    assert team.account("aud", name).verify().kind == "limited"


def test_what_a_savepoint_takes_back_was_not_charged_and_the_rest_was(team: Team) -> None:
    with team.connected("ann", autocommit=False) as connection:
        for release in ("r", "s", "t"):
            connection.execute("SAVEPOINT before")
            connection.execute(CHARGE, ("a", release, "m", "1/10", "0"))
            if release == "s":
                connection.execute("ROLLBACK TO before")
        connection.commit()
    account = team.account("aud")
    assert account.verify().epsilon_spent == "1/5" and [one.release for one in account.charges()] == ["r", "t"]


@every("value", ["off", "local", "remote_write", "on", "remote_apply"])
def test_a_charge_waits_for_the_disk_whatever_was_set_before(team: Team, value: str) -> None:
    with team.connected("ann", autocommit=False) as connection:
        connection.execute(f"SET synchronous_commit = {value}")
        connection.execute(CHARGE, ("a", f"r {value}", "m", "1/10", "0"))
        now = connection.execute("SHOW synchronous_commit").fetchone()[0]
        assert now == ("on" if value in ("off", "local") else value)
        connection.commit()
    assert team.account("aud").verify().epsilon == "1/10"


# ----------------------------------------------------------------------------------------------------------- auditors


def audit(url: str) -> None:
    """What an auditor does, and cannot do."""
    account = dc.Ledger(url).account("a")
    assert account.verify().epsilon_spent == "1/4"
    assert account.balance().epsilon_left == spend("0.75").epsilon
    assert [charge.release for charge in account.charges()] == ["r"]
    assert len(account.export()["entries"]) == 2
    for write in (
        lambda: account.charge("s", "laplace", spend("0.1")), lambda: account.lower(spend("0.5")), account.close,
        lambda: dc.Ledger(url).open("c", spend(1)),
    ):  # fmt: skip
        with pytest.raises(dc.InputError, match="nothing was charged") as caught:
            write()
        assert re.search(r"permission denied|standby", str(caught.value)) and "\n" not in str(caught.value)


def test_an_auditor_reads_and_verifies_and_writes_nothing(team: Team) -> None:
    team.account("ann").charge("r", "laplace", spend("0.25"))
    before = team.state()
    audit(team.url("aud"))
    assert team.state() == before


@pytest.mark.costly("Only a real standby shows that an auditor reads there and nobody charges.", always=True)
def test_an_auditor_reads_and_verifies_on_a_standby_where_nobody_charges() -> None:
    with postgres.serving() as server:
        team = made(server)
        team.account("ann").charge("r", "laplace", spend("0.25"))
        with postgres.standing_by(server) as copy:
            audit(copy.url(team.base, "aud"))
            there = dc.Ledger(copy.url(team.base, "ann")).account("a")
            with pytest.raises(dc.InputError, match=r"takes no writes: it is a standby.*nothing was charged") as caught:
                there.charge("s", "laplace", spend("0.1"))
            assert "\n" not in str(caught.value)
        assert team.account("aud").verify().sequence == 1


# ---------------------------------------------------------------------------------------------------- Gaussian losses

OWN_LOSS = "SELECT * FROM discreet.charge('a', %s, 'gaussian', '1/1000', '1/1000000000', '', '', %s, %s, %s)"


@every("value", NO_NUMBERS, ids=repr)
def test_a_loss_is_a_reduced_fraction_without_a_sign(team: Team, value: str | None) -> None:
    before = team.state()
    for losses in ((value, "0", "0"), ("1/10", value, "0"), ("1/10", "0", value)):
        code, words = team.refusal("ann", OWN_LOSS, ("r", *losses))
        assert code == "DP008" and "not a whole number or a reduced fraction, without a sign" in words
    assert team.state() == before


def test_a_spender_sets_no_limit_of_losses_that_breaks_that_of_the_account(team: Team) -> None:
    """It follows from epsilon and delta: the server computes that by itself."""
    largest = largest_rho(Fraction(1), KEPT_SHARE * Fraction(1, 10))
    assert largest is not None
    before = team.state()
    for limit in (Fraction(11, 10) * largest, Fraction(1), Fraction(10**6), Fraction(1, 10**200)):
        code, words = team.refusal("ann", OWN_LOSS, ("r", "1/1000", "0", str(limit)))
        assert code == "DP014" and "does not keep the guarantee" in words
    code, _ = team.refusal("ann", OWN_LOSS, ("r", "1/1000", "1/100", str(largest)))
    assert code == "DP014"
    assert team.state() == before
    with team.connected("ann") as connection:
        connection.execute(OWN_LOSS, ("r", "1/1000", "0", str(largest)))
        # Later limits are not heard, and who states no loss pays that of the guarantee.
        connection.execute(OWN_LOSS, ("s", "1/1000", "0", "1000"))
        connection.execute(CHARGE, ("a", "t", "laplace", "1/10", "0"))
    charges = team.account("aud").charges()
    assert [charge.rho for charge in charges] == [Fraction(1, 1000)] * 2 + [Fraction(355, 45200)]
    assert team.account("aud").balance().rho_limit == largest
    assert team.account("aud").verify().sequence == 3


def test_a_limit_of_losses_follows_from_what_is_left_however_little_that_is(team: Team) -> None:
    """Quotients of 20 digits would leave 2e-20 of delta, a ninth too much; verifying would then refuse the entry."""
    left = Fraction(18, 10**21)
    spent = ("a", "most", "m", "1/1000", str(Fraction(1, 10) - left))
    largest = largest_rho(Fraction(999, 1000), KEPT_SHARE * left)
    assert largest is not None
    with team.connected("ann") as connection:
        connection.execute(CHARGE, spent)
    code, words = team.refusal("ann", OWN_LOSS, ("r", "1/10000", "0", str(largest * Fraction(501, 500))))
    assert code == "DP014" and "does not keep the guarantee" in words
    with team.connected("ann") as connection:
        connection.execute(OWN_LOSS, ("r", "1/10000", "0", str(largest)))
    assert team.account("aud").verify().sequence == 2


def test_a_limit_of_losses_that_another_charge_overtakes_is_found_again(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It followed from what was left when the charge was drafted."""
    overtaking = [("a", "between", "laplace", "1/10", "0")]

    def drafted(*arguments: Any) -> Any:
        draft = with_loss(*arguments)
        with team.connected("ann") as connection:
            for values in overtaking:
                connection.execute(CHARGE, values)
        overtaking.clear()
        return draft

    monkeypatch.setattr("discreet.privacy.ledger.with_loss", drafted)
    team.account("ann").charge("r", "gaussian", spend("1/100", "1/1000000"), rho=Fraction(1, 100000))
    balance = team.account("aud").balance()
    assert balance.rho_limit == largest_rho(Fraction(9, 10), KEPT_SHARE * Fraction(1, 10))
    assert balance.epsilon_spent == Fraction(11, 100) and team.account("aud").verify().sequence == 2


def test_a_loss_beyond_all_floats_is_added_up_and_shown(team: Team) -> None:
    """Epsilons allow the charge that states it; nobody's balance fails by it."""
    largest = largest_rho(Fraction(1), KEPT_SHARE * Fraction(1, 10))
    with team.connected("ann") as connection:
        connection.execute(OWN_LOSS, ("r", "1" + 400 * "0", "0", str(largest)))
    balance = team.account("aud").balance()
    assert balance.rho_spent == 10**400 and "all of epsilon 1" in str(balance) and "rho above 1e+09 of" in str(balance)


def test_a_server_adds_up_losses_like_a_file(team: Team) -> None:
    file = dc.Ledger("sqlite://").open("a", spend(1, "1/10"))
    team_account = team.account("ann")
    for account in (file, team_account):
        account.charge("first", "laplace", spend("1/7"))
        for turn in range(30):
            account.charge(f"r{turn}", "gaussian", spend("1/20", "1/100000"), rho=Fraction(1, 2000))
        account.charge("domain", "domain", spend("1/30", "1/1000000"))
        with pytest.raises(dc.BudgetError, match="by Gaussian losses"):
            account.charge("late", "laplace", spend("9/10"))
    team.account("olga").lower(spend("9/10", "1/20"))
    file.lower(spend("9/10", "1/20"))
    assert file.balance().rho_limit > 0 and file.balance() == team_account.balance()
    rows = [
        [{name: value for name, value in row.items() if name not in ("who", "day", "digest")} for row in entries]
        for entries in (file.export()["entries"], team_account.export()["entries"])
    ]
    assert rows[0] == rows[1]
    with pytest.raises(dc.InputError, match="more was spent"):
        team.account("olga").lower(spend("1/10", "1/20"))


@pytest.mark.parametrize("renewer", [postgres.USER, "ann"])
def test_a_server_of_version_2_is_renewed_by_who_may_and_charged_as_before_by_others(
    server: Server, renewer: str
) -> None:
    """Rights, entries and sums stay; who is no member of its owner neither renews it nor loses anything."""
    make_model(server)
    team = Team(server, f"team{next(numbers)}")
    server.make_base(team.base)
    statements = grant_sql((Grant("opener", "olga"), Grant("spender", "ann", "a"), Grant("auditor", "aud")))
    old = (Path(__file__).parent / "data" / "ledger_postgresql_2.sql").read_text()
    shorter = (
        ";\n".join([*statements[:3], old.rstrip().removesuffix(";"), *statements[4:]])
        .replace(", ".join(["text"] * 10), ", ".join(["text"] * 7))
        .replace("lower(text, text, text, text, text)", "lower(text, text, text, text)")
    )
    server.run(shorter, team.base)
    with team.connected("olga") as connection:
        connection.execute("SELECT discreet.open('a', '1', '1/10', 'add-remove', 'record')")
    with team.connected("ann") as connection:
        connection.execute(CHARGE, ("a", "old", "laplace", "1/10", "0"))
    account = team.account("ann")
    account.charge("s", "gaussian", spend("1/20", "1/100000"), rho=Fraction(1, 2000))
    assert account.balance().epsilon_spent == Fraction(3, 20) and account.balance().rho_limit == 0
    assert account.verify().sequence == 2 and team.run("SELECT max(version) FROM discreet.ledger").strip() == "2"
    if renewer == "ann":
        return
    grant(team.url(renewer), [], run=True)
    assert team.run("SELECT max(version) FROM discreet.ledger").strip() == "3"
    assert team.functions("ann") == {"charge", "settled"}
    assert team.functions("olga") == {"open", "lower", "close", "permit"}
    owners = team.run("SELECT DISTINCT proowner::regrole FROM pg_proc WHERE pronamespace = 'discreet'::regnamespace")
    assert owners.split() == ["discreet_owner"]
    for turn in range(3):
        account.charge(f"t{turn}", "gaussian", spend("1/20", "1/100000"), rho=Fraction(1, 2000))
    assert account.balance().epsilon_spent == Fraction(3, 10) and account.balance().rho_spent == Fraction(3, 2000)
    assert team.account("aud").verify().sequence == 5
    team.account("olga").lower(spend("9/10", "1/20"))
    assert account.verify().sequence == 6
