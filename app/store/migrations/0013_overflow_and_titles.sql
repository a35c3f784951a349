-- What becomes of a conversation that is longer than the model's context (`overflow`), and what an answer was made
-- without: how many messages from the first on, and the summary that stood for them.
ALTER TABLE chats ADD COLUMN overflow TEXT NOT NULL DEFAULT 'default';
ALTER TABLE messages ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN summary TEXT NOT NULL DEFAULT '';
-- Who gave a chat its title: its first 'question', its 'model', or a 'person', which is what nobody may overwrite.
ALTER TABLE chats ADD COLUMN title_by TEXT NOT NULL DEFAULT 'person';
