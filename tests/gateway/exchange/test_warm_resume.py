"""Prompts are kept when an engine ends and loaded into its next run; and what goes wrong with that costs no answer."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.core.events import ModelsChanged
from app.core.keys import NewKey
from app.gateway.exchange import warm_resume
from app.gateway.kept_prompts.store import PromptStore
from app.gateway.services import Services
from app.supervisor.lease import ReadyEndpoint
from app.supervisor.states import SlotStateLaunch, make_state_folders
from engines.api import EngineInstallation, LaunchOptions, ModelFormat, ModelSource, SlotStates
from tests.file_keyring import use_file_keyring
from tests.gateway.played import Gateway
from tests.patience import PATIENCE_S, until

LONG = "One of many words. " * 800
TOKENS, WRITTEN = 4000, 2
API = "/roundhouse/v1/kept-prompts"
OWN = {"Authorization": "Bearer token"}


@dataclass
class PlayedSlots:
    """An engine with two slots that writes and reads states, as llama-server does. `log` is what it was asked."""

    folder: Path = Path()
    slots: list[int] = field(default_factory=lambda: [0, 0])
    log: list[str] = field(default_factory=list)
    restored_states: list[bytes] = field(default_factory=list)
    at_restore: Callable[[], object] | None = None
    """Called when it is to read a state; returns what it answers with, None as usual."""
    counts_wrong: bool = False

    async def play(self, request: web.Request) -> web.StreamResponse:
        self.log.append(f"{request.path}?{request.query_string}".rstrip("?"))
        if request.path == "/slots":
            return web.json_response(
                [
                    {"id": slot, "is_processing": False, "n_prompt_tokens": count}
                    for slot, count in enumerate(self.slots)
                ]
            )
        if request.path.startswith("/slots/"):
            return await self._move_state(request, int(request.path.rpartition("/")[2]))
        self.slots[0] = TOKENS + WRITTEN - 1
        usage = {"prompt_tokens": TOKENS, "completion_tokens": WRITTEN, "prompt_tokens_details": {"cached_tokens": 7}}
        timings = {
            "cache_n": 7,
            "prompt_n": TOKENS - 7,
            "prompt_ms": 100_000.0,
            "predicted_n": WRITTEN,
            "predicted_ms": 9,
        }
        if json.loads(await request.read()).get("stream"):
            return await _stream_answer(request, {"usage": usage, "timings": timings})
        message = {"role": "assistant", "content": "So it is."}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return web.json_response({"id": "1", "model": "guide", "choices": choices, "usage": usage, "timings": timings})

    async def _move_state(self, request: web.Request, slot: int) -> web.StreamResponse:
        file = self.folder / (await request.json())["filename"]
        if request.query["action"] == "save":
            file.write_bytes(b"state of %d tokens" % self.slots[slot])
            return web.json_response({"n_saved": self.slots[slot] + self.counts_wrong, "n_written": 1})
        self.restored_states.append(file.read_bytes())
        outcome = self.at_restore() if self.at_restore is not None else None
        if isinstance(outcome, asyncio.Event):
            await outcome.wait()
        elif outcome == "dies":
            assert request.transport is not None
            request.transport.abort()
        elif outcome is not None:
            return web.json_response({"error": {"message": "Unable to restore slot"}}, status=400)
        self.slots[slot] = TOKENS + WRITTEN - 1
        return web.json_response({"n_restored": self.slots[slot], "n_read": 1})

    def is_asked_for(self, action: str) -> bool:
        return any(line.endswith(f"action={action}") for line in self.log)


async def _stream_answer(request: web.Request, counts: dict[str, object]) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    written_chunk = {"choices": [{"index": 0, "delta": {"content": "So it is."}, "finish_reason": "stop"}]}
    for event in (written_chunk, {"choices": [], **counts}):
        await answer.write(b"data: " + json.dumps(event).encode() + b"\n\n")
    await answer.write(b"data: [DONE]\n\n")
    return answer


@dataclass
class Bench:
    """A gateway before an engine of played slots, which can be run anew."""

    gateway: Gateway
    engine: PlayedSlots
    folder: Path
    runs: int = 0
    launch: SlotStateLaunch | None = None

    def start_run(self, **options: Any) -> None:  # noqa: ANN401 -- options of every type
        self.runs += 1
        place, weights = self.folder / f"run-{self.runs}", self.folder / "weights.gguf"
        if not weights.exists():
            weights.write_bytes(b"weights")
        self.launch = SlotStateLaunch(
            folder=place / "states",
            larger_folder=place / "large",
            routes=SlotStates(save="/slots/{slot}?action=save", restore="/slots/{slot}?action=restore"),
            slots_path="/slots",
            engine="llama.cpp",
            source=ModelSource(name="guide", path=weights, format=ModelFormat.GGUF),
            options=LaunchOptions(context=8192, **options),
            installation=EngineInstallation(engine="llama.cpp", version="1", backend="cpu"),
        )
        make_state_folders(self.launch)
        self.engine.slots, self.engine.folder = [0, 0], self.launch.folder
        self.engine.log.clear()
        self.gateway.supervisor.state_launch = self.launch

    async def end_run(self) -> None:
        keep = self.gateway.supervisor.states.keep
        upstream = self.gateway.upstream
        assert keep is not None
        assert self.launch is not None
        engine = ReadyEndpoint(model="guide", engine="llama.cpp", base_url=upstream.url, key=upstream.key)
        await keep(engine, self.launch)

    async def ask_model(self, text: str = LONG, key: str = "") -> None:
        body = {"model": "guide", "messages": [{"role": "user", "content": text}]}
        headers = {"x-api-key": key} if key else {}
        async with self.gateway.http.post(
            f"{self.gateway.url}/v1/chat/completions", json=body, headers=headers
        ) as reply:
            answer = await reply.json()
            assert reply.status == 200, answer
            assert answer["choices"][0]["message"]["content"] == "So it is."

    async def read_kept(self) -> dict[str, Any]:
        async with self.gateway.http.get(f"{self.gateway.url}{API}", headers=OWN) as reply:
            kept_prompts: dict[str, Any] = await reply.json()
            return kept_prompts

    async def count_kept(self) -> int:
        return len((await self.read_kept())["prompts"])

    def plain_files(self) -> list[Path]:
        assert self.launch is not None
        return [*self.launch.folder.iterdir(), *self.launch.larger_folder.iterdir()]


@pytest.fixture
async def bench(gateway: Gateway, tmp_path: Path) -> AsyncIterator[Bench]:
    engine = PlayedSlots()
    gateway.upstream.play = engine.play
    with use_file_keyring(tmp_path / "keyring.json"):
        bench = Bench(gateway, engine, tmp_path)
        bench.start_run()
        yield bench


async def keep_once(bench: Bench, key: str = "") -> None:
    """Have one prompt read and kept, and the engine run anew."""
    await bench.ask_model(key=key)
    await bench.end_run()
    bench.start_run()


async def test_the_next_run_has_the_prompt_before_it_is_asked(bench: Bench) -> None:
    await keep_once(bench)
    assert await bench.count_kept() == 1
    await bench.ask_model(LONG + "What follows?")
    assert bench.engine.restored_states == [b"state of 4001 tokens"]
    assert bench.engine.log == ["/slots", "/slots/0?action=restore", "/v1/chat/completions"]
    assert not bench.plain_files()


async def test_what_a_run_has_is_not_loaded_again(bench: Bench) -> None:
    await keep_once(bench)
    for _ in range(3):
        await bench.ask_model()
    assert len(bench.engine.restored_states) == 1


async def test_it_says_what_is_kept_and_what_it_saves(bench: Bench) -> None:
    await keep_once(bench)
    kept_prompts = await bench.read_kept()
    (prompt,) = kept_prompts["prompts"]
    assert (prompt["model"], prompt["tokens"], prompt["key"], prompt["place"]) == ("guide", 4001, "", "disk")
    assert prompt["saves_s"] == pytest.approx(4000 / ((4000 - 7) / 100))
    assert kept_prompts["disk_bytes"] == prompt["size_bytes"]
    assert kept_prompts["models"] == [{"model": "guide", "engine": "llama.cpp", "is_kept": True, "reason": ""}]


async def test_the_inspector_says_what_the_cache_saved(bench: Bench) -> None:
    await bench.ask_model()
    async with bench.gateway.http.get(f"{bench.gateway.url}/roundhouse/v1/requests", headers=OWN) as reply:
        request = (await reply.json())[0]
    assert request["cached_tokens"] == 7
    assert request["saved_s"] == pytest.approx(7 / ((4000 - 7) / 100))


async def test_an_engine_that_nobody_asks_has_it_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_resume, "IDLE_S", 0.0)
    await bench.ask_model()
    prompts_folder = bench.gateway.services.paths.warm_prompts
    await until(lambda: bool(list(prompts_folder.glob("*.prompt"))))
    await until(lambda: not bench.plain_files())


async def test_short_requests_and_engines_without_states_cost_nothing(bench: Bench) -> None:
    await bench.ask_model("Hi")
    assert bench.engine.log == ["/v1/chat/completions"]
    bench.gateway.supervisor.state_launch = None
    await bench.ask_model()
    assert bench.engine.log == ["/v1/chat/completions"] * 2


async def test_a_keyring_that_asks_a_person_holds_no_request_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await keep_once(bench)
    is_unlocked = threading.Event()
    monkeypatch.setattr(PromptStore, "entries_of", lambda *_owner: is_unlocked.wait(2 * PATIENCE_S) and [])
    monkeypatch.setattr(warm_resume, "LOOK_S", 0.05)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await bench.ask_model()
        assert bench.engine.restored_states == []
    finally:
        is_unlocked.set()


@pytest.mark.parametrize("outcome", ["refuses", "dies"])
async def test_a_prompt_that_the_engine_does_not_take_is_removed_and_read(bench: Bench, outcome: str) -> None:
    await keep_once(bench)
    bench.engine.at_restore = lambda: outcome
    await bench.ask_model()
    assert bench.engine.restored_states
    assert await bench.count_kept() == 0
    assert not bench.plain_files()


@pytest.mark.parametrize("damage", [b"", b"noise" * 99, None])
async def test_a_damaged_file_never_gets_to_the_engine(bench: Bench, damage: bytes | None) -> None:
    await keep_once(bench)
    assert await bench.count_kept() == 1
    (file,) = bench.gateway.services.paths.warm_prompts.glob("*.prompt")
    file.write_bytes(file.read_bytes()[:-1] if damage is None else damage)
    await bench.ask_model()
    assert not bench.engine.restored_states
    assert not bench.engine.is_asked_for("restore")
    assert await bench.count_kept() == 0
    assert not bench.plain_files()


@pytest.mark.parametrize("change", ["weights", "template", "cache type", "context"])
async def test_a_prompt_is_for_the_very_same_model_and_options(bench: Bench, change: str) -> None:
    await keep_once(bench)
    if change == "weights":
        (bench.folder / "weights.gguf").write_bytes(b"others!")
    options: dict[str, Any] = {"template": {"chat_template": "{{ x }}"}, "cache type": {"kv_type": "q8_0"}}.get(
        change, {}
    )
    bench.start_run(**options)
    if change == "context":
        assert bench.launch is not None
        bench.gateway.supervisor.state_launch = _with_context(bench.launch, 4096)
    await bench.ask_model()
    assert not bench.engine.restored_states


def _with_context(launch: SlotStateLaunch, context: int) -> SlotStateLaunch:
    import msgspec  # noqa: PLC0415 -- here only

    return msgspec.structs.replace(launch, options=LaunchOptions(context=context))


async def test_a_slot_that_went_on_meanwhile_is_not_kept(bench: Bench) -> None:
    bench.engine.counts_wrong = True
    await keep_once(bench)
    assert await bench.count_kept() == 0


async def test_a_client_that_leaves_while_it_is_loaded_leaves_nothing_unsealed(bench: Bench) -> None:
    await keep_once(bench)
    never = asyncio.Event()
    bench.engine.at_restore = lambda: never
    question = asyncio.create_task(bench.ask_model())
    await until(lambda: bool(bench.engine.restored_states))
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question
    await until(lambda: not bench.plain_files())
    never.set()


async def test_no_room_for_what_is_unsealed_has_it_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await keep_once(bench)
    monkeypatch.setattr("app.gateway.kept_prompts.plain_state.SPARE_BYTES", 1 << 60)
    await bench.ask_model()
    assert not bench.engine.restored_states
    assert await bench.count_kept() == 1


async def test_switched_off_nothing_is_kept(bench: Bench) -> None:
    changes = {"engine.kept_prompts_disk_mib": 0, "engine.kept_prompts_memory_mib": 0}
    await keep_once(bench)
    async with bench.gateway.http.patch(
        f"{bench.gateway.url}/roundhouse/v1/settings", json=changes, headers=OWN
    ) as reply:
        assert reply.status == 200
    assert await bench.count_kept() == 0
    assert not bench.gateway.supervisor.states.are_wanted()
    await keep_once(bench)
    assert await bench.count_kept() == 0


async def test_a_removed_model_takes_its_prompts_along(bench: Bench) -> None:
    await keep_once(bench)
    library: Any = bench.gateway.services.library
    library._models = library._models[1:]
    bench.gateway.services.events.publish(ModelsChanged())
    prompts_folder = bench.gateway.services.paths.warm_prompts
    await until(lambda: not list(prompts_folder.glob("*.prompt")))


async def test_a_person_removes_one_or_all(bench: Bench) -> None:
    http, url = bench.gateway.http, f"{bench.gateway.url}{API}"
    await keep_once(bench)
    (prompt,) = (await bench.read_kept())["prompts"]
    for status in (204, 404):
        async with http.delete(f"{url}/{prompt['id']}", headers=OWN) as reply:
            assert reply.status == status
    await keep_once(bench)
    for query, count in (("?model=other", 1), ("?key=other", 1), ("?model=guide", 0), ("", 0)):
        async with http.delete(f"{url}{query}", headers=OWN) as reply:
            assert reply.status == 204
        assert await bench.count_kept() == count


class TestKeys:
    """Prompts of one key are nobody else's."""

    @pytest.fixture
    def environ(self) -> dict[str, str]:
        return {"ROUNDHOUSE_GATEWAY_REQUIRE_KEY": "true"}

    @pytest.fixture
    def keys(self, services: Services) -> tuple[str, str]:
        return services.keys.make_key(NewKey(name="mine")).key, services.keys.make_key(NewKey(name="theirs")).key

    async def test_another_key_does_not_get_it(self, bench: Bench, keys: tuple[str, str]) -> None:
        await keep_once(bench, keys[0])
        await bench.ask_model(key=keys[1])
        assert not bench.engine.restored_states
        bench.start_run()
        await bench.ask_model(key=keys[0])
        assert not bench.engine.restored_states, "another key uses this run of the engine"

    async def test_the_same_key_gets_it(self, bench: Bench, keys: tuple[str, str]) -> None:
        await keep_once(bench, keys[0])
        await bench.ask_model(key=keys[0])
        assert len(bench.engine.restored_states) == 1
        assert (await bench.read_kept())["prompts"][0]["key"] == "mine"

    async def test_a_run_that_two_keys_use_is_not_kept(self, bench: Bench, keys: tuple[str, str]) -> None:
        for key in keys:
            await bench.ask_model(key=key)
        await bench.end_run()
        assert await bench.count_kept() == 0

    async def test_where_two_keys_could_be_meant_it_is_nobodys(self, bench: Bench, keys: tuple[str, str]) -> None:
        bench.gateway.services.settings.change_values({"engine.share_cache": True})
        for key in keys:
            await bench.ask_model(key=key)
        await bench.end_run()
        assert await bench.count_kept() == 0

    async def test_a_revoked_key_takes_its_prompts_along(self, bench: Bench, keys: tuple[str, str]) -> None:
        await keep_once(bench, keys[0])
        url = f"{bench.gateway.url}/roundhouse/v1/keys/mine"
        async with bench.gateway.http.delete(url, headers=OWN) as reply:
            assert reply.status == 204
        assert not list(bench.gateway.services.paths.warm_prompts.glob("*.prompt"))
        again = bench.gateway.services.keys.make_key(NewKey(name="mine")).key
        await bench.ask_model(key=again)
        assert not bench.engine.restored_states

    async def test_what_a_revoked_key_left_in_an_engine_is_not_kept(self, bench: Bench, keys: tuple[str, str]) -> None:
        await bench.ask_model(key=keys[0])
        bench.gateway.services.keys.revoke_key("mine")
        await bench.end_run()
        assert await bench.count_kept() == 0


async def test_the_windows_chats_are_apart_from_programs(bench: Bench) -> None:
    http, base = bench.gateway.http, f"{bench.gateway.url}/roundhouse/v1/chats"
    async with http.post(base, json={"model": "guide"}, headers=OWN) as reply:
        chat = (await reply.json())["id"]
    async with http.post(f"{base}/{chat}/turns", json={"content": LONG, "model": "guide"}, headers=OWN) as reply:
        turn = await reply.json()
    async with http.get(f"{base}/{chat}/answers/{turn['answer']['id']}", headers=OWN) as reply:
        await reply.read()
    messages = json.loads(bench.gateway.upstream.bodies[-1])["messages"]
    await bench.end_run()
    (prompt,) = (await bench.read_kept())["prompts"]
    assert prompt["is_chat"]
    bench.start_run()
    url = f"{bench.gateway.url}/v1/chat/completions"
    async with http.post(url, json={"model": "guide", "messages": messages}) as reply:
        assert reply.status == 200
    assert not bench.engine.restored_states
    async with http.delete(f"{base}/{chat}", headers=OWN) as reply:
        assert reply.status == 204
    prompts_folder = bench.gateway.services.paths.warm_prompts
    await until(lambda: not list(prompts_folder.glob("*.prompt")))
