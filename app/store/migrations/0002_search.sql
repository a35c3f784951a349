-- Full-text search over titles and finished messages. The indexes hold no copy of the text. An answer is indexed once,
-- when it is finished: rewriting its entry with every second of streaming would cost more than the answer.
CREATE VIRTUAL TABLE chat_text USING fts5 (
    title, content = 'chats', content_rowid = 'seq', tokenize = 'unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE message_text USING fts5 (
    content, content = 'messages', content_rowid = 'seq', tokenize = 'unicode61 remove_diacritics 2'
);

INSERT INTO chat_text (rowid, title) SELECT seq, title FROM chats;
INSERT INTO message_text (rowid, content) SELECT seq, content FROM messages WHERE status <> 'generating';

CREATE TRIGGER chats_added AFTER INSERT ON chats BEGIN
    INSERT INTO chat_text (rowid, title) VALUES (new.seq, new.title);
END;
CREATE TRIGGER chats_renamed AFTER UPDATE OF title ON chats BEGIN
    INSERT INTO chat_text (chat_text, rowid, title) VALUES ('delete', old.seq, old.title);
    INSERT INTO chat_text (rowid, title) VALUES (new.seq, new.title);
END;
CREATE TRIGGER chats_removed AFTER DELETE ON chats BEGIN
    INSERT INTO chat_text (chat_text, rowid, title) VALUES ('delete', old.seq, old.title);
END;

CREATE TRIGGER messages_added AFTER INSERT ON messages WHEN new.status <> 'generating' BEGIN
    INSERT INTO message_text (rowid, content) VALUES (new.seq, new.content);
END;
CREATE TRIGGER messages_finished AFTER UPDATE OF status ON messages
WHEN old.status = 'generating' AND new.status <> 'generating' BEGIN
    INSERT INTO message_text (rowid, content) VALUES (new.seq, new.content);
END;
CREATE TRIGGER messages_final BEFORE UPDATE OF content, status ON messages WHEN old.status <> 'generating' BEGIN
    SELECT RAISE(ABORT, 'a finished message never changes');
END;
CREATE TRIGGER messages_removed AFTER DELETE ON messages WHEN old.status <> 'generating' BEGIN
    INSERT INTO message_text (message_text, rowid, content) VALUES ('delete', old.seq, old.content);
END;
