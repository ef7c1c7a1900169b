"""What the errata run: printed claims, each with a case, a claimed and a measured number, by the way they err."""
