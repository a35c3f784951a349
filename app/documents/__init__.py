"""Collections of documents: texts cut into passages, kept in an index that is searched by words and by meaning."""
