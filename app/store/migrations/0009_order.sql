-- Order among chats: pinned ones stand above the others, archived ones are out of the way and still found when looked
-- for among the archived.
ALTER TABLE chats ADD COLUMN is_pinned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chats ADD COLUMN is_archived INTEGER NOT NULL DEFAULT 0;
CREATE INDEX chats_pinned ON chats (updated_at) WHERE is_pinned;
CREATE INDEX chats_archived ON chats (updated_at) WHERE is_archived;
