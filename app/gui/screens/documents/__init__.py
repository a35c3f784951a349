"""The page of collections: folders of documents that chats are given passages of."""
