"""What each tool's file is where there was none, and where its traces are."""

import errno
from pathlib import Path

import pytest

from app.connect.connections import TOOLS, ToolConnections, find_tool
from app.connect.document_paths import DocumentChange, Plain
from app.connect.documents import edit_document
from app.connect.tool import ClientTool, WiredModel, WiringTarget
from tests.unit.connect.homes import BASE, home_on

OPENAI = f"{BASE}/v1"
WIRING = WiringTarget(BASE, (WiredModel("large", 40_000), WiredModel("small", 2048)))
SIZES = [("large", 40_000, 10_000), ("small", 2048, 512)]
"""Of each model the name, the context, and what of it is left for an answer."""
DOCUMENTS: dict[str, Plain] = {
    "llama-vscode": {
        "llama-vscode.endpoint": BASE,
        "llama-vscode.ai_model": "large",
        "llama-vscode.api_key": "roundhouse",
    },
    "tabby": {
        "model": {
            "completion": {
                "http": {
                    "kind": "openai/completion",
                    "model_name": "large",
                    "api_endpoint": OPENAI,
                    "api_key": "roundhouse",
                }
            }
        }
    },
    "continue": {
        "name": "Local",
        "version": "1.0.0",
        "schema": "v1",
        "models": [
            {
                "name": f"{name} (Roundhouse)",
                "provider": "openai",
                "model": name,
                "apiBase": OPENAI,
                "apiKey": "roundhouse",
                "roles": ["chat", "edit", "apply"],
                "capabilities": ["tool_use"],
                "defaultCompletionOptions": {"contextLength": context, "maxTokens": answer},
            }
            for name, context, answer in SIZES
        ],
    },
    "vscode": [
        {
            "name": "Roundhouse",
            "vendor": "customendpoint",
            "apiType": "chat-completions",
            "models": [
                {
                    "id": name,
                    "name": name,
                    "url": f"{OPENAI}/chat/completions",
                    "toolCalling": True,
                    "vision": False,
                    "maxInputTokens": context - answer,
                    "maxOutputTokens": answer,
                }
                for name, context, answer in SIZES
            ],
        }
    ],
    "zed": {
        "language_models": {
            "openai_compatible": {
                "Roundhouse": {
                    "api_url": OPENAI,
                    "available_models": [
                        {
                            "name": name,
                            "display_name": name,
                            "max_tokens": context,
                            "max_output_tokens": answer,
                            "capabilities": {
                                "tools": True,
                                "images": False,
                                "parallel_tool_calls": False,
                                "prompt_cache_key": False,
                            },
                        }
                        for name, context, answer in SIZES
                    ],
                }
            }
        },
        "agent": {"default_model": {"provider": "Roundhouse", "model": "large"}},
    },
    "claude-code": {
        "env": {
            "ANTHROPIC_BASE_URL": BASE,
            "ANTHROPIC_AUTH_TOKEN": "roundhouse",
            "ANTHROPIC_API_KEY": "",
            "ANTHROPIC_MODEL": "large",
            "ANTHROPIC_DEFAULT_OPUS_MODEL": "large",
            "ANTHROPIC_DEFAULT_SONNET_MODEL": "large",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": "large",
            "CLAUDE_CODE_SUBAGENT_MODEL": "large",
            "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000",
            "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "30",
            "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY": "1",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "10000",
            "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        }
    },
    "codex": {
        "model": "large",
        "model_provider": "roundhouse",
        "model_context_window": 40_000,
        "model_providers": {"roundhouse": {"name": "Roundhouse", "base_url": OPENAI, "wire_api": "responses"}},
    },
    "opencode": {
        "$schema": "https://opencode.ai/config.json",
        "provider": {
            "roundhouse": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Roundhouse",
                "options": {"baseURL": OPENAI, "apiKey": "roundhouse"},
                "models": {
                    name: {
                        "name": name,
                        "limit": {"context": context, "output": answer},
                        "tool_call": True,
                        "attachment": False,
                        "modalities": {"input": ["text"], "output": ["text"]},
                    }
                    for name, context, answer in SIZES
                },
            }
        },
        "model": "roundhouse/large",
    },
    "aider": {
        "openai-api-base": OPENAI,
        "openai-api-key": "roundhouse",
        "model": "openai/large",
        "max-chat-history-tokens": 10_000,
    },
    "llm": [{"model_id": f"roundhouse/{name}", "model_name": name, "api_base": OPENAI} for name in ("large", "small")],
    "gemini-cli": {"GOOGLE_GEMINI_BASE_URL": BASE, "GEMINI_API_KEY": "roundhouse", "GEMINI_MODEL": "large"},
    "qwen-code": {
        "env": {"ROUNDHOUSE_API_KEY": "roundhouse"},
        "modelProviders": {
            "openai": [
                {
                    "id": name,
                    "name": f"{name} (Roundhouse)",
                    "baseUrl": OPENAI,
                    "envKey": "ROUNDHOUSE_API_KEY",
                    "capabilities": {"vision": False},
                    "generationConfig": {"contextWindowSize": context, "samplingParams": {"max_tokens": answer}},
                }
                for name, context, answer in SIZES
            ]
        },
        "security": {"auth": {"selectedType": "openai"}},
        "model": {"name": "large"},
    },
    "pi": {
        "providers": {
            "roundhouse": {
                "baseUrl": OPENAI,
                "api": "openai-completions",
                "apiKey": "roundhouse",
                "models": [
                    {"id": name, "contextWindow": context, "maxTokens": answer, "input": ["text"]}
                    for name, context, answer in SIZES
                ],
            }
        }
    },
    "hermes": {
        "model": {
            "default": "large",
            "provider": "custom",
            "base_url": OPENAI,
            "api_key": "roundhouse",
            "context_length": 40_000,
        }
    },
    "kimi-code": {
        "default_model": "roundhouse/large",
        "providers": {"roundhouse": {"type": "openai", "base_url": OPENAI, "api_key": "roundhouse"}},
        "models": {
            f"roundhouse/{name}": {"provider": "roundhouse", "model": name, "max_context_size": context}
            for name, context, _ in SIZES
        },
    },
    "mistral-vibe": {
        "active_model": "roundhouse-large",
        "providers": [{"name": "roundhouse", "api_base": OPENAI, "api_key_env_var": ""}],
        "models": [
            {
                "name": name,
                "provider": "roundhouse",
                "alias": f"roundhouse-{name}",
                "max_context_length": context,
            }
            for name, context, _ in SIZES
        ],
    },
    "droid": {
        "customModels": [
            {
                "model": name,
                "displayName": f"{name} (Roundhouse)",
                "baseUrl": OPENAI,
                "apiKey": "roundhouse",
                "provider": "generic-chat-completion-api",
                "maxContextLimit": context,
                "maxOutputTokens": answer,
                "noImageSupport": True,
            }
            for name, context, answer in SIZES
        ]
    },
    "gptme": {"env": {"OPENAI_BASE_URL": OPENAI, "OPENAI_API_KEY": "roundhouse", "MODEL": "local/large"}},
    "goose": {
        "GOOSE_PROVIDER": "ollama",
        "GOOSE_MODEL": "large",
        "GOOSE_CONTEXT_LIMIT": 40_000,
        "OLLAMA_HOST": BASE,
    },
    "crush": {
        "$schema": "https://charm.land/crush.json",
        "providers": {
            "roundhouse": {
                "name": "Roundhouse",
                "type": "openai-compat",
                "base_url": f"{OPENAI}/",
                "api_key": "roundhouse",
                "models": [
                    {
                        "id": name,
                        "name": name,
                        "context_window": context,
                        "default_max_tokens": answer,
                        "supports_attachments": False,
                    }
                    for name, context, answer in SIZES
                ],
            }
        },
        "models": {key: {"model": "large", "provider": "roundhouse"} for key in ("large", "small")},
    },
    "openclaw": {
        "models": {
            "mode": "merge",
            "providers": {
                "roundhouse": {
                    "baseUrl": OPENAI,
                    "apiKey": "roundhouse",
                    "api": "openai-completions",
                    "models": [
                        {
                            "id": name,
                            "name": name,
                            "input": ["text"],
                            "contextWindow": context,
                            "maxTokens": answer,
                        }
                        for name, context, answer in SIZES
                    ],
                }
            },
        },
        "agents": {"defaults": {"model": {"primary": "roundhouse/large"}}},
    },
    "cline": {
        "version": 1,
        "modes": {},
        "lastUsedProvider": "openai-compatible",
        "providers": {
            "openai-compatible": {
                "settings": {
                    "provider": "openai-compatible",
                    "apiKey": "roundhouse",
                    "model": "large",
                    "baseUrl": OPENAI,
                    "contextWindow": 40_000,
                },
                "updatedAt": "2026-01-01T00:00:00.000Z",
                "tokenSource": "manual",
            }
        },
    },
}
"""What each file says where there was none: names and kinds as each tool's documentation has them."""
ENDPOINT = {"Base URL": OPENAI, "API key": "roundhouse", "Model": "large"}
BY_HAND: dict[str, dict[str, str]] = {
    "llama-vim": {
        "URL": BASE,
        "Lines": "\n    \\ ".join(
            ("let g:llama_config = {", f"'endpoint_fim': '{BASE}/infill',", "'model_fim': 'large',", "}")
        ),
    },
    "twinny": {
        "URL": BASE,
        "Type": "FIM",
        "Provider": "ollama",
        "Protocol": "http",
        "Hostname": "127.0.0.1",
        "Port": "11434",
        "Path": "/api/generate",
        "Model": "large",
        "FIM template": "automatic",
    },
    "roo-code": ENDPOINT,
    "jetbrains": ENDPOINT,
    "open-webui": {
        "URL": OPENAI,
        "Key": "roundhouse",
        "Ollama URL": BASE,
        "URL from a container": "http://host.docker.internal:11434/v1",
        "Key from a container": "what `roundhouse keys new open-webui` prints",
        "Environment": f"OPENAI_API_BASE_URL={OPENAI}\nOPENAI_API_KEY=roundhouse\nOLLAMA_BASE_URL={BASE}",
    },
    "android-studio": ENDPOINT,
    "anythingllm": {**ENDPOINT, "Context": "40000", "Longest answer": "10000"},
    "n8n": {**ENDPOINT, "From a container": "http://host.docker.internal:11434/v1"},
    "home-assistant": {"URL": BASE, "Model": "large"},
    "obsidian": ENDPOINT,
    "copilot-cli": {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": OPENAI,
        "COPILOT_PROVIDER_API_KEY": "roundhouse",
        "COPILOT_MODEL": "large",
        "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "30000",
        "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS": "10000",
    },
}
FRAMEWORKS = ("langchain", "llamaindex", "pydantic-ai", "openai-agents", "haystack", "dspy")
TRACES = {
    "continue": [".continue", ".vscode/extensions/continue.continue-1.2.3"],
    "cline": [".vscode-insiders/extensions/saoudrizwan.claude-dev-3", ".cursor/extensions/saoudrizwan.claude-dev-3"],
    "roo-code": [".vscode-oss/extensions/rooveterinaryinc.roo-cline-1"],
    "vscode": [".config/Code/User"],
    "zed": [".config/zed"],
    "jetbrains": [".config/JetBrains"],
    "claude-code": [".claude"],
    "codex": [".codex"],
    "opencode": [".config/opencode"],
    "aider": [".aider", ".aider.conf.yml"],
    "llm": [".config/io.datasette.llm"],
    "gemini-cli": [".gemini"],
    "qwen-code": [".qwen"],
    "pi": [".pi"],
    "hermes": [".hermes"],
    "kimi-code": [".kimi-code"],
    "mistral-vibe": [".vibe"],
    "droid": [".factory"],
    "gptme": [".config/gptme"],
    "goose": [".config/goose"],
    "crush": [".config/crush"],
    "openclaw": [".openclaw"],
    "android-studio": [".config/Google/AndroidStudio2026.1"],
    "anythingllm": [".config/anythingllm-desktop"],
    "n8n": [".n8n"],
    "obsidian": [".config/obsidian"],
}
"""What on Linux tells that a tool is there, each by itself."""
WITH_CLINE = [*TRACES.items(), ("cline", [".cline"])]
FILES = {
    "llama-vscode": ".config/Code/User/settings.json",
    "tabby": ".tabby/config.toml",
    "continue": ".continue/config.yaml",
    "vscode": ".config/Code/User/chatLanguageModels.json",
    "zed": ".config/zed/settings.json",
    "claude-code": ".claude/settings.json",
    "codex": ".codex/config.toml",
    "opencode": ".config/opencode/opencode.json",
    "aider": ".aider.conf.yml",
    "llm": ".config/io.datasette.llm/extra-openai-models.yaml",
    "gemini-cli": ".gemini/.env",
    "qwen-code": ".qwen/settings.json",
    "pi": ".pi/agent/models.json",
    "hermes": ".hermes/config.yaml",
    "kimi-code": ".kimi-code/config.toml",
    "mistral-vibe": ".vibe/config.toml",
    "droid": ".factory/settings.json",
    "gptme": ".config/gptme/config.toml",
    "goose": ".config/goose/config.yaml",
    "crush": ".config/crush/crush.json",
    "openclaw": ".openclaw/openclaw.json",
    "cline": ".cline/data/settings/providers.json",
}


def tool_with_file(name: str, home_folder: Path) -> tuple[ClientTool, Path]:
    tool = find_tool(name)
    assert tool.file is not None
    return tool, tool.file(home_on("linux", home_folder))


def test_every_tool_is_in_one_of_the_tables() -> None:
    assert {tool.id for tool in TOOLS} == {*DOCUMENTS, *BY_HAND, *FRAMEWORKS}
    assert {tool.id for tool in TOOLS if tool.file is not None} == {*FILES} == {*DOCUMENTS}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_file_that_was_not_there_says_what_the_tool_needs_and_no_more(name: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    connections = ToolConnections(home_on("linux", home), tmp_path / "kept")
    tool, file = tool_with_file(name, home)
    assert file == home / FILES[name]
    preview = connections.preview(name, WIRING)
    change = connections.connect(name, WIRING)
    assert (preview.is_written, change.is_written) == (False, True)
    assert (change.id, change.name, change.model, change.diff) == (tool.id, tool.name, "large", preview.diff)
    assert tool.form is not None
    text = file.read_text(encoding="utf-8")
    assert tool.form.parsed(text) == DOCUMENTS[name]
    assert [line[1:] for line in change.diff.splitlines()[3:]] == text.splitlines(), "all of it is in the difference"
    [info] = [info for info in connections.list_tools(BASE) if info.id == name]
    assert (info.file, info.wired, info.model, info.can_undo) == (str(file), True, "large", True)
    assert connections.undo(name).is_written
    assert not home.exists(), "nor are the folders that were made for it"


@pytest.mark.parametrize("name", BY_HAND)
def test_values_to_copy_name_the_endpoint_its_key_and_the_model(name: str, tmp_path: Path) -> None:
    connections = ToolConnections(home_on("linux", tmp_path / "home"), tmp_path / "kept")
    change = connections.preview(name, WIRING)
    assert {value.name: value.value for value in change.values} == BY_HAND[name]
    assert (change.id, change.model, change.is_written, change.diff) == (name, "large", False, "")
    assert change == connections.connect(name, WIRING)
    [info] = [info for info in connections.list_tools(BASE) if info.id == name]
    assert (info.file, info.wired, info.can_undo, info.problem) == ("", False, False, "")


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_frameworks_program_is_python_with_the_endpoint_and_the_model_in_it(name: str, tmp_path: Path) -> None:
    change = ToolConnections(home_on("linux", tmp_path), tmp_path / "kept").preview(name, WIRING)
    values = {value.name: value.value for value in change.values}
    compile(values["Program"], name, "exec")
    assert f'"{OPENAI}"' in values["Program"]
    assert "large" in values["Program"]
    assert "<" not in values["Program"]
    assert values["Package"] in change.steps[0]


def test_what_a_model_can_is_told_in_each_tools_words(tmp_path: Path) -> None:
    seeing_target = WiringTarget(BASE, (WiredModel("eyes", 8192, sees=True, calls_tools=False),))
    connections = ToolConnections(home_on("linux", tmp_path), tmp_path / "kept")
    words = {
        "vscode": ('"vision": true', '"toolCalling": false'),
        "zed": ('"images": true', '"tools": false'),
        "opencode": ('"attachment": true', '"tool_call": false'),
        "pi": ('"image"',),
        "openclaw": ('"image"',),
        "continue": ("image_input",),
        "qwen-code": ('"vision": true',),
        "droid": ('"noImageSupport": false',),
        "crush": ('"supports_attachments": true',),
    }
    for name, parts in words.items():
        text = connections.preview(name, seeing_target).diff
        assert all(part in text for part in parts), (name, text)


@pytest.mark.parametrize(("name", "path"), [(name, path) for name, paths in WITH_CLINE for path in paths])
def test_a_tool_is_there_by_any_of_its_traces(name: str, path: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert not find_tool(name).is_here(home_on("linux", home))
    (home / path).mkdir(parents=True)
    here = {tool.id for tool in TOOLS if tool.is_here(home_on("linux", home))}
    assert here == {name}


def test_a_tool_whose_place_cannot_be_looked_at_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **_options: object) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "exists", refuse)
    assert not any(tool.is_here(home_on("linux", tmp_path)) for tool in TOOLS)


def test_what_a_person_named_is_not_named_again(tmp_path: Path) -> None:
    for name, own in (
        ("continue", "name: Mine\nversion: 2.0.0\nschema: v0\n"),
        ("opencode", '{"$schema": "https://example.org/own.json"}'),
    ):
        tool, file = tool_with_file(name, tmp_path)
        assert tool.form is not None
        before = tool.form.parsed(own)
        file.parent.mkdir(parents=True)
        file.write_text(own, encoding="utf-8")
        ToolConnections(home_on("linux", tmp_path), tmp_path / "kept").connect(name, WIRING)
        after, document_form = tool.form.parsed(file.read_text(encoding="utf-8")), DOCUMENTS[name]
        assert isinstance(before, dict)
        assert isinstance(document_form, dict)
        assert after == {**document_form, **before}


def test_a_change_that_does_not_say_so_is_no_default() -> None:
    form = find_tool("zed").form
    assert form is not None
    assert edit_document(form, '{"a": 1}', [DocumentChange(("a",), 2)]) == '{"a": 2}'


def test_a_change_that_was_not_made_is_forgotten_once_and_again(tmp_path: Path) -> None:
    connections = ToolConnections(home_on("linux", tmp_path / "home"), tmp_path / "kept")
    connections.connect("codex", WIRING)
    records = connections._records
    records.forget("codex")
    records.forget("codex")
    assert records.read_record("codex") is None
