"""How every process of an installed or frozen Roundhouse starts: it runs a module of ours, or what it is named for.

Our programs start each other as `PROGRAM -P -m module arguments`. PROGRAM is Python in a checkout; a frozen executable
and `python -P -m roundhouse_ai` understand the same, so that no caller has to know how it was packed. The executables
differ in name and in whether they have a terminal.

`app` and `engines` are names that other projects use too. In an environment of packages ours therefore lie inside this
one, and only the processes that start here can import them.
"""

import sys
from os import path

PACKAGE = path.dirname(path.abspath(__file__))
WINDOW = "app.gui"


def main() -> None:
    """Run what the arguments or our own name say."""
    put_own_packages_first()
    if sys.argv[1:3] == ["-P", "-m"] and len(sys.argv) > 3:  # noqa: PLR2004 -- and a module
        _become(sys.argv[3], sys.argv[4:])
    elif path.splitext(path.basename(sys.argv[0]))[0] == "roundhouse-window":
        _become(WINDOW, sys.argv[1:])
    else:
        from app.cli.main import main as run_command  # noqa: PLC0415 -- findable from here on

        run_command()


def put_own_packages_first() -> None:
    """Have this process find our packages before others of their names. In a checkout or frozen, it does anyway."""
    if path.isfile(path.join(PACKAGE, "app", "__init__.py")):
        sys.path.insert(0, PACKAGE)


def _become(module: str, arguments: list[str]) -> None:
    import runpy  # noqa: PLC0415 -- the command starts sooner without it

    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
