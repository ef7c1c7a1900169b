"""Records of designs, as rows on a public grid, and the sums that mechanisms draw from."""
