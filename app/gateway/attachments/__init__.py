"""Files of conversations: read in a child, kept by the store, and made part of a prompt."""
