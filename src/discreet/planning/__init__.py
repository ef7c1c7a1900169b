"""Planning from public sizes alone: tables, stars, pairs, budgets of a workload. No record is read here."""
