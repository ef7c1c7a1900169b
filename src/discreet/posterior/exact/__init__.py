"""The exact posterior with a Dirichlet prior: chains over the records that may lie behind a release."""
