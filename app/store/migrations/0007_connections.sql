-- Connections to other computers: the JSON of core.connections.Connection, a row for those that followed each other
-- closely. `at` is when the last was begun, by which rows are forgotten.
CREATE TABLE connections (
    id    TEXT PRIMARY KEY,
    at    REAL NOT NULL,
    value TEXT NOT NULL
);
CREATE INDEX connections_at ON connections (at);
