"""Stands in for llguidance 1.9.1, with the stand-in's vocabulary: of schemas it follows `{"const": ...}` alone.

Like the original it raises nothing for a schema it cannot follow; it says so when asked, and then never leaves that.
"""

import json

ALLOWED = 200


class LLTokenizer:
    def __init__(self, text: str, *, eos_token: list[int]) -> None:
        assert json.loads(text)["model"], "the text of tokenizer.json"
        self.ends = eos_token
        self.vocab_size = 257


class LLMatcher:
    def __init__(self, tokenizer: LLTokenizer, grammar: str) -> None:
        schema = json.loads(grammar)
        self._vocabulary = tokenizer
        self._text = [1 + byte for byte in json.dumps(schema.get("const", {})).encode()]
        self._breaks_at = schema.get("breaks_at", -1)
        self._at, self._error = 0, ""

    @staticmethod
    def grammar_from_json_schema(schema: str) -> str:
        return schema

    @staticmethod
    def validate_grammar(grammar: str, tokenizer: LLTokenizer) -> str:
        return "Invalid type: nonsense" if json.loads(grammar).get("type") == "nonsense" else ""

    def reset(self) -> bool:
        self._at = 0
        return True

    def consume_token(self, token: int) -> bool:
        may = self.compute_logit_bias()
        if not may[token] or self._at == self._breaks_at:
            self._error = "Parser limit exceeded\n<state>much of it</state>"
        self._at += 1
        return not self._error

    def is_error(self) -> bool:
        return bool(self._error)

    def get_error(self) -> str:
        return self._error

    def compute_logit_bias(self) -> bytes:
        may = [self._text[self._at]] if self._at < len(self._text) else self._vocabulary.ends
        return bytes(ALLOWED if token in may else 0 for token in range(self._vocabulary.vocab_size))
