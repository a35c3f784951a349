"""What is tried, in this order, and which of the peers has it.

What the peers have is from their documentation and issues as of autumn 2026, read, not tried; where that does not
settle it, it says so.
"""

from collections.abc import Callable
from typing import NamedTuple

from tests.demo.real_window import rows_answers, rows_files
from tests.demo.real_window.window import RealWindow

PEERS = ("LM Studio", "Jan", "Open WebUI", "Cherry Studio")
YES, NO, PART, UNKNOWN = "yes", "no", "in part", "not known"


class Row(NamedTuple):
    """One capability: a function that tries it, whose docstring says how, and who else has it."""

    title: str
    try_it: Callable[[RealWindow], object]
    lm_studio: str = UNKNOWN
    jan: str = UNKNOWN
    open_webui: str = UNKNOWN
    cherry_studio: str = UNKNOWN

    @property
    def name(self) -> str:
        """What names it on the command line."""
        return self.try_it.__name__

    @property
    def how(self) -> str:
        """What was done."""
        return " ".join((self.try_it.__doc__ or "").split())

    @property
    def peers(self) -> tuple[str, ...]:
        """Whether each of the peers has it, in their order."""
        return self.lm_studio, self.jan, self.open_webui, self.cherry_studio


ROWS = (
    Row("Answers with the model's name and speed", rows_answers.ask_with_keys, YES, YES),
    Row("Files by a button, with size, cost and removal", rows_files.attach_with_button, "5 files, 30 MB", YES),
    Row("Files by drag and drop", rows_files.attach_by_drag),
    Row("Pictures from the clipboard", rows_files.attach_by_paste),
    Row("A warning before a picture goes to a model that cannot see", rows_files.warn_before_sending),
    Row("Models that see", rows_files.see_pixels, YES, YES),
    Row("PDF, DOCX, XLSX, HTML, CSV, notebooks, EPUB", rows_files.read_documents, "PDF, DOCX", "PDF, DOCX"),
    Row("A sentence for a file that is broken", rows_files.refuse_broken_file),
    Row("Formulas, drawn and copied as TeX", rows_answers.draw_formulas, "drawn", "drawn"),
    Row("Tables copied as Markdown and CSV", rows_answers.copy_tables),
    Row("Diffs in colour", rows_answers.colour_diffs),
    Row("Bare addresses as links", rows_answers.link_addresses),
    Row("Regenerate, with versions kept", rows_answers.regenerate, YES, "without versions"),
    Row("Regenerate with another model", rows_answers.regenerate_with_another),
    Row("Edit a question", rows_answers.edit_question, YES, YES),
    Row("Edit an answer", rows_answers.edit_answer),
    Row("Delete a message, with Undo", rows_answers.delete_and_undo),
    Row("Fork to a new chat", rows_answers.fork, YES, NO),
    Row("Continue an answer", rows_answers.continue_answer, YES),
    Row("Several models side by side, with speeds", rows_answers.compare_models, YES, NO),
    Row("Thoughts shown; thinking switched", rows_answers.switch_thinking, YES, "shown; switched in part"),
)
