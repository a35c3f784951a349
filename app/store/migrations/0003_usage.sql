-- What was generated, kept when its conversation is deleted: one row per finished answer.
CREATE TABLE usage (
    seq               INTEGER PRIMARY KEY,
    at                REAL NOT NULL,
    model             TEXT NOT NULL,
    engine            TEXT NOT NULL,
    status            TEXT NOT NULL,
    prompt_tokens     INTEGER,
    completion_tokens INTEGER,
    seconds           REAL
);
CREATE INDEX usage_at ON usage (at);
