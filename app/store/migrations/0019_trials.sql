-- What came of trials: results as the JSON of core.trials, without words.
CREATE TABLE trials (
    seq   INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    value TEXT NOT NULL
);
