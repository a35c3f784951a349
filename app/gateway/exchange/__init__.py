"""One request to an engine, whoever makes it: resolved, planned, sent, passed on or translated, and observed."""
