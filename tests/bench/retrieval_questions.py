"""Questions about this project's own documents, each with a phrase of the passage that answers it."""

QUESTIONS: tuple[tuple[str, str], ...] = (
    ("How long are removed conversations kept before they vanish?", "stays in the trash for 30 days"),
    ("Which keys do I press to talk instead of typing?", "`Ctrl+Shift+D`"),
    ("When does an idle tool server shut down?", "ends after five minutes without a call"),
    ("Does a folder that was unplugged lose its index?", "keeps what it had until it is back"),
    ("How do I get rid of the program with my settings and chats?", "roundhouse uninstall --purge"),
    ("Can I keep a model in memory for good?", "A pinned model stays loaded until you run"),
    ("How do I free the GPU for a game right away?", "free all memory now"),
    ("How many files may I upload of a document, how big can one be?", "up to 64 MiB a file"),
    ("Who can read the pictures that I attached?", "readable by your account only"),
    ("What happens to a broken download when the network returns?", "continue where they broke off"),
    ("Is anything sent to others when a tool runs?", "It reaches no other computer unless you add it with `--network`"),
    ("Where are my preferences stored on Linux?", "`~/.config/roundhouse`"),
    ("How can another person on my network use the models?", "roundhouse keys new"),
    ("Does importing the same archive twice make duplicates?", "Importing the same file again changes nothing"),
    ("Can I have long answers cut off at a word of mine?", "--stop"),
    ("How is one told that a scanned document cannot be searched?", "A scanned PDF has no text"),
    ("May a program with a key allow tools by itself?", "With a key nothing can be allowed"),
    ("How many passages of text may take of the model's memory?", "at most a third of the model's context"),
)
