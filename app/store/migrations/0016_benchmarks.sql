-- What came of benchmarks: receipts as the JSON of core.benchmarks.
CREATE TABLE benchmarks (
    id    TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    at    REAL NOT NULL,
    value TEXT NOT NULL
);
CREATE INDEX benchmarks_by_model ON benchmarks (model, at);
