-- From version 2 to 3: Gaussian losses of charges (`gaussian_loss.py`). New ledgers are made by both scripts.

ALTER TABLE discreet_entries ADD COLUMN rho TEXT NOT NULL DEFAULT '0' CHECK (rho GLOB '[0-9]*' AND rho NOT GLOB '*[^0-9/]*');

ALTER TABLE discreet_entries ADD COLUMN rho_delta TEXT NOT NULL DEFAULT '0'
    CHECK (rho_delta GLOB '[0-9]*' AND rho_delta NOT GLOB '*[^0-9/]*');

ALTER TABLE discreet_entries ADD COLUMN rho_limit TEXT NOT NULL DEFAULT '0';

ALTER TABLE discreet_entries ADD COLUMN rho_spent TEXT NOT NULL DEFAULT '0';

ALTER TABLE discreet_entries ADD COLUMN rho_delta_spent TEXT NOT NULL DEFAULT '0';

ALTER TABLE discreet_balances ADD COLUMN rho_limit TEXT NOT NULL DEFAULT '0';

ALTER TABLE discreet_balances ADD COLUMN rho_spent TEXT NOT NULL DEFAULT '0';

ALTER TABLE discreet_balances ADD COLUMN rho_delta_spent TEXT NOT NULL DEFAULT '0';

ALTER TABLE discreet_balances ADD COLUMN epsilon_before TEXT NOT NULL DEFAULT '0';

ALTER TABLE discreet_balances ADD COLUMN delta_before TEXT NOT NULL DEFAULT '0';

INSERT INTO discreet_ledger VALUES (3);
