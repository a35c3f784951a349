"""What any OpenAI-compatible endpoint can be asked for. Paths are below the base that was attached, `/v1` included."""

from engines.api import Descriptor, EngineFamily, Feature, ModelFormat, Route

DESCRIPTOR = Descriptor(
    id="attached",
    name="Attached endpoint",
    licence="that of the endpoint's operator",
    homepage="https://platform.openai.com/docs/api-reference",
    family=EngineFamily.EXTERNAL,
    formats=(ModelFormat.REMOTE,),
    modalities=frozenset({"text"}),
    routes={
        Route.CHAT: "/chat/completions",
        Route.COMPLETIONS: "/completions",
        Route.EMBEDDINGS: "/embeddings",
    },
    # What an endpoint has beyond these, or lacks of them, is known of each of its models. What nobody knows it says
    # itself, in an error that is passed on; nothing is refused on suspicion.
    features=frozenset(
        {
            Feature.TOOLS,
            Feature.REASONING,
            Feature.JSON_SCHEMA,
            Feature.LOGPROBS,
            Feature.LOGIT_BIAS,
            Feature.CHOICES,
            Feature.STREAM_USAGE,
            Feature.VISION,
            Feature.CONTINUOUS_BATCHING,
            Feature.API_KEY,
        }
    ),
    platforms=frozenset({"linux", "darwin", "win32"}),
    accelerators=("unknown",),
    closes_after_stream=True,  # a llama-server does, and nobody knows that it is none
    verified=(
        "Run for real with another Roundhouse as the endpoint: chat and completions, whole and streamed, from "
        "OpenAI's, Anthropic's and Ollama's clients, embeddings, tokens and counts; its key, a wrong one, and one that "
        "was taken back. Against a played endpoint: one that dies while it answers, is slow, goes away, comes back, or "
        "sends elsewhere."
    ),
    unverified="Not run yet with vLLM, TabbyAPI or LM Studio; over TLS only the look at its models was tried.",
)
