"""A hundred tasks that a model can only begin by calling a tool that reads, writes, finds or runs, as all agents have.

The words are our own. Whether a call comes, and whether it can be made, is what a preflight counts.
"""

INSTRUCTIONS = (
    "You are a coding agent that works in the folder /work. You see files and run programs by calling tools only. "
    "Answer each request with the one call that begins it."
)
_TASKS = (
    "What does {page} say?",
    "Show me lines 10 to 40 of {source}.",
    "Which files are in the folder {folder}?",
    "List everything below {folder}, with all folders in it.",
    "Create a file {page} with the text: Hello, world.",
    "Write {source} with a function {name} that adds two numbers.",
    "In {settings}, change version = 1.0 to version = 1.1.",
    "Rename the variable {name} to {other} everywhere in {source}.",
    "Where is the function {name} defined?",
    "Find every TODO in {folder}.",
    "Find all lines of {source} that begin with import.",
    "Run the tests in {folder}.",
    "Run make {name}, and give it at most 60 seconds.",
    "Which version of {program} is installed?",
    "Make a file {folder}/.gitignore that ignores {page}.",
    "What changed in {folder} since the last commit?",
    "Replace '{name}' by '{other}' in {page}, all of them.",
    "Write a JSON file {folder}/config.json with the keys {name} and {other}.",
    'Find the text "it\'s \\"{name}\\"" in the folder {folder}.',
    "Show the first 5 lines of {settings}.",
)
_SCENES: tuple[dict[str, str], ...] = (
    {
        "page": "README.md",
        "source": "src/main.py",
        "folder": "tests",
        "settings": "setup.cfg",
        "name": "total",
        "other": "count",
        "program": "Python",
    },
    {
        "page": "guides/notes.md",
        "source": "lib/parser.js",
        "folder": "lib",
        "settings": "package.toml",
        "name": "parse_line",
        "other": "read_line",
        "program": "node",
    },
    {
        "page": "hello.txt",
        "source": "billing/invoice.go",
        "folder": "billing",
        "settings": "service.ini",
        "name": "colour",
        "other": "color",
        "program": "go",
    },
    {
        "page": "CHANGES.rst",
        "source": "core/queue.rs",
        "folder": "core",
        "settings": "Cargo.toml",
        "name": "push_all",
        "other": "extend",
        "program": "cargo",
    },
    {
        "page": "data/table.csv",
        "source": "app/models/user.rb",
        "folder": "app/models",
        "settings": "config/application.conf",
        "name": "email",
        "other": "address",
        "program": "ruby",
    },
)


def list_tasks() -> list[str]:
    """Return the hundred tasks; where time ends them, those that were set are of all kinds."""
    return [task.format(**scene) for scene in _SCENES for task in _TASKS]
