-- Conversations are trees of messages. `seq` is creation order and never the clock: a clock that is set back must not
-- reorder what was said. Foreign keys of `parent` are deferred because a chat's messages are deleted together.
CREATE TABLE chats (
    seq           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    title         TEXT NOT NULL,
    model         TEXT NOT NULL,
    system_prompt TEXT NOT NULL,
    sampling      TEXT NOT NULL,
    head          TEXT,
    created_at    REAL NOT NULL,
    updated_at    REAL NOT NULL,
    deleted_at    REAL
);
CREATE INDEX chats_updated ON chats (updated_at);
CREATE INDEX chats_deleted ON chats (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE messages (
    seq           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    chat          TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    parent        TEXT REFERENCES messages (id) DEFERRABLE INITIALLY DEFERRED,
    role          TEXT NOT NULL,
    content       TEXT NOT NULL,
    reasoning     TEXT NOT NULL DEFAULT '',
    status        TEXT NOT NULL,
    model         TEXT NOT NULL DEFAULT '',
    engine        TEXT NOT NULL DEFAULT '',
    timings       TEXT,
    finish_reason TEXT NOT NULL DEFAULT '',
    error         TEXT NOT NULL DEFAULT '',
    created_at    REAL NOT NULL
);
CREATE INDEX messages_of_chat ON messages (chat, seq);
CREATE INDEX messages_of_parent ON messages (parent) WHERE parent IS NOT NULL;
CREATE INDEX messages_unfinished ON messages (seq) WHERE status = 'generating';
