"""What is promised, what is spent, what is published: guarantee, ledger, release document."""
