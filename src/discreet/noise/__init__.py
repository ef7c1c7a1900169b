"""Laws of noise, one class for each, and exact samplers of vectors and stars by integer arithmetic."""
