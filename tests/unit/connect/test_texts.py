"""The editors: what is put is there, nothing else is touched, and what they cannot do they refuse."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.connect import json_text, yaml_text
from app.connect.connections import difference
from app.connect.document_paths import DocumentChange, ListEntry, Plain, UnreadableSettings, place_value, value_at
from app.connect.documents import JSON, TOML, YAML, DocumentFormat, edit_document, is_same_value

WORDS = st.text("abcdefgh_-.é\"\\ /#:{}[]'\t", min_size=1, max_size=8)
LEAVES = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | WORDS
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=4)
PATHS = st.lists(WORDS, min_size=1, max_size=3).map(tuple)
GAPS = st.sampled_from(["", " ", "\n", "\r\n\t", " // a, {comment}\n", '/* [ " */', "\n  # "[:2]])


@st.composite
def json_texts(draw: st.DrawFn, value: Plain) -> str:
    """Write a value as JSON with comments, odd gaps and trailing commas."""

    is_ascii = draw(st.booleans())

    def gap() -> str:
        return draw(GAPS)

    def inner(parts: list[str], open_bracket: str, close_bracket: str) -> str:
        has_trailing: bool = draw(st.booleans())
        trailing_comma = "," + gap() if parts and has_trailing else ""
        return open_bracket + gap() + (gap() + "," + gap()).join(parts) + gap() + trailing_comma + close_bracket

    def write_value(value: Plain) -> str:
        if isinstance(value, dict):
            pairs = [f"{json.dumps(key)}{gap()}:{gap()}{write_value(entry)}" for key, entry in value.items()]
            return inner(pairs, "{", "}")
        if isinstance(value, list):
            return inner([write_value(entry) for entry in value], "[", "]")
        return json.dumps(value, ensure_ascii=is_ascii)

    return gap() + write_value(value) + gap()


@given(data=st.data(), before=OBJECTS, path=PATHS, value=VALUES.filter(lambda value: value is not None))
def test_json_keeps_every_byte_but_the_value(
    data: st.DataObject, before: dict[str, Plain], path: tuple[str, ...], value: Plain
) -> None:
    text = data.draw(json_texts(before))
    assert json_text.parse_text(text) == before
    try:
        meant_document = place_value(before, path, value)
    except UnreadableSettings:
        with pytest.raises(UnreadableSettings):
            edit_document(JSON, text, [DocumentChange(path, value)])
        return
    after = edit_document(JSON, text, [DocumentChange(path, value)])
    assert is_same_value(json_text.parse_text(after), meant_document)
    assert edit_document(JSON, after, [DocumentChange(path, value)]) == after
    if value_at(before, path) is None and not _is_present_null(before, path):
        assert _is_kept_in_order(text, after)


def _is_present_null(before: Plain, path: tuple[str, ...]) -> bool:
    for step in path:
        if not isinstance(before, dict) or step not in before:
            return False
        before = before[step]
        if before is None:
            return True
    return before is None


def _is_kept_in_order(text: str, after: str) -> bool:
    """Return whether `after` is `text` with things put in; the white space before a closing bracket may be ours."""
    rest = iter(after)
    return all(letter in rest for letter in text if not letter.isspace())


@given(text=st.text('{}[]:,"\\ \n/*at0.-e', max_size=30))
def test_any_text_is_json_with_comments_or_is_refused(text: str) -> None:
    with suppress(UnreadableSettings):
        json_text.parse_text(text)


@pytest.mark.slow
@settings(max_examples=50)
@given(
    before=OBJECTS,
    path=PATHS,
    value=VALUES.filter(lambda value: value is not None),
    indent=st.sampled_from([2, 4]),
    is_flow=st.booleans(),
)
def test_yaml_is_edited_or_refused_and_never_changed_otherwise(
    before: dict[str, Plain], path: tuple[str, ...], value: Plain, indent: int, *, is_flow: bool
) -> None:
    text = json.dumps(before, indent=indent if not is_flow else None, ensure_ascii=False)
    text = text.replace("\t", " ") if is_flow else yaml_text._block(before, 0, "\n") + "\n# tail\n"
    known_document = yaml_text.parse_text(text)
    try:
        after = edit_document(YAML, text, [DocumentChange(path, value)])
    except UnreadableSettings:
        return
    assert is_same_value(yaml_text.parse_text(after), place_value(known_document, path, value))
    assert is_flow or after.count("# tail") >= 1


TOML_NAMES = st.text("abcdefgh_-", min_size=1, max_size=6)
TOML_PATHS = st.lists(TOML_NAMES, min_size=1, max_size=2).map(tuple)


@pytest.mark.slow
@given(paths=st.lists(st.tuples(TOML_PATHS, WORDS), max_size=4), path=TOML_PATHS, value=WORDS)
def test_toml_keeps_comments(paths: list[tuple[tuple[str, ...], str]], path: tuple[str, ...], value: str) -> None:
    text = "# head\n"
    for place, word in paths:
        try:
            text = edit_document(TOML, text, [DocumentChange(place, word)])
        except UnreadableSettings:
            continue
    try:
        after = edit_document(TOML, text, [DocumentChange(path, value)])
    except UnreadableSettings:
        return
    assert value_at(TOML.parsed(after), path) == value
    assert after.startswith("# head\n") or after.index("# head") >= 0


@pytest.mark.parametrize(
    ("form", "text", "path", "value", "expected_text"),
    [
        (JSON, "{}", ("a",), 1, '{\n  "a": 1\n}'),
        (JSON, '{"a": 1}', ("b",), 2, '{"a": 1, "b": 2}'),
        (JSON, '{"a": 1}', ("b",), {"c": [2]}, '{"a": 1, "b": {"c": [2]}}'),
        (JSON, "\n  {}", ("a",), 1, '\n  {\n    "a": 1\n  }'),
        (JSON, '{\n\t"a": 1 // one\n}', ("b",), 2, '{\n\t"a": 1, // one\n\t"b": 2\n}'),
        (JSON, '{\n    "a": 1,\n}\n', ("b",), 2, '{\n    "a": 1,\n    "b": 2,\n}\n'),
        (JSON, '{"a": 1, "a": 2}', ("a",), 3, '{"a": 1, "a": 3}'),
        (JSON, "// only this\n", ("a",), 1, '// only this\n{\n  "a": 1\n}\n'),
        (JSON, "\ufeff{}", ("a",), 1, '\ufeff{\n  "a": 1\n}'),
        (YAML, "a: 1 # one\n", ("b",), "x", "a: 1 # one\nb: x\n"),
        (YAML, "a: 'x' # one\nb: 2\n", ("a",), "no", 'a: "no" # one\nb: 2\n'),
        (YAML, "a:\n  b: 1\n# c\nd: 2\n", ("a", "e"), True, "a:\n  b: 1\n  e: true\n# c\nd: 2\n"),
        (YAML, "# nothing yet", ("a",), 1, "# nothing yet\na: 1\n"),
        (YAML, "a: ~\n", ("a",), "x", "a: x\n"),
        (YAML, "l:\n- k: a\n", ("l", ListEntry("k", "b")), {"k": "b"}, "l:\n- k: a\n- k: b\n"),
        (TOML, 'a = "x" # one\n\n[t]\nb = 1\n', ("a",), "y", 'a = "y" # one\n\n[t]\nb = 1\n'),
        (JSON, "{}", ("a",), "é", '{\n  "a": "é"\n}'),
        (JSON, '{"a": "x"}', ("b",), "é", '{"a": "x", "b": "é"}'),
        (JSON, "\n// head", ("a",), 1, '\n// head\n{\n  "a": 1\n}\n'),
        (JSON, "", ("a",), 1, '{\n  "a": 1\n}\n'),
        (JSON, '{"a": null}', ("a", "b"), 1, '{"a": {\n  "b": 1\n}}'),
        (JSON, '{"a": 1}', ("a",), True, '{"a": true}'),
        (JSON, "[]", (ListEntry("k", "a"),), {"k": "a"}, '[\n  {\n    "k": "a"\n  }\n]'),
        (JSON, '{"l": [{"k": "a"}]}', ("l", ListEntry("k", "b")), {"k": "b"}, '{"l": [{"k": "a"}, {"k": "b"}]}'),
        (JSON, '[{"k": "a", "v": 1}]', (ListEntry("k", "a"), "v"), 2, '[{"k": "a", "v": 2}]'),
        (JSON, '{\r\n  "a": 1\r\n}', ("b",), 2, '{\r\n  "a": 1,\r\n  "b": 2\r\n}'),
        (JSON, '{"a": 1, }', ("b",), 2, '{"a": 1, "b": 2 }'),
        (
            JSON,
            '{\n      "a": 1,\n      "b": {\n        "c": 1\n      }\n}',
            ("b", "d"),
            2,
            '{\n      "a": 1,\n      "b": {\n        "c": 1,\n        "d": 2\n      }\n}',
        ),
        (YAML, "a:\nc: 2\n", ("a", "b"), "x", "a:\n  b: x\nc: 2\n"),
        (YAML, "a:\n", ("a",), "x", "a: x\n"),
        (YAML, "{a: }\n", ("a", "b"), 1, '{a: {"b": 1} }\n'),
        (YAML, "{a: 1}\n", ("b",), 2, "{a: 1, b: 2}\n"),
        (YAML, "{}\n", ("b",), 2, "{b: 2}\n"),
        (YAML, "a: {b: 1}\n", ("a",), {"c": 2}, 'a: {"c": 2}\n'),
        (YAML, "a:\n  b: 1\nc: 2\n", ("a",), {"d": [1, 2]}, "a:\n  d:\n    - 1\n    - 2\nc: 2\n"),
        (YAML, "l:\n- k: a\n  v: 1\n# c\n", ("l", ListEntry("k", "a"), "v"), 2, "l:\n- k: a\n  v: 2\n# c\n"),
        (YAML, "l:\n- k: a\n- k: b\n", ("l", ListEntry("k", "b"), "v"), 2, "l:\n- k: a\n- k: b\n  v: 2\n"),
        (YAML, "a: [1, 2]\n", ("b",), 3, "a: [1, 2]\nb: 3\n"),
        (YAML, "a: {}\n# c\n", ("b",), 3, "a: {}\nb: 3\n# c\n"),
        (YAML, "a: 1\r\nc: 2\r\n", ("b",), {"d": 1}, "a: 1\r\nc: 2\r\nb:\r\n  d: 1\r\n"),
        (YAML, "a: |\n  t\n\nc: 1\n", ("b",), 2, "a: |\n  t\n\nc: 1\nb: 2\n"),
        (YAML, "c: 1\na: |\n  t\n", ("b",), 2, "c: 1\na: |\n  t\nb: 2\n"),
        (YAML, "a: 1", ("b",), "y", 'a: 1\nb: "y"'),
        (TOML, "", ("x", "y", "z"), 1, "[x.y]\nz = 1\n"),
        (TOML, "", ("x", "y"), {"k": 1}, "[x.y]\nk = 1\n"),
        (TOML, "", ("x", "y"), 1, "[x]\ny = 1\n"),
        (TOML, "a = 1\r\n", ("b",), 2, "a = 1\r\nb = 2\r\n"),
        (TOML, "\ufeffa = 1\n", ("a",), 2, "\ufeffa = 2\n"),
    ],
)
def test_what_is_written(
    form: DocumentFormat, text: str, path: tuple[str, ...], value: Plain, expected_text: str
) -> None:
    assert edit_document(form, text, [DocumentChange(path, value)]) == expected_text


def test_the_line_that_is_not_json_is_named() -> None:
    with pytest.raises(UnreadableSettings, match="line 2 is not JSON"):
        json_text.parse_text('\n{"a": }\n')


def test_an_alias_is_not_edited_through() -> None:
    text = "a: &x\n  k: 1\nb: *x\n"
    with pytest.raises(UnreadableSettings):
        edit_document(YAML, text, [DocumentChange(("b", "k"), 2)])


@pytest.mark.slow
@pytest.mark.parametrize("text", ["[" * 5000, "a: " + "[" * 3000])
def test_depth_is_refused(text: str) -> None:
    for form in (JSON, YAML, TOML):
        with pytest.raises(UnreadableSettings):
            form.parsed(text)


@pytest.mark.parametrize(
    "line",
    [
        '"apiKey": "top-secret-1",',
        "api_key = 'top-secret-1'",
        "openai-api-key: top-secret-1",
        "ANTHROPIC_AUTH_TOKEN=top-secret-1",
        "x: sk-top-secret-1",
    ],
)
def test_other_services_keys_are_masked_in_a_difference(line: str) -> None:
    diff = difference("f", f"{line}\nb\n", f"{line}\nc\n")
    assert "top-secret" not in diff
    assert "-b" in diff
    assert "+c" in diff


@pytest.mark.parametrize(
    "line",
    [
        '{"a": {"capabilities": {"prompt_cache_key": false}}, "model": "quick"}',
        '{"max_tokens": 8192}, "b": [{"keys": {"x": 1}}, {"tokens":[1]}]',
    ],
)
def test_what_is_no_secret_is_shown_with_all_that_follows_on_its_line(line: str) -> None:
    assert f"+{line}" in difference("f", "", f"{line}\n").splitlines()


def test_a_secret_in_a_document_on_one_line_is_masked_alone() -> None:
    diff = difference("f", "", '{"key": {"token": "top-secret-1", "prompt_cache_key": false}}\n')
    assert '+{"key": {"token": "••••", "prompt_cache_key": false}}' in diff


def test_our_own_key_is_shown() -> None:
    assert '+"apiKey": "roundhouse"' in difference("f", "", '"apiKey": "roundhouse"\n')


@pytest.mark.parametrize(
    "text", ["{a: 1}", '{"a" 1}', '{"a"x1}', "{:1}", '{"a"}', '{"a": 1 "b": 2}', "[1 2]", "[1,,2]", '{"a": NaN}', "1 2"]
)
def test_what_is_no_json_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(UnreadableSettings, match="line 1 is not JSON"):
        json_text.parse_text(text)


def test_json_is_read_as_deep_as_settings_are_and_no_deeper() -> None:
    deepest = json_text.parse_text("[" * 100 + "]" * 100)
    for _ in range(99):
        assert isinstance(deepest, list)
        (deepest,) = deepest
    assert deepest == []
    with pytest.raises(UnreadableSettings):
        json_text.parse_text("[" * 101 + "]" * 101)


@pytest.mark.parametrize(
    ("form", "text", "path", "value"),
    [
        (YAML, "a:\n  b: 1\n", ("a", "b"), {"c": 2}),
        (YAML, "a: 1\n", ("a", "b"), 2),
        (YAML, "a: 1\n", ("a", ListEntry("k", "b")), {"k": "b"}),
        (YAML, "- 1\n", ("a",), 2),
        (JSON, '{"a": 1}', ("a", "b"), 2),
        (JSON, '{"a": {}}', ("a", ListEntry("k", "b")), {"k": "b"}),
        (JSON, "[1]", ("a",), 2),
        (TOML, "a = 1\n", ("a", "b"), 2),
    ],
)
def test_what_holds_a_single_value_or_another_kind_is_not_replaced(
    form: DocumentFormat, text: str, path: tuple[str, ...], value: Plain
) -> None:
    with pytest.raises(UnreadableSettings):
        edit_document(form, text, [DocumentChange(path, value)])


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (1.5, 1.5, True),
        (1.5, 2.5, False),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (1, True, False),
        (1, 1.0, False),
        ([1, 2], [1], False),
        ([1], [1, 2], False),
        ([1, 2], [2, 1], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": [1.5]}, {"a": [1.5]}, True),
        ("a", "b", False),
        (None, None, True),
    ],
)
def test_values_are_the_same_in_type_order_and_number(first: object, second: object, *, is_same: bool) -> None:
    assert is_same_value(first, second) is is_same


def test_an_entry_of_a_list_is_the_one_that_its_key_names() -> None:
    data: Plain = {"l": [{"k": "a", "v": 1}, {"k": "b", "v": 2}, 3]}
    assert value_at(data, ("l", ListEntry("k", "b"), "v")) == 2
    assert value_at(data, ("l", ListEntry("k", "c"), "v")) is None
    assert value_at(data, ("l", "v")) is None


def test_a_default_is_put_only_where_there_is_nothing() -> None:
    change = DocumentChange(("a",), 2, is_default=True)
    assert edit_document(JSON, '{"a": 1}', [change]) == '{"a": 1}'
    assert edit_document(JSON, '{"b": 1}', [change]) == '{"b": 1, "a": 2}'


@pytest.mark.parametrize(
    ("form", "text", "why"),
    [
        (YAML, "a: 1\nb: [\n", "line 3 is not YAML."),
        (YAML, "a: &x\n  - *x\n  - !!python/object:os.system\n", "YAML"),
        (TOML, "a = 1\nb = \n", "line 2 is not TOML."),
        (JSON, '{\n"a": 1\n"b": 2}', "line 3 is not JSON."),
    ],
)
def test_where_a_file_cannot_be_read_is_said(form: DocumentFormat, text: str, why: str) -> None:
    with pytest.raises(UnreadableSettings) as refusal:
        form.parsed(text)
    assert str(refusal.value).startswith("The file was left unchanged: ")
    assert why in str(refusal.value)
