"""Laws of noise: one class for each law, and exact samplers of vectors and stars in integer arithmetic."""
