"""Frameworks for programs: a few lines to copy, with the endpoint's address and a model filled in."""

from app.connect.tool import KEY, ClientTool, ToolRoute, WiringTarget
from app.core.tools import ToolValue


def _framework(name: str, package: str, code: str, tried_version: str, route: ToolRoute = ToolRoute.CHAT) -> ClientTool:
    """Return the framework whose program is `code`, in which URL, OPENAI, KEY and MODEL stand for the values."""

    def values(target: WiringTarget) -> list[ToolValue]:
        texts = {"OPENAI": target.openai, "URL": target.base, "KEY": KEY, "MODEL": target.model}
        filled_in = code
        for mark, text in texts.items():
            filled_in = filled_in.replace(f"<{mark}>", text)
        return [
            ToolValue(name="Base URL", value=target.openai),
            ToolValue(name="Package", value=package),
            ToolValue(name="Program", value=filled_in),
        ]

    return ClientTool(
        id=name.casefold().replace(" ", "-"),
        name=name,
        route=route,
        steps=lambda _target: [f"Install the package: python -m pip install {package}.", "Copy the program's lines."],
        values=values,
        afterwards="The next run of the program uses it.",
        tried=tried_version,
    )


LANGCHAIN = _framework(
    "LangChain",
    "langchain-openai",
    """from langchain_openai import ChatOpenAI

model = ChatOpenAI(base_url="<OPENAI>", api_key="<KEY>", model="<MODEL>")
print(model.invoke("Hello").content)
""",
    "langchain-openai 1.7.3",
)
LLAMA_INDEX = _framework(
    "LlamaIndex",
    "llama-index-llms-openai-like",
    """from llama_index.llms.openai_like import OpenAILike

llm = OpenAILike(
    api_base="<OPENAI>",
    api_key="<KEY>",
    model="<MODEL>",
    is_chat_model=True,
    is_function_calling_model=True,
)
print(llm.complete("Hello"))
""",
    "openai-like 0.8.1",
)
PYDANTIC_AI = _framework(
    "Pydantic AI",
    "pydantic-ai-slim[openai]",
    """from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url="<OPENAI>", api_key="<KEY>")
agent = Agent(OpenAIChatModel("<MODEL>", provider=provider))
print(agent.run_sync("Hello").output)
""",
    "2.38.0",
)
OPENAI_AGENTS = _framework(
    "OpenAI Agents",
    "openai-agents",
    """from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
client = AsyncOpenAI(base_url="<OPENAI>", api_key="<KEY>")
agent = Agent(name="Agent", model=OpenAIResponsesModel(model="<MODEL>", openai_client=client))
print(Runner.run_sync(agent, "Hello").final_output)
""",
    "0.24.0",
    ToolRoute.RESPONSES,
)
HAYSTACK = _framework(
    "Haystack",
    "haystack-ai",
    """from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret

generator = OpenAIChatGenerator(
    api_base_url="<OPENAI>", api_key=Secret.from_token("<KEY>"), model="<MODEL>"
)
print(generator.run([ChatMessage.from_user("Hello")])["replies"][0].text)
""",
    "3.4.0",
)
DSPY = _framework(
    "DSPy",
    "dspy",
    """import dspy

dspy.configure(lm=dspy.LM("openai/<MODEL>", api_base="<OPENAI>", api_key="<KEY>"))
print(dspy.Predict("question -> answer")(question="Hello").answer)
""",
    "3.4.1",
)
