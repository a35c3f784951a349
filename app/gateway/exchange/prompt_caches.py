"""Keep what one key's requests left in an engine's prompt cache from being noticed by another's.

A prompt that an engine has read before is answered sooner, and the answer counts its tokens as cached: whoever guesses
another's text can tell that it was right. So once a second key uses a run of an engine, requests to that run are sent
with its cache turned off, those of the first key as well: a slot keeps the text of whoever had it last. It costs every
one of them the reading of its whole prompt. A person who knows all the keys can allow sharing (`engine.share_cache`).
"""

from collections.abc import Callable

_SEVERAL = 2


class PromptCaches:
    """Which keys have used the present run of each model's engine; "" stands for who shows none.

    Belongs to the event loop's thread. `may_share` says whether a person allows all keys to use one cache.
    """

    def __init__(self, may_share: Callable[[], bool] = lambda: False) -> None:
        self._may_share = may_share
        self._keys_by_model: dict[str, tuple[int, set[str]]] = {}
        """With the number of the run that they have used."""

    def will_skip(self, model: str, key_id: str) -> bool:
        """Tell whether a key's request to a model, which is still to be sent, will have to go without the cache."""
        _, keys = self._keys_by_model.get(model, (0, set()))
        return len(keys | {key_id}) >= _SEVERAL and bool(keys) and not self._may_share()

    def must_skip(self, model: str, run: int, key_id: str) -> bool:
        """Note that a key uses a run; tell whether its request has to go without the cache."""
        last_run, keys = self._keys_by_model.get(model, (run, set()))
        if last_run != run:  # a new process has read nothing
            keys = set()
        if len(keys) < _SEVERAL:
            keys.add(key_id)
        self._keys_by_model[model] = run, keys
        return len(keys) >= _SEVERAL and not self._may_share()
