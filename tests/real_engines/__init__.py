"""Engines made for cards, installed so that they generate on a processor: for tests, and kept outside the tree."""
