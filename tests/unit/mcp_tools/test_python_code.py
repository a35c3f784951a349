"""Python that a model writes: what it prints, how it fails, and what bounds it."""

import pytest

from app.mcp_tools.python_code import RunPython, run_python
from app.mcp_tools.toolbox import ToolMistake


def test_what_a_program_prints_is_the_answer() -> None:
    assert run_python(RunPython("print(sum(n * n for n in range(10)))")) == "285\n"
    assert run_python(RunPython("x = 1")) == "(It printed nothing: use print.)"
    whole = "import statistics\nprint(statistics.mean([1, 2, 6]))\nif __name__ == '__main__':\n print('ä')"
    assert run_python(RunPython(whole)) == "3\nä\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print('so far')\n1 / 0", r"so far(.|\n)*ZeroDivisionError"),
        ("def", "SyntaxError"),
        ("raise SystemExit(3)", "ended with 3"),
    ],
)
def test_a_failure_says_why(code: str, words: str) -> None:
    with pytest.raises(ToolMistake, match=words):
        run_python(RunPython(code))


def test_a_program_without_end_is_ended_with_what_it_started() -> None:
    code = (
        "import subprocess, sys\nprint('begun', flush=True)\nsubprocess.run([sys.executable, '-c', 'while True: pass'])"
    )
    with pytest.raises(ToolMistake, match=r"ended after 2 seconds(.|\n)*begun"):
        run_python(RunPython(code), limit_s=2.0)


def test_much_output_is_cut() -> None:
    assert run_python(RunPython("print('x' * 1_000_000)")).endswith("(The rest was left out.)")
