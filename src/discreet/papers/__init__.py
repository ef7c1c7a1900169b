"""Claims of the papers, as corrected, that no part of the product computes with: experiments and readers do."""
