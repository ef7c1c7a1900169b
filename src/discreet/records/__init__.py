"""The only code that touches records. What leaves it are statistics, for mechanisms only."""
