"""Mathematics that calibrations compute with: what a record can move, and what that costs. Reads no data."""
