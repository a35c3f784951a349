"""The title a chat gets from its first question."""

MAX_TITLE = 60
UNTITLED = "New chat"


def title_from(question: str) -> str:
    """Return the first line with something on it, cut at a word boundary to 60 characters."""
    line = next((line for line in map(_tidy_line, question.splitlines()) if line), UNTITLED)
    if len(line) <= MAX_TITLE:
        return line
    room = MAX_TITLE - 1  # for the ellipsis
    cut = line[: room + 1].rfind(" ")
    return line[: cut if cut > 0 else room].rstrip(" ,;:.-") + "…"


def _tidy_line(line: str) -> str:
    return " ".join(line.split()).strip("# ")
