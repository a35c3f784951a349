-- Full-text search in attached files. What was read of a file lies beside the database, where others may touch it, so
-- this index has a copy of its own. A file is indexed once, whatever questions have it, and goes with the last of them.
CREATE TABLE indexed_files (
    seq  INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE
);
CREATE VIRTUAL TABLE file_text USING fts5 (content, tokenize = 'unicode61 remove_diacritics 2');
CREATE TRIGGER indexed_files_removed AFTER DELETE ON indexed_files BEGIN
    DELETE FROM file_text WHERE rowid = old.seq;
END;
