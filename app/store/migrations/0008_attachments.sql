-- Files of questions: `value` is the JSON of core.attachments.Attachment, `hash` the name under which the file lies in
-- the folder beside this database, where it stays as long as a row has it. `message` is null until the file is sent.
CREATE TABLE attachments (
    seq        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    message    TEXT REFERENCES messages (id) ON DELETE CASCADE,
    hash       TEXT NOT NULL,
    value      TEXT NOT NULL,
    created_at REAL NOT NULL
);
CREATE INDEX attachments_of_message ON attachments (message, seq);
CREATE INDEX attachments_by_hash ON attachments (hash);
