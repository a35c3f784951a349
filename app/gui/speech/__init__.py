"""Words that are heard, and words that are spoken: reading aloud, and dictation."""
