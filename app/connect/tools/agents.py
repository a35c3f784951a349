"""Agents in a terminal whose settings are few: each is told the endpoint, a model and the model's limits.

What has `tried` ran a task with a tool call against the endpoint; the others follow their documentation.
"""

from pathlib import Path

from app.config.paths import Home
from app.connect.document_paths import DocumentChange, ListEntry, Plain
from app.connect.documents import DOTENV, JSON, TOML, YAML
from app.connect.tool import FILE, FOLDER, RUN_KEY, ClientTool, ToolRoute, ToolRun, WiredModel, WiringTarget
from app.core.tools import ToolValue

_ID, _NAME, _KEY_VARIABLE = "roundhouse", "Roundhouse", "ROUNDHOUSE_API_KEY"


def _folder(home: Home, name: str, variable: str) -> Path:
    return home.variable_folders.get(variable, home.folder / name)


def _copilot_environment(target: WiringTarget) -> dict[str, str]:
    served_model = target.models[0]
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": target.openai,
        "COPILOT_PROVIDER_API_KEY": target.key,
        "COPILOT_MODEL": served_model.name,
        "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": str(served_model.context - served_model.answer),
        "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS": str(served_model.answer),
    }


def _gemini_environment(target: WiringTarget) -> dict[str, str]:
    return {"GOOGLE_GEMINI_BASE_URL": target.base, "GEMINI_API_KEY": target.key, "GEMINI_MODEL": target.model}


def _gemini_settings(_target: WiringTarget) -> list[DocumentChange]:
    """Return how it signs in: with an address alone it takes a way that its settings do not accept."""
    return [DocumentChange(("security", "auth", "selectedType"), "gemini-api-key")]


GEMINI_CLI = ClientTool(  # https://geminicli.com/docs/reference/configuration
    id="gemini-cli",
    name="Gemini CLI",
    route=ToolRoute.GOOGLE,
    programs=("gemini",),
    traces=lambda home: (home.folder / ".gemini",),
    file=lambda home: home.folder / ".gemini" / ".env",
    form=DOTENV,
    changes=lambda wiring: [DocumentChange((name,), value) for name, value in _gemini_environment(wiring).items()],
    afterwards='Start Gemini CLI again, and choose "Use Gemini API Key" once. A project may have a .env of its own.',
    run=ToolRun(
        install="npm install -g @google/gemini-cli",
        environment=lambda wiring: {**_gemini_environment(wiring), "GEMINI_CLI_HOME": FOLDER},
        file=".gemini/settings.json",
        form=JSON,
        changes=_gemini_settings,
    ),
    tried="0.61.0",
    agent=ToolRun(
        install="npm install -g @google/gemini-cli",
        arguments=lambda _wiring: ["--acp"],
        environment=lambda wiring: {**_gemini_environment(wiring), "GEMINI_CLI_HOME": FOLDER},
        file=".gemini/settings.json",
        form=JSON,
        changes=_gemini_settings,
    ),
    agent_tried="0.61.0",
)


def _qwen_limits(served_model: WiredModel) -> Plain:
    return {"contextWindowSize": served_model.context, "samplingParams": {"max_tokens": served_model.answer}}


def _qwen_model(target: WiringTarget, served_model: WiredModel) -> DocumentChange:
    model: Plain = {
        "id": served_model.name,
        "name": f"{served_model.name} ({_NAME})",
        "baseUrl": target.openai,
        "envKey": "ROUNDHOUSE_API_KEY",
        "capabilities": {"vision": served_model.sees},
        "generationConfig": _qwen_limits(served_model),
    }
    return DocumentChange(("modelProviders", "openai", ListEntry("id", served_model.name)), model)


def _qwen_environment(target: WiringTarget) -> dict[str, str]:
    return {"OPENAI_BASE_URL": target.openai, "OPENAI_API_KEY": target.key, "OPENAI_MODEL": target.model}


QWEN_CODE = ClientTool(  # https://qwenlm.github.io/qwen-code-docs
    id="qwen-code",
    name="Qwen Code",
    route=ToolRoute.CHAT,
    programs=("qwen",),
    traces=lambda home: (home.folder / ".qwen",),
    file=lambda home: home.folder / ".qwen" / "settings.json",
    form=JSON,
    changes=lambda wiring: [
        DocumentChange(("env", "ROUNDHOUSE_API_KEY"), wiring.key),
        *(_qwen_model(wiring, served) for served in wiring.models),
        DocumentChange(("security", "auth", "selectedType"), "openai"),
        DocumentChange(("model", "name"), wiring.model),
    ],
    afterwards="Start Qwen Code again.",
    run=ToolRun(
        install="npm install -g @qwen-code/qwen-code",
        arguments=lambda _wiring: ["--auth-type", "openai"],
        environment=lambda wiring: {
            **_qwen_environment(wiring),
            # Below a person's own settings, which it may change: only there is it told a context.
            "QWEN_CODE_SYSTEM_DEFAULTS_PATH": FILE,
        },
        file="system-defaults.json",
        form=JSON,
        changes=lambda wiring: [DocumentChange(("model", "generationConfig"), _qwen_limits(wiring.models[0]))],
    ),
    tried="0.24.4",
    agent=ToolRun(
        install="npm install -g @qwen-code/qwen-code",
        arguments=lambda _wiring: ["--auth-type", "openai", "--approval-mode", "default", "--acp"],
        environment=_qwen_environment,
    ),
    agent_tried="0.24.4",
)


def _pi_model(served_model: WiredModel) -> Plain:
    return {
        "id": served_model.name,
        "contextWindow": served_model.context,
        "maxTokens": served_model.answer,
        "input": served_model.inputs,
    }


PI = ClientTool(  # https://github.com/badlogic/pi-mono
    id="pi",
    name="Pi",
    route=ToolRoute.CHAT,
    programs=("pi",),
    traces=lambda home: (home.folder / ".pi",),
    file=lambda home: _folder(home, ".pi/agent", "PI_CODING_AGENT_DIR") / "models.json",
    form=JSON,
    changes=lambda wiring: [
        DocumentChange(
            ("providers", _ID),
            {
                "baseUrl": wiring.openai,
                "api": "openai-completions",
                "apiKey": wiring.key,
                "models": [_pi_model(served) for served in wiring.models],
            },
        )
    ],
    afterwards=f"Start it with: pi --provider {_ID} --model NAME, or choose the model with /model.",
    run=ToolRun(
        install="npm install -g @earendil-works/pi-coding-agent@0.87.1",
        arguments=lambda wiring: ["--provider", _ID, "--model", wiring.model],
        environment=lambda _wiring: {"PI_CODING_AGENT_DIR": FOLDER},
        file="models.json",
    ),
    tried="0.87.1",
)
HERMES = ClientTool(  # https://hermes-agent.nousresearch.com/docs
    id="hermes",
    name="Hermes Agent",
    route=ToolRoute.CHAT,
    programs=("hermes",),
    traces=lambda home: (home.folder / ".hermes",),
    file=lambda home: _folder(home, ".hermes", "HERMES_HOME") / "config.yaml",
    form=YAML,
    changes=lambda wiring: [
        DocumentChange(("model", "default"), wiring.model),
        DocumentChange(("model", "provider"), "custom"),
        DocumentChange(("model", "base_url"), wiring.openai),
        DocumentChange(("model", "api_key"), wiring.key),
        DocumentChange(("model", "context_length"), wiring.context),
    ],
    afterwards="Start Hermes again. It wants a context of 64,000 tokens or more.",
    run=ToolRun(
        install="python -m pip install hermes-agent",
        environment=lambda _wiring: {"HERMES_HOME": FOLDER},
        file="config.yaml",
    ),
    tried="0.19.0",
)
KIMI_CODE = ClientTool(  # https://moonshotai.github.io/kimi-code
    id="kimi-code",
    name="Kimi Code",
    route=ToolRoute.CHAT,
    programs=("kimi",),
    traces=lambda home: (home.folder / ".kimi-code",),
    file=lambda home: _folder(home, ".kimi-code", "KIMI_CODE_HOME") / "config.toml",
    form=TOML,
    changes=lambda wiring: [
        DocumentChange(("default_model",), f"{_ID}/{wiring.model}"),
        DocumentChange(("providers", _ID), {"type": "openai", "base_url": wiring.openai, "api_key": wiring.key}),
        *(
            DocumentChange(
                ("models", f"{_ID}/{served.name}"),
                {"provider": _ID, "model": served.name, "max_context_size": served.context},
            )
            for served in wiring.models
        ),
    ],
    afterwards="Start Kimi Code again.",
    run=ToolRun(
        install="npm install -g @moonshot-ai/kimi-code",
        environment=lambda wiring: {
            "KIMI_MODEL_NAME": wiring.model,
            "KIMI_MODEL_API_KEY": wiring.key,
            "KIMI_MODEL_PROVIDER_TYPE": "openai",
            "KIMI_MODEL_BASE_URL": wiring.openai,
            "KIMI_MODEL_MAX_CONTEXT_SIZE": str(wiring.context),
        },
    ),
    tried="2.1.0",
)


def _vibe_changes(target: WiringTarget) -> list[DocumentChange]:
    provider: Plain = {
        "name": _ID,
        "api_base": target.openai,
        "api_key_env_var": _KEY_VARIABLE if target.key == RUN_KEY else "",
    }
    models: list[tuple[str, Plain]] = [
        (
            f"{_ID}-{served_model.name}",
            {
                "name": served_model.name,
                "provider": _ID,
                "alias": f"{_ID}-{served_model.name}",
                "max_context_length": served_model.context,
            },
        )
        for served_model in target.models
    ]
    return [
        DocumentChange(("active_model",), models[0][0]),
        DocumentChange(("providers", ListEntry("name", _ID)), provider),
        *(DocumentChange(("models", ListEntry("alias", alias)), model) for alias, model in models),
    ]


MISTRAL_VIBE = ClientTool(  # https://docs.mistral.ai/mistral-vibe
    id="mistral-vibe",
    name="Mistral Vibe",
    route=ToolRoute.CHAT,
    programs=("vibe",),
    traces=lambda home: (home.folder / ".vibe",),
    file=lambda home: _folder(home, ".vibe", "VIBE_HOME") / "config.toml",
    form=TOML,
    changes=_vibe_changes,
    afterwards="Start Vibe again.",
    run=ToolRun(
        install="python -m pip install mistral-vibe",
        environment=lambda wiring: {
            "VIBE_HOME": FOLDER,
            **({_KEY_VARIABLE: wiring.key} if wiring.key == RUN_KEY else {}),
        },
        file="config.toml",
    ),
    tried="3.0.2",
)


def _droid_model(target: WiringTarget, served_model: WiredModel) -> DocumentChange:
    name = f"{served_model.name} ({_NAME})"
    model: Plain = {
        "model": served_model.name,
        "displayName": name,
        "baseUrl": target.openai,
        "apiKey": target.key,
        "provider": "generic-chat-completion-api",
        "maxContextLimit": served_model.context,
        "maxOutputTokens": served_model.answer,
        "noImageSupport": not served_model.sees,
    }
    return DocumentChange(("customModels", ListEntry("displayName", name)), model)


DROID = ClientTool(  # https://docs.factory.ai/cli/byok/overview
    id="droid",
    name="Droid",
    route=ToolRoute.CHAT,
    programs=("droid",),
    traces=lambda home: (home.folder / ".factory",),
    file=lambda home: home.folder / ".factory" / "settings.json",
    form=JSON,
    changes=lambda wiring: [_droid_model(wiring, served) for served in wiring.models],
    afterwards="Choose the model with /model, or start it with: droid exec -m custom:NAME. It wants a FACTORY_API_KEY; "
    "offline, any will do.",
    run=ToolRun(
        install="npm install -g droid",
        environment=lambda _wiring: {"FACTORY_HOME_OVERRIDE": FOLDER, "FACTORY_AIRGAP_ENABLED": "true"},
        file=".factory/settings.json",
    ),
    tried="0.215.0",
)


def _gptme_environment(target: WiringTarget) -> dict[str, str]:
    return {"OPENAI_BASE_URL": target.openai, "OPENAI_API_KEY": target.key, "MODEL": f"local/{target.model}"}


GPTME = ClientTool(  # https://gptme.org/docs/config.html
    id="gptme",
    name="gptme",
    route=ToolRoute.CHAT,
    programs=("gptme",),
    traces=lambda home: (home.config / "gptme",),
    file=lambda home: home.config / "gptme" / "config.toml",
    form=TOML,
    changes=lambda wiring: [DocumentChange(("env", name), value) for name, value in _gptme_environment(wiring).items()],
    afterwards="Start gptme again, with --tool-format tool for models that call tools.",
    run=ToolRun(
        install="python -m pip install gptme",
        arguments=lambda wiring: ["-m", f"local/{wiring.model}", "--tool-format", "tool"],
        environment=_gptme_environment,
    ),
    tried="0.35.1 (by variables)",
)


def _goose_environment(target: WiringTarget) -> dict[str, str]:
    """Return Goose's variables. As Ollama's client it shows no key, so where one is needed it is OpenAI's."""
    settings = _goose_settings(target)
    if target.key == RUN_KEY:
        del settings["OLLAMA_HOST"]
        openai = {"OPENAI_HOST": target.base, "OPENAI_BASE_PATH": "v1/chat/completions", "OPENAI_API_KEY": target.key}
        settings |= {"GOOSE_PROVIDER": "openai", **openai}
    return {name: str(value) for name, value in settings.items()}


def _goose_settings(target: WiringTarget) -> dict[str, Plain]:
    return {
        "GOOSE_PROVIDER": "ollama",
        "GOOSE_MODEL": target.model,
        "GOOSE_CONTEXT_LIMIT": target.context,
        "OLLAMA_HOST": target.base,
    }


GOOSE = ClientTool(  # https://block.github.io/goose/docs/getting-started/providers
    id="goose",
    name="Goose",
    route=ToolRoute.CHAT,
    programs=("goose",),
    traces=lambda home: (home.config / "goose",),
    file=lambda home: (
        home.support / "Block" / "goose" / "config" / "config.yaml"
        if home.system == "windows"
        else home.config / "goose" / "config.yaml"
    ),
    form=YAML,
    changes=lambda wiring: [DocumentChange((name,), value) for name, value in _goose_settings(wiring).items()],
    afterwards="Start Goose again. It asks the endpoint as Ollama, which needs no key.",
    run=ToolRun(
        install="https://block.github.io/goose/docs/getting-started/installation says how",
        environment=_goose_environment,
    ),
)


def _crush_model(served_model: WiredModel) -> Plain:
    return {
        "id": served_model.name,
        "name": served_model.name,
        "context_window": served_model.context,
        "default_max_tokens": served_model.answer,
        "supports_attachments": served_model.sees,
    }


def _crush_changes(target: WiringTarget) -> list[DocumentChange]:
    provider: Plain = {
        "name": _NAME,
        "type": "openai-compat",
        "base_url": f"{target.openai}/",
        "api_key": target.key,
        "models": [_crush_model(served_model) for served_model in target.models],
    }
    chosen_model: Plain = {"model": target.model, "provider": _ID}
    return [
        DocumentChange(("$schema",), "https://charm.land/crush.json", is_default=True),
        DocumentChange(("providers", _ID), provider),
        DocumentChange(("models", "large"), chosen_model),
        DocumentChange(("models", "small"), chosen_model),
    ]


CRUSH = ClientTool(  # https://github.com/charmbracelet/crush
    id="crush",
    name="Crush",
    route=ToolRoute.CHAT,
    programs=("crush",),
    traces=lambda home: (home.config / "crush",),
    file=lambda home: home.config / "crush" / "crush.json",
    form=JSON,
    changes=_crush_changes,
    afterwards="Start Crush again.",
)


def _openclaw_model(served_model: WiredModel) -> Plain:
    return {
        "id": served_model.name,
        "name": served_model.name,
        "input": served_model.inputs,
        "contextWindow": served_model.context,
        "maxTokens": served_model.answer,
    }


OPENCLAW = ClientTool(  # https://docs.openclaw.ai/gateway/local-models
    id="openclaw",
    name="OpenClaw",
    route=ToolRoute.CHAT,
    programs=("openclaw",),
    traces=lambda home: (home.folder / ".openclaw",),
    file=lambda home: home.folder / ".openclaw" / "openclaw.json",
    form=JSON,
    changes=lambda wiring: [
        DocumentChange(("models", "mode"), "merge", is_default=True),
        DocumentChange(
            ("models", "providers", _ID),
            {
                "baseUrl": wiring.openai,
                "apiKey": wiring.key,
                "api": "openai-completions",
                "models": [_openclaw_model(served) for served in wiring.models],
            },
        ),
        DocumentChange(("agents", "defaults", "model", "primary"), f"{_ID}/{wiring.model}"),
    ],
    afterwards="Restart OpenClaw's gateway: openclaw gateway restart.",
    run=ToolRun(
        install="npm install -g openclaw",
        environment=lambda _wiring: {"OPENCLAW_STATE_DIR": FOLDER, "OPENCLAW_CONFIG_PATH": FILE},
        file="openclaw.json",
    ),
    tried="2026.9.6",
)


def _cline_changes(target: WiringTarget) -> list[DocumentChange]:
    provider, served_model = ("providers", "openai-compatible"), target.models[0]
    settings: Plain = {
        "provider": "openai-compatible",
        "apiKey": target.key,
        "model": served_model.name,
        "baseUrl": target.openai,
        "contextWindow": served_model.context,
    }
    return [
        DocumentChange(("version",), 1, is_default=True),
        DocumentChange(("modes",), {}, is_default=True),
        DocumentChange(("lastUsedProvider",), "openai-compatible"),
        DocumentChange((*provider, "settings"), settings),
        DocumentChange((*provider, "updatedAt"), "2026-01-01T00:00:00.000Z", is_default=True),
        DocumentChange((*provider, "tokenSource"), "manual", is_default=True),
    ]


CLINE = ClientTool(  # https://docs.cline.bot
    id="cline",
    name="Cline",
    route=ToolRoute.CHAT,
    programs=("cline",),
    traces=lambda home: (
        home.folder / ".cline",
        *(
            home.folder / folder / "extensions" / "saoudrizwan.claude-dev-*"
            for folder in (".vscode", ".vscode-insiders", ".vscode-oss", ".cursor")
        ),
    ),
    file=lambda home: home.folder / ".cline" / "data" / "settings" / "providers.json",
    form=JSON,
    changes=_cline_changes,
    afterwards="That is for Cline in a terminal. In VS Code, click its gear, choose the provider OpenAI Compatible, "
    "and copy the base URL, the key and the model from this file.",
    run=ToolRun(
        install="npm install -g cline",
        arguments=lambda _wiring: ["--data-dir", FOLDER, "--provider", "openai-compatible"],
        file="settings/providers.json",
    ),
    tried="3.0.65 (its command line)",
)
COPILOT_CLI = ClientTool(  # https://docs.github.com/copilot: its providers are set by variables only
    id="copilot-cli",
    name="Copilot CLI",
    route=ToolRoute.CHAT,
    programs=("copilot",),
    steps=lambda _wiring: [
        "Start it with `roundhouse launch copilot-cli`, which sets the variables below for that run.",
        "Or set them where your shell reads its own, and start copilot there.",
    ],
    values=lambda wiring: [ToolValue(name=name, value=value) for name, value in _copilot_environment(wiring).items()],
    afterwards="The next start uses it.",
    run=ToolRun(install="npm install -g @github/copilot", environment=_copilot_environment),
    tried="1.0.102",
    agent=ToolRun(
        install="npm install -g @github/copilot",
        arguments=lambda _wiring: ["--acp"],
        environment=_copilot_environment,
    ),
    agent_tried="1.0.102",
)
