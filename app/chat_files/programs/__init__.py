"""How single programs write their conversations: a module for each, with `is_chat` and `read_chat`."""
