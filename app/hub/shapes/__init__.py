"""Well-known models by name: their metadata and tensor tables, in any quantisation, without a download."""
