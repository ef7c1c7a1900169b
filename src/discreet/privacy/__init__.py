"""Account for privacy: guarantees, their composition, and the ledger."""
