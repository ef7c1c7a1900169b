-- A ledger in PostgreSQL: tables that nobody but their owner can write, and the functions through which all others do.
--
-- Each function runs as its owner, finds nothing but the system's own functions without a schema, and computes by itself
-- what a client could forge: the place of an entry, the sums, the user, the day and the digest. It locks the account's
-- balance first: a second one waits, or fails where its snapshot is older (SQLSTATE 40001), whatever the isolation level.
-- Refusals have SQLSTATEs of their own, which `ledger_books.py` puts into words. What is computed here is computed once
-- more, in Python, by `discreet ledger verify` (`ledger_entries.py`).

CREATE TABLE discreet.ledger (version integer NOT NULL);
INSERT INTO discreet.ledger VALUES (2);

CREATE TABLE discreet.entries (
    account text NOT NULL,
    sequence bigint NOT NULL CHECK (sequence >= 0),
    kind text NOT NULL CHECK (kind IN ('opened', 'charged', 'limited', 'closed')),
    release text NOT NULL DEFAULT '',
    mechanism text NOT NULL DEFAULT '',
    epsilon text NOT NULL,
    delta text NOT NULL,
    relation text NOT NULL DEFAULT '',
    unit text NOT NULL DEFAULT '',
    subject text NOT NULL DEFAULT '',
    purpose text NOT NULL DEFAULT '',
    request text NOT NULL DEFAULT '',
    who text NOT NULL,
    day text NOT NULL CHECK (day ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$'),
    epsilon_spent text NOT NULL,
    delta_spent text NOT NULL,
    digest text NOT NULL,
    PRIMARY KEY (account, sequence),
    CHECK (epsilon ~ '^(0|[1-9][0-9]*)(/[1-9][0-9]*)?$' AND delta ~ '^(0|[1-9][0-9]*)(/[1-9][0-9]*)?$'),
    CHECK (kind <> 'charged' OR epsilon <> '0'),
    CHECK ((kind = 'opened') = (sequence = 0)),
    CHECK ((kind = 'charged') = (release <> ''))
);
CREATE UNIQUE INDEX one_charge_a_release ON discreet.entries (release) WHERE release <> '';
CREATE UNIQUE INDEX one_charge_a_request ON discreet.entries (account, request) WHERE request <> '';

CREATE TABLE discreet.balances (
    account text NOT NULL,
    subject text NOT NULL,
    epsilon_limit text NOT NULL,
    delta_limit text NOT NULL,
    epsilon_spent text NOT NULL,
    delta_spent text NOT NULL,
    sequence bigint NOT NULL,
    digest text NOT NULL,
    seal text NOT NULL,
    PRIMARY KEY (account, subject)
) WITH (fillfactor = 50);

CREATE TABLE discreet.spenders (account text NOT NULL, role text NOT NULL, PRIMARY KEY (account, role));

CREATE FUNCTION discreet.append_only() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only';
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON discreet.entries
    FOR EACH STATEMENT EXECUTE FUNCTION discreet.append_only();
CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON discreet.balances
    FOR EACH STATEMENT EXECUTE FUNCTION discreet.append_only();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON discreet.ledger
    FOR EACH STATEMENT EXECUTE FUNCTION discreet.append_only();

-- ----

-- The functions; those of an older version are replaced.

-- Exact rational numbers as text: '3', '1/10'; numerators and denominators are whole, so that NaN cannot be said.

CREATE OR REPLACE FUNCTION discreet.plus(a text, b text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n numeric := split_part(a, '/', 1);
    d numeric := coalesce(nullif(split_part(a, '/', 2), ''), '1');
    m numeric := split_part(b, '/', 1);
    e numeric := coalesce(nullif(split_part(b, '/', 2), ''), '1');
    divisor numeric;
BEGIN
    n := n * e + m * d;
    d := d * e;
    divisor := gcd(n, d);
    n := div(n, divisor);
    d := div(d, divisor);
    RETURN CASE WHEN d = 1 THEN n::text ELSE n::text || '/' || d::text END;
END $$;

CREATE OR REPLACE FUNCTION discreet.exceeds(a text, b text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN split_part(a, '/', 1)::numeric * coalesce(nullif(split_part(b, '/', 2), ''), '1')::numeric
         > split_part(b, '/', 1)::numeric * coalesce(nullif(split_part(a, '/', 2), ''), '1')::numeric;
END $$;

-- More digits than Python takes: below 10^3010 a part has at most its 10,000 bits (`SUM_BITS`).
CREATE OR REPLACE FUNCTION discreet.is_long(value text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT length(split_part(value, '/', 1)) > 3010 OR length(split_part(value, '/', 2)) > 3010
$$;

-- The difference, of 16 digits however little it is: rounded once, behind the exact one.
CREATE OR REPLACE FUNCTION discreet.minus(a text, b text) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    d numeric := coalesce(nullif(split_part(a, '/', 2), ''), '1');
    e numeric := coalesce(nullif(split_part(b, '/', 2), ''), '1');
BEGIN
    RETURN (split_part(a, '/', 1)::numeric * e - split_part(b, '/', 1)::numeric * d) / (d * e);
END $$;

CREATE OR REPLACE FUNCTION discreet.times(a text, b text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n numeric := split_part(a, '/', 1)::numeric * split_part(b, '/', 1)::numeric;
    d numeric := coalesce(nullif(split_part(a, '/', 2), ''), '1')::numeric
               * coalesce(nullif(split_part(b, '/', 2), ''), '1')::numeric;
BEGIN
    RETURN discreet.plus(div(n, gcd(n, d))::text || '/' || div(d, gcd(n, d))::text, '0');
END $$;

CREATE OR REPLACE FUNCTION discreet.check_number(value text, what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF value IS NULL OR discreet.is_long(value) OR value !~ '^(0|[1-9][0-9]*)(/[1-9][0-9]*)?$'
       OR discreet.plus(value, '0') <> value THEN
        RAISE EXCEPTION '% is not a whole number or a reduced fraction, without a sign', what USING ERRCODE = 'DP008';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION discreet.check_text(value text, what text, fewest integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF value IS NULL OR length(value) < fewest OR length(value) > 80 OR value ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION '% is at most 80 characters that can be seen', what USING ERRCODE = 'DP008';
    END IF;
END $$;

-- SHA-256 of texts, each behind its length in bytes.
CREATE OR REPLACE FUNCTION discreet.digest(VARIADIC parts text[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(sha256(convert_to(string_agg(octet_length(part) || ':' || part, '' ORDER BY place), 'UTF8')), 'hex')
    FROM unnest(parts) WITH ORDINALITY AS listed (part, place)
$$;

CREATE OR REPLACE FUNCTION discreet.is_member(role text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT pg_has_role(session_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = role), false)
$$;

-- Who may charge an account: members of a role that was permitted to, and of the owner's. Asked before anything is
-- locked: others cannot so much as delay it.
CREATE OR REPLACE FUNCTION discreet.check_spender(an_account text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM discreet.spenders s WHERE s.account = an_account AND discreet.is_member(s.role))
       AND NOT discreet.is_member((SELECT rolname::text FROM pg_roles JOIN pg_namespace ON nspowner = pg_roles.oid
                                   WHERE nspname = 'discreet')) THEN
        RAISE EXCEPTION 'not a spender of this account' USING ERRCODE = 'DP007';
    END IF;
END $$;

-- The end of this transaction waits for the disk.
CREATE OR REPLACE FUNCTION discreet.wait_for_disk() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('fsync') <> 'on' OR current_setting('full_page_writes') <> 'on' THEN
        RAISE EXCEPTION 'fsync or full_page_writes is off' USING ERRCODE = 'DP012';
    END IF;
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;

-- What belongs to Gaussian losses, if there are any: without them digests are those of version 2.
CREATE OR REPLACE FUNCTION discreet.beside(VARIADIC parts text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN '0' = ALL (parts) THEN ARRAY[]::text[] ELSE parts END
$$;

CREATE OR REPLACE FUNCTION discreet.seal_of(held discreet.balances) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT discreet.digest(VARIADIC ARRAY[held.account, held.subject, held.epsilon_limit, held.delta_limit,
        held.epsilon_spent, held.delta_spent, held.sequence::text, held.digest] || discreet.beside(held.rho_limit,
        held.rho_spent, held.rho_delta_spent, held.epsilon_before, held.delta_before))
$$;

CREATE OR REPLACE FUNCTION discreet.digest_of(before text, made discreet.entries) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT discreet.digest(VARIADIC ARRAY[before, made.account, made.sequence::text, made.kind, made.release,
        made.mechanism, made.epsilon, made.delta, made.relation, made.unit, made.subject, made.purpose, made.request,
        made.who, made.day, made.epsilon_spent, made.delta_spent] || discreet.beside(made.rho, made.rho_delta,
        made.rho_limit, made.rho_spent, made.rho_delta_spent))
$$;

-- Delta of a sum of Gaussian losses from above, as `gaussian_delta` computes it; 1 outside of its range.
CREATE OR REPLACE FUNCTION discreet.gaussian_delta(epsilon double precision, rho double precision)
    RETURNS double precision
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    length double precision;
    step double precision;
    at double precision;
    total double precision;
BEGIN
    IF NOT (0 < rho AND rho < epsilon AND epsilon <= 500) THEN
        RETURN 1;
    END IF;
    length := 2 * rho / (epsilon - rho);
    step := 45 * length / 20000;
    at := (epsilon - rho) * (epsilon - rho) / (4 * rho);
    SELECT sum(CASE WHEN t + step < 1 THEN 2 * exp(-(t + step) / 2) * sinh((t + step) / 2)
                    ELSE 1 - exp(greatest(-t - step, -700)) END
               * exp(greatest(-at - t / length - t * t / (4 * rho), -700))) INTO total
        FROM (SELECT part * step AS t FROM generate_series(0, 19999) part) parts;
    RETURN (total * step + length * exp(greatest(-at, -655) - 45)) / sqrt(4 * pi() * rho);
END $$;

-- Whether Gaussian losses up to their limit keep what is left for them of epsilon and delta: `Share.keeps_limit`, which
-- has a tolerance beside: what is taken here is verified there, by other floats.
CREATE OR REPLACE FUNCTION discreet.keeps_limit(held discreet.balances) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    epsilon numeric := discreet.minus(held.epsilon_limit, held.epsilon_before);
    delta numeric := discreet.minus(held.delta_limit, held.delta_before) * 7 / 8;
    rho numeric := discreet.minus(held.rho_limit, '0');
BEGIN
    RETURN rho > 1e-100 AND rho < epsilon AND epsilon <= 500 AND delta > 1e-100
        AND discreet.gaussian_delta(epsilon::double precision, rho::double precision)
            <= delta::double precision;
END $$;

-- Whether the sums spent are within the limits: epsilon and delta, or Gaussian losses and their delta: `Share.fits`.
CREATE OR REPLACE FUNCTION discreet.fits(held discreet.balances) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    cap text := held.delta_limit;
BEGIN
    IF held.epsilon_limit = '' THEN
        RETURN true;
    END IF;
    IF held.rho_limit <> '0' THEN
        cap := discreet.plus(discreet.times(held.delta_before, '15/16'), discreet.times(held.delta_limit, '1/16'));
    END IF;
    RETURN NOT (discreet.exceeds(held.epsilon_spent, held.epsilon_limit) OR discreet.exceeds(held.delta_spent, cap))
        OR (held.rho_limit <> '0' AND NOT discreet.exceeds(held.rho_spent, held.rho_limit)
            AND NOT discreet.exceeds(held.rho_delta_spent, cap));
END $$;

-- The balance of an account, locked, with what it says held against the last entry.
CREATE OR REPLACE FUNCTION discreet.locked(an_account text) RETURNS discreet.balances
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held discreet.balances;
    last discreet.entries;
BEGIN
    PERFORM discreet.wait_for_disk();
    SELECT * INTO held FROM discreet.balances WHERE account = an_account AND subject = '' FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such account' USING ERRCODE = 'DP003';
    END IF;
    SELECT * INTO last FROM discreet.entries WHERE account = an_account AND sequence = held.sequence;
    IF NOT FOUND OR last.digest <> held.digest OR last.epsilon_spent <> held.epsilon_spent
       OR (last.delta_spent, last.rho_spent, last.rho_delta_spent)
          <> (held.delta_spent, held.rho_spent, held.rho_delta_spent) OR last.digest <> discreet.digest_of(coalesce((SELECT e.digest
           FROM discreet.entries e WHERE e.account = an_account AND e.sequence = held.sequence - 1), ''), last) THEN
        RAISE EXCEPTION 'entry %', held.sequence USING ERRCODE = 'DP006';
    END IF;
    IF held.seal <> discreet.seal_of(held) THEN
        RAISE EXCEPTION 'a balance' USING ERRCODE = 'DP006';
    END IF;
    RETURN held;
END $$;

CREATE OR REPLACE FUNCTION discreet.check_open(held discreet.balances) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM discreet.entries e WHERE e.account = held.account AND e.sequence = held.sequence
               AND e.kind = 'closed') THEN
        RAISE EXCEPTION 'the account is closed' USING ERRCODE = 'DP002';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION discreet.keep(held discreet.balances) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    held.seal := discreet.seal_of(held);
    INSERT INTO discreet.balances VALUES (held.*)
    ON CONFLICT (account, subject) DO UPDATE SET epsilon_limit = held.epsilon_limit, delta_limit = held.delta_limit,
        epsilon_spent = held.epsilon_spent, delta_spent = held.delta_spent, sequence = held.sequence,
        digest = held.digest, seal = held.seal, rho_limit = held.rho_limit, rho_spent = held.rho_spent,
        rho_delta_spent = held.rho_delta_spent, epsilon_before = held.epsilon_before, delta_before = held.delta_before;
END $$;

-- Add an entry behind the last one of its account, whose balance is locked, and has the sums after it; empty texts are
-- what does not apply.
CREATE OR REPLACE FUNCTION discreet.append(before discreet.balances, made discreet.entries) RETURNS discreet.entries
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    made.account := before.account;
    made.sequence := before.sequence + 1;
    made.who := session_user;
    made.day := to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD');
    made.epsilon_spent := before.epsilon_spent;
    made.delta_spent := before.delta_spent;
    made.rho_spent := before.rho_spent;
    made.rho_delta_spent := before.rho_delta_spent;
    made.digest := discreet.digest_of(before.digest, made);
    INSERT INTO discreet.entries VALUES (made.*);
    before.sequence := made.sequence;
    before.digest := made.digest;
    PERFORM discreet.keep(before);
    RETURN made;
END $$;

-- A balance with a charge added, if it fits under the limits.
CREATE OR REPLACE FUNCTION discreet.charged(share discreet.balances, made discreet.entries) RETURNS discreet.balances
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    share.epsilon_spent := discreet.plus(share.epsilon_spent, made.epsilon);
    share.delta_spent := discreet.plus(share.delta_spent, made.delta);
    IF share.rho_limit <> '0' THEN
        share.rho_spent := discreet.plus(share.rho_spent, made.rho);
        share.rho_delta_spent := discreet.plus(share.rho_delta_spent, made.rho_delta);
    END IF;
    IF NOT discreet.fits(share) THEN
        RAISE EXCEPTION 'beyond a limit' USING ERRCODE = 'DP001', DETAIL = share.subject;
    END IF;
    IF discreet.is_long(share.epsilon_spent) OR discreet.is_long(share.delta_spent)
       OR discreet.is_long(share.rho_spent) OR discreet.is_long(share.rho_delta_spent) THEN
        RAISE EXCEPTION 'too many digits' USING ERRCODE = 'DP011';
    END IF;
    RETURN share;
END $$;

-- The balance of a person or a purpose; one that was not heard of has no limit, and spent nothing.
CREATE OR REPLACE FUNCTION discreet.share(an_account text, a_subject text) RETURNS discreet.balances
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held discreet.balances;
BEGIN
    SELECT * INTO held FROM discreet.balances WHERE account = an_account AND subject = a_subject FOR UPDATE;
    IF NOT FOUND THEN
        held := ROW(an_account, a_subject, '', '', '0', '0', 0, '', '', '0', '0', '0', '0', '0');
    ELSIF held.seal <> discreet.seal_of(held) THEN
        RAISE EXCEPTION 'a balance' USING ERRCODE = 'DP006';
    END IF;
    RETURN held;
END $$;

-- Gaussian losses are taken on trust as epsilon is: whoever draws a release states what it costs. A limit of their sum is
-- not: it has to follow from what is left of epsilon and delta.
CREATE OR REPLACE FUNCTION discreet.charge(an_account text, a_release text, a_mechanism text, an_epsilon text,
    a_delta text, a_purpose text DEFAULT '', a_request text DEFAULT '', a_rho text DEFAULT '0',
    a_rho_delta text DEFAULT '0', a_rho_limit text DEFAULT '0') RETURNS discreet.entries
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held discreet.balances;
    share discreet.balances;
    shares discreet.balances[];
    made discreet.entries;
BEGIN
    PERFORM discreet.check_text(a_release, 'the id of a release', 1);
    PERFORM discreet.check_text(a_mechanism, 'the name of a mechanism', 1);
    PERFORM discreet.check_text(a_purpose, 'a purpose', 0);
    PERFORM discreet.check_text(a_request, 'a request', 0);
    PERFORM discreet.check_number(an_epsilon, 'epsilon');
    PERFORM discreet.check_number(a_delta, 'delta');
    PERFORM discreet.check_number(a_rho, 'rho');
    PERFORM discreet.check_number(a_rho_delta, 'the delta beside rho');
    PERFORM discreet.check_number(a_rho_limit, 'the limit of rho');
    IF an_epsilon = '0' OR NOT discreet.exceeds('1', a_delta) THEN
        RAISE EXCEPTION 'epsilon is positive, and delta below 1' USING ERRCODE = 'DP008';
    END IF;
    PERFORM discreet.check_spender(an_account);
    held := discreet.locked(an_account);
    IF a_request <> '' THEN
        SELECT * INTO made FROM discreet.entries e WHERE e.account = an_account AND e.request = a_request
            AND e.request <> '';
        IF FOUND THEN
            IF (made.mechanism, made.epsilon, made.delta, made.purpose, made.who)
               IS DISTINCT FROM (a_mechanism, an_epsilon, a_delta, a_purpose, session_user::text) THEN
                RAISE EXCEPTION 'the request was another one' USING ERRCODE = 'DP005';
            END IF;
            RETURN made;
        END IF;
    END IF;
    IF EXISTS (SELECT FROM discreet.entries e WHERE e.release = a_release AND e.release <> '') THEN
        RAISE EXCEPTION 'the release was paid for' USING ERRCODE = 'DP004';
    END IF;
    PERFORM discreet.check_open(held);
    IF held.rho_limit <> '0' THEN
        a_rho_limit := '0';
    ELSIF a_rho_limit <> '0' THEN
        held.rho_limit := a_rho_limit;
        held.rho_delta_spent := held.delta_spent;
        held.epsilon_before := held.epsilon_spent;
        held.delta_before := held.delta_spent;
        IF NOT discreet.keeps_limit(held) THEN
            RAISE EXCEPTION 'the limit of rho does not keep the guarantee' USING ERRCODE = 'DP014';
        END IF;
    END IF;
    IF held.rho_limit = '0' THEN
        a_rho := '0';
        a_rho_delta := '0';
    ELSIF a_rho = '0' THEN
        -- The loss of a pure guarantee, `pure_rho`, without its rounding.
        a_rho := discreet.times('355/452', discreet.times(an_epsilon, an_epsilon));
        a_rho_delta := a_delta;
    ELSIF discreet.exceeds(a_rho_delta, a_delta) THEN
        RAISE EXCEPTION 'more delta beside rho than delta' USING ERRCODE = 'DP014';
    END IF;
    made := ROW(an_account, 0, 'charged', a_release, a_mechanism, an_epsilon, a_delta, '', '', '', a_purpose, a_request,
        '', '', '0', '0', '', a_rho, a_rho_delta, a_rho_limit, '0', '0');
    held := discreet.charged(held, made);
    shares := ARRAY[discreet.charged(discreet.share(an_account, 'person ' || session_user), made)];
    IF a_purpose <> '' THEN
        shares := shares || discreet.charged(discreet.share(an_account, 'purpose ' || a_purpose), made);
    END IF;
    made := discreet.append(held, made);
    FOREACH share IN ARRAY shares LOOP
        share.sequence := made.sequence;
        share.digest := made.digest;
        PERFORM discreet.keep(share);
    END LOOP;
    RETURN made;
END $$;

CREATE OR REPLACE FUNCTION discreet.open(an_account text, an_epsilon text, a_delta text, a_relation text, a_unit text)
    RETURNS discreet.entries
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made discreet.entries;
BEGIN
    PERFORM discreet.check_text(an_account, 'the name of an account', 1);
    PERFORM discreet.check_text(a_unit, 'a unit', 1);
    PERFORM discreet.check_text(a_relation, 'a relation', 1);
    PERFORM discreet.check_number(an_epsilon, 'epsilon');
    PERFORM discreet.check_number(a_delta, 'delta');
    IF an_epsilon = '0' OR NOT discreet.exceeds('1', a_delta) OR a_relation NOT IN ('add-remove', 'replace', 'metric')
    THEN
        RAISE EXCEPTION 'epsilon is positive, delta below 1, and the relation is known' USING ERRCODE = 'DP008';
    END IF;
    PERFORM discreet.wait_for_disk();
    IF EXISTS (SELECT FROM discreet.balances b WHERE b.account = an_account) THEN
        RAISE EXCEPTION 'the account is open' USING ERRCODE = 'DP009';
    END IF;
    made := ROW(an_account, 0, 'opened', '', '', an_epsilon, a_delta, a_relation, a_unit, '', '', '', '', '', '0', '0', '',
        '0', '0', '0', '0', '0');
    RETURN discreet.append(ROW(an_account, '', an_epsilon, a_delta, '0', '0', -1, '', '', '0', '0', '0', '0',
        '0')::discreet.balances, made);
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'the account is open' USING ERRCODE = 'DP009';
END $$;

-- Lower a limit: of the account, or of a person or a purpose, which had none but the account's.
CREATE OR REPLACE FUNCTION discreet.lower(an_account text, a_subject text, an_epsilon text, a_delta text,
    a_rho_limit text DEFAULT '0') RETURNS discreet.entries
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held discreet.balances;
    share discreet.balances;
    made discreet.entries;
BEGIN
    PERFORM discreet.check_number(an_epsilon, 'epsilon');
    PERFORM discreet.check_number(a_delta, 'delta');
    PERFORM discreet.check_number(a_rho_limit, 'the limit of rho');
    IF a_subject !~ '^$|^(person|purpose) [^[:cntrl:]]{1,80}$' THEN
        RAISE EXCEPTION 'a limit is for the account, a person or a purpose' USING ERRCODE = 'DP008';
    END IF;
    held := discreet.locked(an_account);
    PERFORM discreet.check_open(held);
    share := held;
    IF a_subject <> '' THEN
        share := discreet.share(an_account, a_subject);
    END IF;
    IF discreet.exceeds(an_epsilon, coalesce(nullif(share.epsilon_limit, ''), held.epsilon_limit))
       OR discreet.exceeds(a_delta, coalesce(nullif(share.delta_limit, ''), held.delta_limit))
       OR (share.rho_limit <> '0' AND discreet.exceeds(a_rho_limit, share.rho_limit)) THEN
        RAISE EXCEPTION 'a limit never rises' USING ERRCODE = 'DP010';
    END IF;
    IF share.rho_limit = '0' AND a_rho_limit <> '0' THEN
        RAISE EXCEPTION 'no Gaussian losses are added up' USING ERRCODE = 'DP014';
    END IF;
    share.epsilon_limit := an_epsilon;
    share.delta_limit := a_delta;
    IF share.rho_limit <> '0' THEN
        share.rho_limit := a_rho_limit;
        IF NOT discreet.keeps_limit(share) THEN
            RAISE EXCEPTION 'more was spent' USING ERRCODE = 'DP013';
        END IF;
    END IF;
    IF an_epsilon = '0' OR NOT discreet.fits(share) THEN
        RAISE EXCEPTION 'more was spent' USING ERRCODE = 'DP013';
    END IF;
    made := ROW(an_account, 0, 'limited', '', '', an_epsilon, a_delta, '', '', a_subject, '', '', '', '', '0', '0', '',
        '0', '0', a_rho_limit, '0', '0');
    IF a_subject = '' THEN
        RETURN discreet.append(share, made);
    END IF;
    made := discreet.append(held, made);
    share.sequence := made.sequence;
    share.digest := made.digest;
    PERFORM discreet.keep(share);
    RETURN made;
END $$;

CREATE OR REPLACE FUNCTION discreet.close(an_account text) RETURNS discreet.entries
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held discreet.balances := discreet.locked(an_account);
    made discreet.entries;
BEGIN
    PERFORM discreet.check_open(held);
    made := ROW(an_account, 0, 'closed', '', '', held.epsilon_spent, held.delta_spent, '', '', '', '', '', '', '', '0',
        '0', '', '0', '0', '0', '0', '0');
    RETURN discreet.append(held, made);
END $$;

-- What became of a charge: waits for whoever holds the account, so that the answer is the last word.
CREATE OR REPLACE FUNCTION discreet.settled(an_account text, a_release text) RETURNS SETOF discreet.entries
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM discreet.check_spender(an_account);
    PERFORM FROM discreet.balances WHERE account = an_account AND subject = '' FOR UPDATE;
    RETURN QUERY SELECT * FROM discreet.entries e WHERE e.account = an_account AND e.release = a_release;
END $$;

CREATE OR REPLACE FUNCTION discreet.permit(an_account text, a_role text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM discreet.check_text(an_account, 'the name of an account', 1);
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = a_role) THEN
        RAISE EXCEPTION 'no such role' USING ERRCODE = 'DP008';
    END IF;
    INSERT INTO discreet.spenders VALUES (an_account, a_role) ON CONFLICT DO NOTHING;
END $$;

CREATE OR REPLACE VIEW discreet.charges AS
    SELECT account, sequence, day, who, purpose, mechanism, epsilon, delta, epsilon_spent, delta_spent, release
    FROM discreet.entries WHERE kind = 'charged';

REVOKE ALL ON ALL TABLES IN SCHEMA discreet FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA discreet FROM PUBLIC;
