-- The collections of a chat (their ids) and the passages of documents that an answer was given, both as JSON; no text
-- where there are none.
ALTER TABLE chats ADD COLUMN collections TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN documents TEXT NOT NULL DEFAULT '';
