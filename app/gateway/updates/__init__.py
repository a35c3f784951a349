"""A newer Roundhouse: known of, installed, and what a service does as its very last."""
