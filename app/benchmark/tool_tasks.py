"""Tasks that a model can only begin by calling a tool, with tools of the kinds that all coding agents offer.

Names and words are our own. Whether a call comes, and whether it can be made, is what a preflight counts.
"""

import msgspec

_STRING, _NUMBER, _FLAG, _STRINGS = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "boolean"},
    {"type": "array", "items": {"type": "string"}},
)


class TaskTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as it is offered; `parameters` is its JSON schema."""

    name: str
    description: str
    parameters: msgspec.Raw


def _make_tool(name: str, description: str, required: dict[str, object], optional: dict[str, object]) -> TaskTool:
    schema = {
        "type": "object",
        "properties": required | optional,
        "required": [*required],
        "additionalProperties": False,
    }
    return TaskTool(name=name, description=description, parameters=msgspec.Raw(msgspec.json.encode(schema)))


TASK_TOOLS = (
    _make_tool(
        "read_file",
        "Return the text of a file, all of it or some lines.",
        {"path": _STRING},
        {"first_line": _NUMBER, "last_line": _NUMBER},
    ),
    _make_tool("write_file", "Create a file, or replace its text.", {"path": _STRING, "text": _STRING}, {}),
    _make_tool(
        "replace_text",
        "Replace a passage of a file by another.",
        {"path": _STRING, "old": _STRING, "new": _STRING},
        {"everywhere": _FLAG},
    ),
    _make_tool("list_folder", "Return the names of the files in a folder.", {"path": _STRING}, {"recursive": _FLAG}),
    _make_tool(
        "search_files",
        "Return the lines that match a regular expression, with their files.",
        {"pattern": _STRING},
        {"folders": _STRINGS, "order": {"type": "string", "enum": ["name", "date"]}},
    ),
    _make_tool(
        "run_command", "Run a shell command and return what it writes.", {"command": _STRING}, {"seconds": _NUMBER}
    ),
)
INSTRUCTIONS = (
    "You are a coding agent that works in the folder /work. You see files and run programs by calling tools only. "
    "Answer each request with the one call that begins it."
)
TASKS = (
    "What does README.md say?",
    "Show me lines 10 to 40 of src/main.py.",
    "Which files are in the folder tests?",
    "List everything below src, with all folders in it.",
    "Create a file hello.txt with the text: Hello, world.",
    "Write a file add.py with a function that adds two numbers.",
    "In setup.cfg, change version = 1.0 to version = 1.1.",
    "Rename the variable total to count everywhere in billing.py.",
    "Where is the function parse_line defined?",
    "Find every TODO in src and lib.",
    "Find all lines that begin with import, the newest files first.",
    "Run the tests with pytest.",
    "Run make build, and give it at most 60 seconds.",
    "Which version of Python is installed?",
    "Make an empty file called .gitignore that ignores *.log.",
    "What changed since the last commit?",
    "Replace 'colour' by 'color' in notes/style.md, all of them.",
    "Write a JSON file config.json with the keys name and port.",
    'Find the text "it\'s \\"quoted\\"" in the folder data.',
    "Show the first 5 lines of data/table.csv.",
)
