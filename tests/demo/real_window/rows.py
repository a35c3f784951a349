"""What is tried, in this order, and which of the peers has it.

What the peers have is from their documentation and issues as of autumn 2026, read, not tried; where that does not
settle it, it says so.
"""

from collections.abc import Callable
from typing import NamedTuple

from tests.demo.real_window import (
    rows_answers,
    rows_choices,
    rows_exports,
    rows_files,
    rows_look,
    rows_order,
    rows_start,
)
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
    Row("A first model: the best for this machine", rows_start.add_first_model, "a tag", "a tag"),
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
    Row("Answers held to a JSON schema", rows_choices.hold_to_schema, YES, PART),
    Row("Answers held to a grammar", rows_choices.hold_to_grammar),
    Row("Stop texts", rows_choices.end_at_stop_text),
    Row("Presets with variables", rows_choices.use_preset, "presets", "assistants"),
    Row("Tokens counted while typing", rows_choices.count_while_typing),
    Row("A choice where the context is full", rows_choices.choose_overflow, "without summary", "without summary"),
    Row("Titles by the model", rows_choices.title_by_model),
    Row(
        "Export as Markdown, JSON, HTML, PDF",
        rows_exports.export_formats,
        "announced",
        NO,
        UNKNOWN,
        YES,
    ),
    Row("All chats in one file, imported again", rows_exports.export_all_and_import, UNKNOWN, NO, "JSON"),
    Row("Import from six other programs", rows_exports.import_from_others, NO, NO),
    Row("Folders with a prompt and files", rows_order.use_folder, "folders", "projects"),
    Row("Chats dragged into folders", rows_order.drag_into_folder),
    Row("Pins", rows_order.pin),
    Row("Archive", rows_order.archive),
    Row("Tags", rows_order.tag),
    Row("Trash, with Undo", rows_order.trash),
    Row("Chats in a command palette", rows_order.find_in_palette),
    Row("Search in all chats; a hit opens at its place", rows_order.open_search_hit, UNKNOWN, PART, UNKNOWN, "search"),
    Row("Find in the open chat", rows_order.find_in_chat),
    Row("All of it by keys", rows_choices.use_keys_alone, "screen readers in part"),
    Row("Light and dark, live", rows_look.switch_theme, YES, YES),
    Row("Text at 200 %", rows_look.enlarge, PART, NO),
    Row("Mirrored, for scripts from right to left", rows_look.mirror, NO, PART),
    Row("Nothing lost when the service is killed", rows_look.kill_service),
)
