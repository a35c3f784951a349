"""Homes that are made up, one per system, and settings files as each tool's documentation shows them.

The examples were written for these tests after the documentation; they are not taken from anybody's computer.
"""

from dataclasses import replace
from pathlib import Path

from app.config.paths import Home, this_home
from app.connect.tool import CompletionModel, WiredModel, WiringTarget
from app.core.capabilities import InfillStyle

BASE = "http://127.0.0.1:11434"
WIRING = WiringTarget(BASE, (WiredModel("qwen3-8b-q4_k_m", 40960), WiredModel("guide", 2048)))
COMPLETION = CompletionModel("qwen2.5-coder-1.5b", 8192, InfillStyle.QWEN)
COMPLETING = replace(WIRING, completion=COMPLETION)
ONLY_COMPLETING = WiringTarget(BASE, (WiredModel(COMPLETION.name, COMPLETION.context, calls_tools=False),), COMPLETION)
OTHER = WiringTarget(BASE, (WiredModel("guide", 2048),))

EXAMPLES = {
    "llama-vscode": """{
    // Editor
    "editor.fontSize": 14,
    "llama-vscode.endpoint": "http://127.0.0.1:8012", // my own server
    "files.trimTrailingWhitespace": true
}
""",
    "tabby": """# Tabby
[answer]
system_prompt = "You are Tabby."

[model.chat.http]
kind = "openai/chat"
model_name = "other"
""",
    "continue": """name: My Config
version: 1.0.0
schema: v1

# Work models
models:
  - name: GPT-4o
    provider: openai
    model: gpt-4o
    apiKey: ${{ secrets.OPENAI_API_KEY }} # from the hub
    roles: [chat, edit]
  - name: Codestral
    provider: mistral
    model: codestral-latest
    promptTemplates:
      autocomplete: |
        <PRE> {{{prefix}}}
        <SUF>{{{suffix}}}

context:
- provider: diff   # keep
- provider: 'code'
""",
    "zed": """// Zed settings
//
// For information on how to configure Zed, see the Zed
// documentation: https://zed.dev/docs/configuring-zed
{
  "theme": "One Dark",
  "vim_mode": true, // I like it
  "agent": {
    "default_model": {
      "provider": "zed.dev",
      "model": "claude-sonnet-4",
    },
    "version": "2",
  },
  /* languages */
  "languages": { "Python": { "tab_size": 4 } },
}
""",
    "vscode": """[
    {
        "name": "Ollama",
        "vendor": "ollama",
        "url": "http://localhost:9999"
    }
]
""",
    "claude-code": """{
  "permissions": {
    "allow": ["Bash(npm run lint)", "Read(~/.zshrc)"],
    "deny": []
  },
  "env": {
    "CLAUDE_CODE_ENABLE_TELEMETRY": "0"
  },
  "model": "opus"
}
""",
    "codex": """# Codex
model = "gpt-5.4" # the usual one
approval_policy = "on-request"

[mcp_servers.docs]
command = "docs-server"
args = ["--quiet",
        "--port", "0"]

[projects."/home/ada/work"]
trust_level = "trusted"
""",
    "opencode": """{
  "$schema": "https://opencode.ai/config.json",
  // Theme configuration
  "theme": "opencode",
  "model": "anthropic/claude-sonnet-4-5",
  "autoupdate": true,
}
""",
    "aider": """##########################################################
# Sample .aider.conf.yml
#######
# Main model:

model: gpt-4o   # the usual one
#openai-api-base: xxx

dark-mode: true
read: [CONVENTIONS.md, "other file.md"]
""",
    "llm": """- model_id: orca-openai-compat
  model_name: orca-mini.ggmlv3
  api_base: "http://localhost:8080"
  # keep
- model_id: other
  model_name: other
  api_base: 'https://api.example.com/v1'
  api_key_name: example
""",
    "gemini-cli": """# Gemini
export GOOGLE_CLOUD_PROJECT=my-project
GEMINI_MODEL="gemini-3-pro" # the usual one

OTHER='it is # no comment'
""",
    "qwen-code": """{
  "$version": 4,
  "modelProviders": {
    "openai": [
      {
        "id": "coder-plus",
        "envKey": "DASHSCOPE_API_KEY"
      }
    ]
  },
  "ui": { "theme": "Qwen Dark" }
}
""",
    "pi": """{
  "providers": {
    "other": {
      "apiKey": "X",
      "models": []
    }
  }
}
""",
    "hermes": """model:
  default: anthropic/claude-opus-4.6  # the usual one
  provider: openrouter
terminal:
  backend: local
""",
    "kimi-code": """# Kimi
default_model = "kimi-code/kimi-for-coding"

[providers.moonshot]
type = "kimi"
api_key = ""
""",
    "mistral-vibe": """active_model = "devstral-2" # the usual one
vim_keybindings = false

[[providers]]
name = "mistral"
api_base = "https://api.mistral.ai/v1"
api_key_env_var = "MISTRAL_API_KEY"

[[models]]
name = "devstral-latest"
provider = "mistral"
alias = "devstral-2"
""",
    "droid": """{
  // Factory
  "model": "claude-opus-4-5",
  "customModels": [
    { "model": "glm-5", "displayName": "GLM", "baseUrl": "https://example.com/v1", "provider": "openai" }
  ]
}
""",
    "gptme": """[user]
name = "Ada"  # who asks

[env]
MODEL = "anthropic/claude-opus-4-6"
""",
    "goose": """GOOSE_PROVIDER: anthropic
GOOSE_MODEL: claude-opus-4-6
extensions:
  developer:
    enabled: true  # keep
""",
    "crush": """{
  "$schema": "https://charm.land/crush.json",
  "lsp": { "go": { "command": "gopls" } }
}
""",
    "openclaw": """{
  "agents": { "defaults": { "workspace": "~/.openclaw/workspace" } },
  "gateway": { "mode": "local" }
}
""",
    "cline": """{
  "version": 1,
  "lastUsedProvider": "anthropic",
  "modes": {},
  "providers": {
    "anthropic": {
      "settings": { "provider": "anthropic", "model": "claude-opus-4-6" },
      "tokenSource": "manual"
    }
  }
}
""",
}
"""By tool; those that are not here are wired by hand."""


def home_on(system: str, folder: Path) -> Home:
    """Return the home of somebody on `system` whose files lie below `folder`."""
    platform = {"linux": "linux", "macos": "darwin", "windows": "win32"}[system]
    return this_home({"HOME": str(folder), "USERPROFILE": str(folder)}, platform)
