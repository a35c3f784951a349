-- What people do with single messages. A deleted one is hidden for 30 days: what follows it then stands below what was
-- before it, which is worked out when messages are read, so that it can come back where it was.
ALTER TABLE messages ADD COLUMN deleted_at REAL;
ALTER TABLE messages ADD COLUMN is_edited INTEGER NOT NULL DEFAULT 0;
CREATE INDEX messages_deleted ON messages (deleted_at) WHERE deleted_at IS NOT NULL;
