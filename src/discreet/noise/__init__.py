"""Laws of noise: one class a law, and the samplers of vectors and stars by integer arithmetic."""
