"""Why a file cannot be read, raised where that shows and told by `program`."""

from app.core.attachments import ExtractionProblem, FileProblem


class UnreadableFile(Exception):
    """A file that cannot be attached."""

    def __init__(self, code: FileProblem, sentence: str, *, hint: str = "") -> None:
        super().__init__(sentence)
        self.problem = ExtractionProblem(code=code, sentence=sentence, hint=hint)


def damage_problem(what: str) -> UnreadableFile:
    """Return what is said of a file that is not as its kind should be."""
    return UnreadableFile(
        FileProblem.BROKEN,
        f"This {what} is damaged, or only a part of it.",
        hint="Open it in the program that made it, save it again, and attach that.",
    )


def password_problem(what: str) -> UnreadableFile:
    """Return what is said of a file that takes a password."""
    return UnreadableFile(
        FileProblem.ENCRYPTED,
        f"This {what} is protected with a password.",
        hint="Save it without a password, and attach that.",
    )


def no_text_problem(what: str) -> UnreadableFile:
    """Return what is said of a file without any text."""
    return UnreadableFile(
        FileProblem.NO_TEXT,
        f"There is no text in this {what}.",
        hint="If it shows pictures of pages, attach those pages as pictures to a model that sees.",
    )


def excess_problem() -> UnreadableFile:
    """Return what is said of a file that takes too much to read."""
    return UnreadableFile(
        FileProblem.EXCESSIVE,
        "This file takes more time or memory to read than a file of its size should.",
        hint="Save the part you need as a file of its own.",
    )
