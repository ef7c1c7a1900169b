"""What is promised and what is spent: guarantee, composition and ledger."""
