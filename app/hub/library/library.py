"""The models that can be named: the Guide, registered files, what lies in the model folders, made and attached ones.

Files are used where they lie. Headers are read once per (path, size, time of change), so looking again is cheap. A
broken file is listed with its problem instead of being hidden: people look for it.

Models that came from a hub, found again by the name they were pulled with: owner/name, with or without a tag.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from app.config.paths import expand_path
from app.core.errors import BadRequest, Conflict, NotFound, quote_value
from app.core.hub import origin_of
from app.core.models import ModelInfo, Preset
from app.hub.gguf.listing import GgufFacts
from app.hub.library import naming
from app.hub.library.attached import Attachment, AttachmentStore, with_free_name
from app.hub.library.candidates import (
    Candidate,
    FolderListings,
    candidate_at,
    candidate_for,
    find_candidates,
    split_stem,
)
from app.hub.library.header_index import HeaderIndex
from app.hub.library.inspection import HeaderInspector
from app.hub.library.made import MadeModel, MadeModelStore, add_made_models, check_name
from app.hub.library.registry_file import RegistryFile
from app.hub.repositories.model_reference import parse_reference
from app.hub.repositories.variants import quantization_of

GUIDE_NAME = "guide"
GUIDE_TITLE = "Roundhouse Guide (tiny help model)"


class Library:
    """Every model that can be named in a request. Thread-safe; reads disks, so call it from a thread.

    What it has been told is kept in `registry_file` and beside it.
    """

    def __init__(
        self,
        folders: Callable[[], Sequence[Path]],
        registry_file: Path,
        guide: Path,
        others: Callable[[], Sequence[Candidate]] = tuple,
    ) -> None:
        self._folders, self._others = folders, others
        self._registry = RegistryFile(registry_file)
        self._made_models = MadeModelStore(registry_file.with_name("made.json"))
        self.attachments = AttachmentStore(registry_file.with_name("attached"))
        self._guide = guide
        self.expand_short_name: Callable[[str], Sequence[str]] = lambda _name: ()
        """Which names a short one ("qwen3:8b") may have been pulled by; who knows the catalogue sets it."""
        self._inspector = HeaderInspector(HeaderIndex(registry_file.with_name("headers.bin")))
        self._listings = FolderListings()
        self._is_recalled = False
        self._last: tuple[object, list[ModelInfo]] = (None, [])
        self._lock = threading.Lock()
        self.making_lock = threading.Lock()
        """Held from putting uploaded weights together until they have a name: what has none is tidied away."""
        self._models_by_name: dict[str, ModelInfo] = {}
        self._known_folders: tuple[Path, ...] = ()

    def list_models(self) -> list[ModelInfo]:
        """Return all models, the Guide first, the rest by name."""
        with self._lock:
            return self._refresh_models()

    def find_model(self, name: str) -> ModelInfo:
        """Return the model of that name, whatever its case and with or without ":latest".

        Raises NotFound (model_not_found) with the names that exist.
        """
        folded_name = naming.fold_name(name)
        known_model = self._models_by_name.get(
            folded_name
        )  # without the lock: a long look through the folders must not hold up requests
        if known_model is not None and self._is_as_it_was(known_model):
            return known_model
        with self._lock:
            models = self._refresh_models()
            match = self._models_by_name.get(folded_name) or find_by_pull_name(models, name)
            if match is not None:
                return match
        pulled_models = (find_by_pull_name(models, longer) for longer in self.expand_short_name(name))
        match = next((model for model in pulled_models if model is not None), None)
        if match is not None:
            return match
        raise NotFound(
            f"There is no model called {quote_value(name)}.",
            hint="These exist: " + ", ".join(model.name for model in models) + ".",
            code="model_not_found",
        )

    def register_path(self, path: Path) -> ModelInfo:
        """List a file or folder where it lies. Raises NotFound or BadRequest if it is no model that can be read."""
        candidate = self._check_candidate(path)
        with self._lock:
            self._registry.add_path(candidate.first)
            return next(model for model in self._refresh_models() if _is_same(Path(model.path), candidate.first))

    def make_model(self, name: str, path: Path, preset: Preset) -> ModelInfo:
        """Give weights that are here a further name with settings; a made model of that name is replaced.

        Raises BadRequest for an impossible name, Conflict for one that a model of another kind has.
        """
        plain = check_name(name)
        with self._lock:
            taken_model = {naming.fold_name(model.name): model for model in self._refresh_models()}.get(
                naming.fold_name(plain)
            )
            if taken_model is not None and taken_model.preset is None:
                raise Conflict(f"There is a model called {taken_model.name} already.", hint="Choose another name.")
            self._made_models.put_model(MadeModel(name=plain, path=str(path), preset=preset, made_at=time.time()))
            return next(model for model in self._refresh_models() if model.name == plain)

    def attach_models(self, attachments: Sequence[Attachment], key: str) -> list[ModelInfo]:
        """List models of an endpoint; one whose name another has gets its host's name added.

        Raises BadRequest for an impossible name, StorageFault.
        """
        with self._lock:
            others = {naming.fold_name(model.name): model for model in self._refresh_models()}
            placed_attachments = [with_free_name(attachment, others) for attachment in attachments]
            for attachment in placed_attachments:
                self.attachments.put_attachment(attachment, key)
            names = {attachment.name for attachment in placed_attachments}
            return [model for model in self._refresh_models() if model.name in names]

    def find_attachment(self, model: ModelInfo) -> Attachment:
        """Return what is known of an attached model, or of the one a made model was made from. Raises NotFound."""
        attachment = self.attachments.attachment_at(Path(model.path))
        if attachment is None:
            raise NotFound(f"{model.name} is no longer attached.", code="model_not_found")
        return attachment

    def correct_attachment(self, name: str, change: Callable[[Attachment], Attachment]) -> ModelInfo:
        """Change what is known of an attached model. Raises NotFound, StorageFault."""
        model = self.find_model(name)
        with self._lock:
            self.attachments.rewrite_attachment(change(self.find_attachment(model)))
            self._models_by_name = {}
        return self.find_model(name)

    def check_file(self, path: Path) -> None:
        """Return if a file is a whole model that can be loaded by itself. Raises NotFound or BadRequest."""
        described_model = self._inspector.describe_model(self._check_candidate(path))
        if described_model is not None and described_model.problem:
            raise BadRequest(f"{path.name} cannot be used: {described_model.problem}", code="model_unusable")

    def list_companions(self) -> list[tuple[Path, GgufFacts]]:
        """Return the files that go with models and are none by themselves: projectors and LoRA adapters."""
        with self._lock:
            candidates = find_candidates(tuple(self._folders()), self._listings, with_projectors=True)
            files = [candidate for candidate in candidates if not candidate.is_folder]
            readings = ((candidate.first, self._inspector.companion_facts(candidate)) for candidate in files)
            return [(path, facts) for path, facts in readings if facts is not None]

    def look_again(self) -> None:
        """Forget what is known of names: something outside the folders changed."""
        with self._lock:
            self._models_by_name = {}

    def forget_model(self, name: str) -> None:
        """Stop listing a registered file, a made or an attached model; files stay on disk.

        Raises NotFound, or Conflict for what is listed because it lies where it does.
        """
        model = self.find_model(name)
        if model.is_builtin:
            raise Conflict("The Guide is part of Roundhouse and cannot be removed from the list.")
        with self._lock:
            self._models_by_name = {}
            if model.preset is not None:
                self._made_models.remove_model(model.name)
                return
            if model.attached:
                self.attachments.remove_attachment(Path(model.path))
                return
            if model.store:
                raise Conflict(f"{model.name} belongs to {model.store}.", hint=f"Remove it in {model.store}.")
            if not self._registry.remove_path(Path(model.path)):
                raise Conflict(
                    f"{model.name} is in a model folder and would be found again.",
                    hint=f"Move {model.path} elsewhere, or remove its folder in the settings.",
                )

    def _check_candidate(self, path: Path) -> Candidate:
        if "\0" in str(path):  # no system has names like that, and asking one raises something else each time
            raise NotFound("There is no file of that name.", code="model_not_found")
        candidate = candidate_at(_absolute_path(path))
        if candidate.is_folder:
            return self._check_folder(candidate)
        facts = self._inspector.header_facts(candidate)
        if candidate.is_projector or not naming.is_model_kind(facts.kind, facts.architecture):
            raise BadRequest(
                f"{path.name} is part of another model and cannot be loaded on its own.",
                hint="Add the model itself.",
            )
        return candidate

    def _check_folder(self, candidate: Candidate) -> Candidate:
        described_model = self._inspector.describe_model(candidate)
        if described_model is not None and described_model.format == "gguf":
            raise BadRequest(
                f"{candidate.first.name} is a folder with GGUF files.",
                hint="Choose one of them, or add the folder to the setting models.folders.",
                code="model_unusable",
            )
        if described_model is None or described_model.problem:
            why = (
                described_model.problem
                if described_model is not None
                else "it contains no model that Roundhouse supports."
            )
            raise BadRequest(f"{candidate.first.name} cannot be used: {why}", code="model_unusable")
        return candidate

    def _refresh_models(self) -> list[ModelInfo]:
        if not self._is_recalled:
            self._inspector.recall_index()
            self._is_recalled = True
        registered_paths = self._registry.list_paths()
        self._known_folders = tuple(self._folders())
        guide = self._describe_guide()
        if not self._models_by_name:
            self._models_by_name = {GUIDE_NAME: guide}  # who asks for it need not wait for all the others
        candidates = find_candidates(self._known_folders, self._listings)
        self._listings.forget_unused()
        unique = _without_repeats([*(candidate_at(path) for path in registered_paths), *candidates, *self._others()])
        made_models = self._made_models.list_models()
        uploaded_candidates = self._upload_candidates(made_models, unique)
        self._inspector.keep_only(
            candidate.first for candidate in [*unique, candidate_for(self._guide), *uploaded_candidates]
        )
        here = _LibraryContent(
            described=[
                model for candidate in unique if (model := self._inspector.describe_model(candidate)) is not None
            ],
            attached=self.attachments.list_models(),
            made=made_models,
            alone={
                str(candidate.first): model
                for candidate in uploaded_candidates
                if (model := self._inspector.describe_model(candidate)) is not None
            },
            guide=guide,
        )
        self._inspector.store_index()
        if here != self._last[0]:
            self._last = (here, _name_models(here))
        models = self._last[1]
        self._models_by_name = {naming.fold_name(model.name): model for model in models}
        return list(models)

    def _is_as_it_was(self, model: ModelInfo) -> bool:
        """Whether a model needs no new look at the folders: every request asks for one by name."""
        if self._known_folders != tuple(self._folders()):
            return False
        return bool(model.attached) or self._inspector.is_as_it_was(Path(model.path))

    def _upload_candidates(self, made_models: Iterable[MadeModel], others: Iterable[Candidate]) -> list[Candidate]:
        """Return the weights that only made models have: those that were uploaded for them."""
        path_list = {str(candidate.first) for candidate in others} | {str(self._guide)}
        paths = dict.fromkeys(
            made_model.path
            for made_model in made_models
            if made_model.path not in path_list and Path(made_model.path).is_file()
        )
        attached_folder = self.attachments.folder
        return [candidate_for(Path(path)) for path in paths if Path(path).parent != attached_folder]

    def _describe_guide(self) -> ModelInfo:
        model = self._inspector.describe_model(candidate_for(self._guide))
        if model is None or model.problem:
            return _absent_guide(self._guide, model.problem if model else "")
        return naming.rename_model(model, GUIDE_NAME, title=GUIDE_TITLE, is_builtin=True)


class _LibraryContent(NamedTuple):
    """All that is here, before it has names of its own."""

    described: list[ModelInfo]
    attached: list[ModelInfo]
    made: list[MadeModel]
    alone: dict[str, ModelInfo]
    guide: ModelInfo


def _name_models(content: _LibraryContent) -> list[ModelInfo]:
    """Return what is here under names that are unique, the Guide first."""
    usable = sorted(content.described, key=lambda model: model.path)
    taken_names = {
        GUIDE_NAME,
        *(made_model.name for made_model in content.made),
        *(model.name for model in content.attached),
    }
    with_names = [*naming.with_unique_names(usable, taken_names=taken_names), *content.attached]
    others = add_made_models([content.guide, *with_names], content.made, content.alone)[1:]
    return [content.guide, *sorted(others, key=lambda model: model.name.casefold())]


def _absent_guide(path: Path, problem: str) -> ModelInfo:
    return ModelInfo(
        name=GUIDE_NAME,
        title=GUIDE_TITLE,
        path=str(path),
        format="gguf",
        size_bytes=0,
        is_builtin=True,
        problem=problem or "The built-in model is missing from this installation.",
    )


def _without_repeats(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Keep the first of several paths to the same file: links, or a registered file inside a model folder."""
    seen_files: dict[object, Candidate] = {}
    for candidate in candidates:
        seen_files.setdefault(candidate.identity, candidate)
    return list(seen_files.values())


def _absolute_path(path: Path) -> Path:
    return expand_path(path).absolute()


def _is_same(first: Path, second: Path) -> bool:
    return first == second or (first.exists() and second.exists() and first.samefile(second))


_NO_TAG = frozenset({"", "latest"})


def find_by_pull_name(models: Iterable[ModelInfo], typed_name: str) -> ModelInfo | None:
    """Return the model that was pulled by that name, the newest of several; None if there is none."""
    try:
        reference = parse_reference(typed_name)
    except BadRequest:
        return None
    if not reference.repository:
        return None
    quantization = "" if reference.quantization.casefold() in _NO_TAG else reference.quantization.casefold()
    matches = [model for model in models if _is_of(model, reference.repository, reference.file, quantization)]
    return max(matches, key=lambda model: model.modified_at, default=None)


def _is_of(model: ModelInfo, repository: str, file: str, quantization: str) -> bool:
    origin = origin_of(Path(model.path))
    if origin is None or origin.repository.casefold() != repository.casefold() or model.preset is not None:
        return False
    named_quantization = quantization_of(split_stem(PurePath(origin.path).name)) or model.quantization
    return file in {"", origin.path} and quantization in {"", named_quantization.casefold()}
