"""Options of how answers are made: read from a command line, and said in OpenAI's dialect."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.cli.answer_options import read_sampling
from app.client.endpoint import sampling_fields
from app.core.chats import Sampling
from app.core.errors import BadRequest
from app.core.thinking import ThinkingLevel


def fields_of(sampling: Sampling) -> Any:  # noqa: ANN401 -- JSON
    return msgspec.json.decode(msgspec.json.encode(sampling_fields(sampling)))


def test_files_are_read_and_checked(tmp_path: Path) -> None:
    schema, wrong = tmp_path / "s.json", tmp_path / "w.gbnf"
    schema.write_text('{"type": "string"}')
    wrong.write_text("root ::= x")
    option_values = {
        "json_schema": schema,
        "thinking": "off",
        "stops": ("a", "b"),
        "temperature": None,
        "grammar": None,
    }
    assert read_sampling(option_values) == Sampling(
        json_schema='{"type": "string"}', thinking=ThinkingLevel.OFF, stops=["a", "b"]
    )
    with pytest.raises(BadRequest, match="line 1: there is no rule 'x'"):
        read_sampling({"grammar": wrong})
    with pytest.raises(BadRequest, match="not to both"):
        read_sampling({"grammar": wrong, "json_schema": schema})
    wrong.write_bytes(b"\xff\xfe")
    with pytest.raises(BadRequest, match="not UTF-8"):
        read_sampling({"grammar": wrong})


def test_the_endpoint_is_told_in_its_words() -> None:
    assert fields_of(Sampling(temperature=0.5, stops=["x"])) == {"temperature": 0.5, "stop": ["x"]}
    assert fields_of(Sampling(thinking=ThinkingLevel.OFF)) == {"think": False}
    assert fields_of(Sampling(thinking=ThinkingLevel.ON, thinking_budget=9)) == {
        "think": True,
        "thinking_budget_tokens": 9,
    }
    assert fields_of(Sampling(thinking=ThinkingLevel.HIGH)) == {"think": "high"}
    assert fields_of(Sampling(grammar="g", thinking=ThinkingLevel.HIGH)) == {"grammar": "g", "think": False}
    form = fields_of(Sampling(json_schema='{"type":\n"string"}'))["response_format"]
    assert form["json_schema"]["schema"] == {"type": "string"}
