"""The chat page: conversations, one transcript, the composer, and the model that holds their state."""
