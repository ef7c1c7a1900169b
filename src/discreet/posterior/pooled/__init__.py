"""The default posterior: noisy tables pooled into interactions, rows drawn with a prior learned from them."""
