-- Folders of chats, and what a new chat in one begins with; the files of a folder are attachments that it owns.
CREATE TABLE folders (
    seq           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    name          TEXT NOT NULL,
    model         TEXT NOT NULL,
    system_prompt TEXT NOT NULL,
    created_at    REAL NOT NULL
);
ALTER TABLE chats ADD COLUMN folder TEXT REFERENCES folders (id) ON DELETE SET NULL;
CREATE INDEX chats_of_folder ON chats (folder, updated_at);
ALTER TABLE attachments ADD COLUMN folder TEXT REFERENCES folders (id) ON DELETE CASCADE;
CREATE INDEX attachments_of_folder ON attachments (folder, seq) WHERE folder IS NOT NULL;

CREATE TABLE chat_tags (
    chat TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    tag  TEXT NOT NULL COLLATE NOCASE,
    PRIMARY KEY (chat, tag)
) WITHOUT ROWID;
CREATE INDEX chats_by_tag ON chat_tags (tag);
