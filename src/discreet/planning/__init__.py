"""What plans compute from public sizes: tables, stars, pairs, budgets of a workload. It sees no record."""
