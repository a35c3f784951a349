-- Answers of OpenAI's Responses API, for clients that go on with one by its id. `previous` may have been forgotten, so
-- it is no foreign key. What was said is in the items: the new input first, then the output.
CREATE TABLE responses (
    seq        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    previous   TEXT,
    body       TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    used_at    REAL NOT NULL
);
CREATE INDEX responses_used ON responses (used_at);

CREATE TABLE response_items (
    response INTEGER NOT NULL REFERENCES responses (seq) ON DELETE CASCADE,
    place    INTEGER NOT NULL,
    id       TEXT NOT NULL,
    is_input INTEGER NOT NULL,
    value    TEXT NOT NULL,
    PRIMARY KEY (response, place)
) WITHOUT ROWID;
CREATE INDEX response_items_by_id ON response_items (id);
