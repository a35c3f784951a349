"""What all dialects mean: one request, one stream of events, and how families of models write both."""
