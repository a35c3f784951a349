-- The tools of a chat (`servers` whose tools its model may call, `permissions` that were decided in it) and the calls in
-- an answer, both as JSON; no text where there are none.
ALTER TABLE chats ADD COLUMN tools TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN calls TEXT NOT NULL DEFAULT '';
