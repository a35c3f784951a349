"""Chats as files: written for people and programs, and read from what this and other programs export."""
