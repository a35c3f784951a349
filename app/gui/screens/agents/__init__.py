"""The page of coding agents: sessions in a folder, what happens in them, and what a person allows."""
