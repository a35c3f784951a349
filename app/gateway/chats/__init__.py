"""Answers in the window's chats."""
