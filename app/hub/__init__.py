"""Models on disk: reading their headers, listing them where they lie."""
