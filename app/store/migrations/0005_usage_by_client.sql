-- Who used it, and where: answers in Roundhouse's own chats were all there was until now.
ALTER TABLE usage ADD COLUMN client TEXT NOT NULL DEFAULT 'Roundhouse';
ALTER TABLE usage ADD COLUMN route TEXT NOT NULL DEFAULT 'chat';
ALTER TABLE usage ADD COLUMN cached_tokens INTEGER;
