
-- From version 2 to 3: Gaussian losses of charges (`gaussian_loss.py`). New ledgers are made by both scripts.

ALTER TABLE discreet.entries
    ADD COLUMN rho text NOT NULL DEFAULT '0',
    ADD COLUMN rho_delta text NOT NULL DEFAULT '0',
    ADD COLUMN rho_limit text NOT NULL DEFAULT '0',
    ADD COLUMN rho_spent text NOT NULL DEFAULT '0',
    ADD COLUMN rho_delta_spent text NOT NULL DEFAULT '0',
    ADD CHECK (rho ~ '^(0|[1-9][0-9]*)(/[1-9][0-9]*)?$' AND rho_delta ~ '^(0|[1-9][0-9]*)(/[1-9][0-9]*)?$');
ALTER TABLE discreet.balances
    ADD COLUMN rho_limit text NOT NULL DEFAULT '0',
    ADD COLUMN rho_spent text NOT NULL DEFAULT '0',
    ADD COLUMN rho_delta_spent text NOT NULL DEFAULT '0',
    ADD COLUMN epsilon_before text NOT NULL DEFAULT '0',
    ADD COLUMN delta_before text NOT NULL DEFAULT '0';
INSERT INTO discreet.ledger VALUES (3);

-- ----

-- Who might charge and lower limits before still may; functions of fewer arguments, and those of the rows, are gone.
DO $$
DECLARE
    thing record;
BEGIN
    FOR thing IN SELECT renewed.oid::regprocedure AS name, given.grantee::regrole AS role
        FROM pg_catalog.pg_proc old, aclexplode(old.proacl) given, pg_catalog.pg_proc renewed
        WHERE old.pronamespace = 'discreet'::regnamespace AND renewed.pronamespace = old.pronamespace
          AND renewed.proname = old.proname AND renewed.pronargs > old.pronargs AND given.grantee <> 0
          AND given.grantee <> old.proowner LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', thing.name, thing.role);
    END LOOP;
END $$;
DROP FUNCTION discreet.charge(text, text, text, text, text, text, text);
DROP FUNCTION discreet.lower(text, text, text, text);
