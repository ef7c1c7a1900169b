-- A ledger in a file of SQLite. Whoever can write the file can change it with other tools; the triggers are a lock against
-- mistakes, seals and digests show the rest (`ledger_entries.py`). Statements are parted by empty lines.

CREATE TABLE discreet_ledger (version INTEGER NOT NULL);

INSERT INTO discreet_ledger VALUES (2);

CREATE TABLE discreet_entries (
    account TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('opened', 'charged', 'limited', 'closed')),
    release TEXT NOT NULL,
    mechanism TEXT NOT NULL,
    epsilon TEXT NOT NULL CHECK (epsilon GLOB '[0-9]*' AND epsilon NOT GLOB '*[^0-9/]*'),
    delta TEXT NOT NULL CHECK (delta GLOB '[0-9]*' AND delta NOT GLOB '*[^0-9/]*'),
    relation TEXT NOT NULL,
    unit TEXT NOT NULL,
    subject TEXT NOT NULL,
    purpose TEXT NOT NULL,
    request TEXT NOT NULL,
    who TEXT NOT NULL,
    day TEXT NOT NULL,
    epsilon_spent TEXT NOT NULL,
    delta_spent TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (account, sequence),
    CHECK (kind <> 'charged' OR (release <> '' AND epsilon <> '0'))
);

CREATE UNIQUE INDEX discreet_one_charge_a_release ON discreet_entries (release) WHERE release <> '';

CREATE UNIQUE INDEX discreet_one_charge_a_request ON discreet_entries (account, request) WHERE request <> '';

CREATE TABLE discreet_balances (
    account TEXT NOT NULL,
    subject TEXT NOT NULL,
    epsilon_limit TEXT NOT NULL,
    delta_limit TEXT NOT NULL,
    epsilon_spent TEXT NOT NULL,
    delta_spent TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    digest TEXT NOT NULL,
    seal TEXT NOT NULL,
    PRIMARY KEY (account, subject)
);

CREATE TRIGGER discreet_entries_in_order BEFORE INSERT ON discreet_entries
WHEN NEW.sequence <> COALESCE((SELECT max(sequence) + 1 FROM discreet_entries WHERE account = NEW.account), 0)
    OR EXISTS (SELECT 1 FROM discreet_entries WHERE release = NEW.release AND release <> '')
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER discreet_entries_no_update BEFORE UPDATE ON discreet_entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER discreet_entries_no_delete BEFORE DELETE ON discreet_entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER discreet_balances_no_delete BEFORE DELETE ON discreet_balances
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER discreet_balances_forward BEFORE UPDATE ON discreet_balances WHEN NEW.sequence <= OLD.sequence
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER discreet_ledger_no_update BEFORE UPDATE ON discreet_ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
