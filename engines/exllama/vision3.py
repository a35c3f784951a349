"""What ExLlamaV3's models see: the component that looks at pictures, and what it made of the last ones."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from engines.serving.refusals import engine_failure, invalid_request

MOST_KEPT = 32
"""Pictures of which what was seen is kept: a conversation shows its own again with every turn, and they are then found
in the cache, by the same tokens."""
STAGE = "Reading the part that sees"


class PicturedPrompt(list[int]):
    """A prompt's tokens, and what the model sees where some of them stand for pictures."""

    def __init__(self, tokens: Iterable[int], pictures: Sequence[object]) -> None:
        super().__init__(tokens)
        self.pictures = pictures


class VisionComponent:
    """`model` is the library's; it is loaded with the model it belongs to."""

    def __init__(self, library: Any, settings: Any) -> None:  # noqa: ANN401 -- the library's own
        self.model = library.Model.from_config(settings, component="vision")
        self._pictures: OrderedDict[str, object] = OrderedDict()

    def find(self, mark: str) -> object | None:
        """Return what was seen in a picture, if it is kept."""
        if mark in self._pictures:
            self._pictures.move_to_end(mark)
        return self._pictures.get(mark)

    def look_at(self, mark: str, picture: Any, tokenizer: Any) -> object:  # noqa: ANN401 -- Pillow's, and the library's
        """Return what is seen in a picture, and keep it. Raises Refused for one that cannot be looked at."""
        try:
            seen_picture = self.model.get_image_embeddings(tokenizer=tokenizer, image=picture, text_alias=mark)
        except (AssertionError, ValueError) as error:
            sentence = f"The model cannot look at a picture of {picture.width} x {picture.height}: {error}."
            raise invalid_request(sentence, "messages", code="invalid_image") from error
        except RuntimeError as error:
            raise engine_failure(f"The engine gave a picture up: {error}") from error
        self._pictures[mark] = seen_picture
        if len(self._pictures) > MOST_KEPT:
            self._pictures.popitem(last=False)
        return seen_picture


def open_vision(library: Any, settings: Any) -> VisionComponent | None:  # noqa: ANN401 -- the library's own
    """Return what sees, not loaded; None for models, or architectures of the library, that do not."""
    return VisionComponent(library, settings) if "vision" in settings.model_classes else None


def pictures_of(prompt: Sequence[int]) -> list[object]:
    """Return what stands for pictures in a prompt."""
    return list(prompt.pictures) if isinstance(prompt, PicturedPrompt) else []
