"""Verification of mechanisms: audits of their guarantees, and simulations of their accuracy."""
