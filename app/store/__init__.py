"""Conversations in SQLite: one owner thread, numbered migrations, full-text search."""
