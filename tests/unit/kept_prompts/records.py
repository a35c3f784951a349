"""Records of kept prompts as tests want them."""

import msgspec

from app.gateway.kept_prompts.policy import PromptRecord, prompt_chain


def prompt_body(text: str, **fields: object) -> bytes:
    return msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": text}], **fields})


def record_of(
    text: str = "word " * 2000,
    *,
    owner: str = "programs",
    model: str = "m",
    state_bytes: int = 1000,
    read_s: float = 10.0,
) -> PromptRecord:
    return PromptRecord(
        owner=owner,
        model=model,
        engine="llama.cpp",
        identity=f"identity of {model}",
        chain=prompt_chain(prompt_body(text)),
        tokens=len(text) // 4,
        prompt_tokens=len(text) // 4,
        read_s=read_s,
        state_bytes=state_bytes,
        created_at=0.0,
    )
