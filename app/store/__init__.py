"""Conversations and usage on disk: SQLite (WAL, FTS5), numbered migrations, one thread that owns the connection."""
