-- Which access key a request came with, and what of it counts for that key's limits. Without a key the id is empty, as of
-- all requests until now. The name is the key's at that time.
ALTER TABLE usage ADD COLUMN key_id TEXT NOT NULL DEFAULT '';
ALTER TABLE usage ADD COLUMN key_name TEXT NOT NULL DEFAULT '';
ALTER TABLE usage ADD COLUMN key_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN is_held_back INTEGER NOT NULL DEFAULT 0;
