"""Guarantees, their composition, and the ledger of charges."""
