"""What the Guide knows, how it recognises a question, and what it says of what was looked up."""
