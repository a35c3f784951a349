"""One run of an engine, from finding it to the last process gone.

A run does what the state machine orders, tells the engine's owner what happens, and always ends with `RunEnded`:
nothing it started is alive by then, its record and its private files are gone, and its port is free.

Free loopback ports, none handed out twice while it may still be about to be bound.
"""

import asyncio
import contextlib
import functools
import logging
import os
import secrets
import shlex
import shutil
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil

from app.config.private_files import write_private
from app.confinement.confiner import Confiner, EngineConfinement, LaunchPlaces, short_folder
from app.confinement.rules import LaunchOrder
from app.supervisor import messages as m
from app.supervisor.alarm import SLEEP_S
from app.supervisor.child import ChildHandlers, ChildOutput, EngineProcess
from app.supervisor.facts import RunFacts
from app.supervisor.faults import (
    CALLED_OFF,
    MISTAKE,
    StartFailed,
    options_failure,
    prepare_failure,
    start_failure,
    unknown_engine_failure,
)
from app.supervisor.lease import ReadyEndpoint
from app.supervisor.logs import EngineLog, LogRedactor
from app.supervisor.policy import LoadRequest, SupervisorFolders
from app.supervisor.readiness import EngineEndpoint, computes, is_ready
from app.supervisor.records import TOKEN_VARIABLE, LaunchRecord, LaunchRecords
from app.supervisor.remote import check_endpoint, wait_until_lost
from app.supervisor.states import KEEP_S, SlotStateLaunch, make_state_folders, state_folder
from engines.api import (
    Descriptor,
    EngineAdapter,
    EngineInstallation,
    Failure,
    LaunchPlan,
    ListenOptions,
    LogEvent,
    ProcessSpec,
    Readiness,
    ReadyWhen,
    Route,
    SlotStates,
    SoftStop,
)

if TYPE_CHECKING:
    from app.core.errors import EngineFailed

HOST = "127.0.0.1"


class LoopbackPorts:
    """Ask the kernel for a free port and remember it: between asking and binding, somebody else could be given it."""

    def __init__(self) -> None:
        self.reserved: set[int] = set()

    @contextlib.contextmanager
    def reserve_port(self, port: int = 0) -> Iterator[int]:
        """Keep a port, `port` if given, while the block runs. Another program can still take it: then try again."""
        port = port or self.pick_port()
        self.reserved.add(port)
        try:
            yield port
        finally:
            self.reserved.discard(port)

    def pick_port(self) -> int:
        """Return a port that is free now, and not kept for anybody."""
        with (
            contextlib.ExitStack() as sockets
        ):  # ports already reserved stay bound meanwhile, so the kernel offers others
            while True:
                probe = sockets.enter_context(socket.socket())
                probe.bind((HOST, 0))
                port: int = probe.getsockname()[1]
                if port not in self.reserved:
                    return port


_STACK_BYTES = 16 << 20
"""For each core: some engines have two threads on each, with stacks of 8 MiB that hardly anything is used of."""
PULSE_S = 1.0
ALIVE_SHARE = 0.02
"""An engine that uses less of one core than this is waiting; answering our questions alone costs about so much."""
TOKEN_S = 300.0
"""For a token, which waits for the work before it: then it is asked for anew."""
WAKE_S = 20.0
"""An engine that answers nothing about itself for so long after a sleep, and uses no processor, is stuck."""
PROBE_S = 10.0
"""How long one question to an engine that was ready may take. As `remote.LOOK_S`: one thread may answer and compute."""


class StateKeeping:
    """What becomes of the states of slots. While nobody wants them no engine writes any."""

    def __init__(self) -> None:
        self.are_wanted: Callable[[], bool] = lambda: False
        self.keep: Callable[[ReadyEndpoint, SlotStateLaunch], Awaitable[None]] | None = None
        """Called before an engine ends, which then waits `KEEP_S` at most."""


class RunDeps(msgspec.Struct, frozen=True, kw_only=True):
    """What every run of a gateway shares. `inherited` is the environment engines start with."""

    adapters: Mapping[str, EngineAdapter]
    folders: SupervisorFolders
    inherited: Mapping[str, str]
    ports: LoopbackPorts
    records: LaunchRecords
    keeping: StateKeeping
    confiner: Confiner | None = None


class EngineRun:
    """One run. `tell` reaches the engine's owner, `changed` says that `facts` did. `end` is set when it failed."""

    def __init__(
        self,
        order: m.LaunchRun,
        deps: RunDeps,
        *,
        log: EngineLog,
        tell: Callable[[m.Message], None],
        on_change: Callable[[], None],
    ) -> None:
        self.number = order.run
        self.facts = RunFacts()
        self.end: asyncio.Future[EngineFailed] = asyncio.get_running_loop().create_future()
        self._request = order.request
        self._deps = deps
        self._log = log
        self._tell = tell
        self._on_change = on_change
        self._token = secrets.token_hex(16)
        self._folder = deps.folders.scratch / self._token
        self._ends: dict[EngineProcess, asyncio.Future[int]] = {}
        self._plan: LaunchPlan | None = None
        self._limits: Descriptor | None = None
        self._confinement: EngineConfinement | None = None
        self._record = LaunchRecord(token=self._token, model=order.request.runs_as, engine=order.request.engine)
        self._begun_s = time.monotonic()
        self._understands_log = True
        self._is_asked_to_end = False
        self._is_abandoned = False
        self._has_begun = False
        self._is_called_off = False
        self._stop_task: asyncio.Task[None] | None = None
        self._task = asyncio.create_task(self._run_to_end(), name=f"engine run {self._request.runs_as}")

    def ask_to_end(self) -> None:
        """Stop softly, as the engine's adapter wants it."""
        self._is_asked_to_end = True
        if not self._ends or self._plan is None:
            self._call_off()
        elif self.facts.states is not None and self.facts.ready_at_s is not None:
            self._stop_task = asyncio.create_task(self._keep_and_stop(self._plan, self.facts.states))
        else:
            self._stop_softly(self._plan)

    async def _keep_and_stop(self, plan: LaunchPlan, states: SlotStateLaunch) -> None:
        """Have what its slots have read kept before it ends."""
        facts = self.facts
        engine = ReadyEndpoint(
            model=self._request.runs_as, engine=self._request.engine, base_url=facts.base_url, key=facts.key
        )
        try:
            if (keep := self._deps.keeping.keep) is not None:
                async with asyncio.timeout(KEEP_S):
                    await keep(engine, states)
        except TimeoutError:
            logging.getLogger(__name__).info("What %s had read was not kept in time", engine.model)
        except Exception:
            logging.getLogger(__name__).exception("What %s had read could not be kept", engine.model)
        self._stop_softly(plan)

    def _stop_softly(self, plan: LaunchPlan) -> None:
        if plan.stop.how is SoftStop.HTTP:
            self._stop_task = asyncio.create_task(self._post_stop(plan.stop.path))
        else:
            for child in reversed(self._ends):
                child.ask_to_end(plan.stop.how)

    def kill(self) -> None:
        """Kill every process and all they started."""
        if not self._ends:
            self._call_off()
        for child in self._ends:
            child.kill()

    def abandon(self) -> None:
        """Watch it no longer. Its record stays, so that the next start tries again."""
        self._is_abandoned = True
        self._call_off()

    async def is_answering(self) -> bool | None:
        """Ask it until it answers anything; False once it did not for as long as its descriptor allows.

        None where that tells nothing: of an endpoint that somebody else runs, and of an engine whose answer is a
        token, which waits for the work before it.
        """
        plan, limits = self._plan, self._limits
        if plan is None or limits is None or not plan.processes or plan.readiness.when is ReadyWhen.COMPLETION:
            return None
        asks_token = limits.probe_path and self._request.options.task == "chat"
        probe = asyncio.create_task(
            self._until_token(limits.probe_path)
            if asks_token
            else self._until_answered(limits.slots_path or plan.readiness.path)
        )
        return await self._ends_in_time(probe, limits)

    async def still_computes(self) -> bool | None:
        """Ask an idle engine something easy, and then for a token; None where it cannot be asked."""
        plan, limits = self._plan, self._limits
        if plan is None or limits is None or not plan.processes:
            return None
        if plan.readiness.when is not ReadyWhen.COMPLETION:
            well = asyncio.create_task(self._until_answered(limits.slots_path or plan.readiness.path))
            soon = msgspec.structs.replace(limits, frozen_s=min(limits.frozen_s, WAKE_S))
            if not await self._ends_in_time(well, soon):
                return False
        path = limits.probe_path or limits.routes.get(Route.CHAT, "")
        if self._request.options.task != "chat" or not path:
            return True
        token = asyncio.create_task(self._has_token(path, limits.stuck_s))
        return await self._ends_in_time(token, limits) and token.result()

    async def _has_token(self, path: str, timeout_s: float) -> bool:
        try:
            return await computes(self._build_endpoint(), path, timeout_s=timeout_s)
        except (OSError, ValueError):  # TimeoutError too: its process is gone, or says nothing that makes sense
            return False

    async def _ends_in_time(self, probe: "asyncio.Task[Any]", limits: Descriptor) -> bool:
        try:
            return await self._is_answered(probe, limits)
        finally:
            probe.cancel()

    async def _until_token(self, path: str) -> None:
        """Ask for a token until there is an answer that a process which computes can have given."""
        while True:
            with contextlib.suppress(OSError, ValueError):  # TimeoutError too
                if await computes(self._build_endpoint(), path, timeout_s=TOKEN_S):
                    return
            await asyncio.sleep(PULSE_S)

    async def _until_answered(self, path: str) -> None:
        while True:
            with contextlib.suppress(OSError, ValueError):  # TimeoutError too
                await self._build_endpoint().send_request("GET", path, timeout_s=PROBE_S)
                return
            await asyncio.sleep(PULSE_S)

    async def _is_answered(self, probe: "asyncio.Task[Any]", limits: Descriptor) -> bool:
        pids = [child.pid for child in self._ends]
        begun_s = lively_s = last_look_s = time.monotonic()
        spent_s = 0.0
        while not (await asyncio.wait([probe], timeout=PULSE_S))[0]:
            now_s, before_s, spent_s = time.monotonic(), spent_s, await asyncio.to_thread(cpu_seconds, pids)
            if (sleep_s := now_s - last_look_s - PULSE_S) > SLEEP_S:  # the engine slept as we did: no time to answer in
                begun_s, lively_s = begun_s + sleep_s, lively_s + sleep_s
            last_look_s = now_s
            if spent_s - before_s > ALIVE_SHARE * PULSE_S:
                lively_s = now_s
            if now_s - begun_s > limits.stuck_s or now_s - lively_s > limits.frozen_s:
                return False
        return True

    def _call_off(self) -> None:
        """Have it end. A task that is cancelled before its first turn does nothing, and would not tell its end."""
        self._is_called_off = True
        if self._has_begun:
            self._task.cancel()

    async def _run_to_end(self) -> None:
        self._has_begun = True
        failure = CALLED_OFF
        try:
            if not self._is_called_off:
                seat = self._request.seat
                with self._deps.ports.reserve_port(0 if seat is None else seat.port) as port:
                    failure = await self._launch_and_wait(port)
        except asyncio.CancelledError:  # called off before anything ran, or abandoned: both are ends, and told below
            await self._kill_remaining()
        except StartFailed as error:
            failure = error.failure
        except OSError as error:
            failure = prepare_failure(error)
        except Exception:
            logging.getLogger(__name__).exception("A run of %s ended by a mistake of ours", self._request.runs_as)
            failure = MISTAKE
        await asyncio.to_thread(self._clean_up)
        self._tell(m.RunEnded(run=self.number, failure=failure))

    async def _launch_and_wait(self, port: int) -> Failure:
        try:
            adapter, plan = await self._prepare_launch(port)
            if not plan.processes:
                return await self._watch_endpoint(plan.readiness, grace_s=plan.stop.grace_s)
            self._start_processes(adapter, plan)
            await self._until_first_end(plan)
        finally:
            await self._kill_remaining()
        return adapter.classify_exit(self.facts.build_exit(self._request.options))

    async def _until_first_end(self, plan: LaunchPlan) -> None:
        readiness, grace_s = plan.readiness, plan.stop.grace_s + (KEEP_S if plan.keeps_states else 0.0)
        self._tell(
            m.ProcessesStarted(run=self.number, stall_s=readiness.stall_s, hard_s=readiness.hard_s, grace_s=grace_s)
        )
        coming_up = asyncio.create_task(self._wait_until_up(readiness))
        try:
            done_tasks, _ = await asyncio.wait(self._ends.values(), return_when=asyncio.FIRST_COMPLETED)
        finally:
            coming_up.cancel()
        self.facts.exit_code = done_tasks.pop().result()
        if self._is_asked_to_end:
            await asyncio.wait(self._ends.values())

    async def _prepare_launch(self, port: int) -> tuple[EngineAdapter, LaunchPlan]:
        adapter = await asyncio.to_thread(self._deps.adapters.get, self._request.engine)
        if adapter is None:
            raise StartFailed(unknown_engine_failure(self._request.engine))
        installation = await asyncio.to_thread(adapter.probe)
        if isinstance(installation, Failure):
            raise StartFailed(installation)
        self.facts.key = await asyncio.to_thread(_choose_key, self._request)
        keeps = adapter.descriptor.slot_states is not None and self._deps.keeping.are_wanted()
        states = state_folder(self._token, self._folder) if keeps else None
        net = ListenOptions(host=HOST, port=port, key=self.facts.key, state_folder=states)
        try:
            plan = adapter.plan(self._request.source, self._request.options, net, installation)
        except ValueError as error:
            raise StartFailed(options_failure(str(error))) from error
        self.facts.take_plan(plan, installation)
        self._plan, self._limits = plan, adapter.descriptor
        if plan.keeps_states and states is not None and (routes := adapter.descriptor.slot_states) is not None:
            self.facts.states = self._describe_states(states, adapter.descriptor.slots_path, routes, installation)
        if plan.key_file is not None:
            self.facts.key = await asyncio.to_thread(plan.key_file.read_text, "utf-8")
        if plan.processes:
            await asyncio.to_thread(self._write_files, plan)
            await asyncio.to_thread(self._confine, adapter.descriptor, plan, installation, port)
        return adapter, plan

    async def _watch_endpoint(self, readiness: Readiness, *, grace_s: float) -> Failure:
        """Watch an endpoint that somebody else runs until it is lost. Being cancelled is all there is to stopping."""
        self._tell(
            m.ProcessesStarted(run=self.number, stall_s=readiness.stall_s, hard_s=readiness.hard_s, grace_s=grace_s)
        )
        failure = await check_endpoint(self._build_endpoint(), readiness.path)
        if failure is not None:
            return failure
        self.facts.mark_ready(self._begun_s, time.monotonic())
        self._tell(m.EngineReady(run=self.number, slots=self.facts.slots))
        return await wait_until_lost(self._build_endpoint(), readiness.path, every_s=readiness.interval_s)

    def _describe_states(
        self, folder: Path, slots_path: str, routes: SlotStates, installation: EngineInstallation
    ) -> SlotStateLaunch:
        return SlotStateLaunch(
            folder=folder,
            larger_folder=self._folder / "large-states",
            routes=routes,
            slots_path=slots_path,
            engine=self._request.engine,
            source=self._request.source,
            options=self._request.options,
            installation=installation,
        )

    def _write_files(self, plan: LaunchPlan) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in plan.files:
            write_private(self._folder / file.name, file.content)
        self._deps.records.write_record(self._record)
        if self.facts.states is not None:  # after the record: what it names is removed whatever happens
            make_state_folders(self.facts.states)

    def _confine(self, about: Descriptor, plan: LaunchPlan, installation: EngineInstallation, port: int) -> None:
        if self._deps.confiner is not None:
            self._confinement = self._deps.confiner.confine(
                about,
                self._request.source,
                self._request.options,
                installation,
                plan=plan,
                places=LaunchPlaces(
                    scratch=self._folder,
                    short=short_folder(self._token),
                    port=port,
                    states=None if self.facts.states is None else self.facts.states.folder,
                ),
                inherited_environment=self._deps.inherited,
            )

    def _start_processes(self, adapter: EngineAdapter, plan: LaunchPlan) -> None:
        hidden_values = [self.facts.key, *(value for spec in plan.processes for value in spec.secrets.values())]
        handlers = ChildHandlers(
            log=self._log,
            redactor=LogRedactor(hidden_values),
            read_log=functools.partial(self._read_log, adapter),
            hear=self._handle_output,
            ended=self._note_child_end,
        )
        for spec in plan.processes:
            child = self._start_process(spec, handlers, prefix=f"[{spec.role}] " if len(plan.processes) > 1 else "")
            self._ends[child] = asyncio.get_running_loop().create_future()
            self._record = self._record.with_process(child.pid, spec.argv[0])
            self._deps.records.write_record(self._record)
        self.facts.pid = next(iter(self._ends)).pid
        self._on_change()

    def _start_process(self, spec: ProcessSpec, handlers: ChildHandlers, *, prefix: str) -> EngineProcess:
        self._log.append_to_file(
            [handlers.redactor.redact_text(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} {shlex.join(spec.argv)}")]
        )
        order = self._build_order(spec)
        try:
            return EngineProcess(
                order, role=spec.role, has_lifeline=spec.stdin_lifeline, prefix=prefix, handlers=handlers
            )
        except OSError as error:
            raise StartFailed(start_failure(spec.argv[0], error)) from error

    def _build_order(self, spec: ProcessSpec) -> LaunchOrder:
        confinement = self._confinement
        own = {} if confinement is None else confinement.environment
        return LaunchOrder(
            argv=spec.argv,
            env={**self._deps.inherited, **own, **spec.env, **spec.secrets, TOKEN_VARIABLE: self._token},
            cwd=str(spec.cwd or self._folder),
            memory_bytes=self._memory_limit(),
            confinement=None if confinement is None else confinement.rules,
            network=None if self._plan is None else self._plan.network,
        )

    def _memory_limit(self) -> int:
        needs, about = self._request.needs, self._limits
        if needs is None or about is None or not needs.private_limit:
            return 0
        return needs.private_limit + about.overhead_bytes + _STACK_BYTES * (os.cpu_count() or 1)

    def _read_log(self, adapter: EngineAdapter, line: str) -> Sequence[LogEvent]:
        if not self._understands_log:
            return ()
        try:
            return adapter.read_log(line)
        except Exception:
            self._understands_log = False
            logging.getLogger(__name__).exception("The adapter of %s cannot read its log", self._request.engine)
            return ()

    def _handle_output(self, output: ChildOutput) -> None:
        self.facts.add_lines(output.lines)
        for event in output.events:
            self.facts.apply_event(event)
        self._log.add_lines(output.stream, output.lines, output.at)
        if self.facts.ready_at_s is None:
            self._tell(m.SignOfLife(run=self.number))
        if output.events:
            self._on_change()

    def _note_child_end(self, child: EngineProcess, code: int) -> None:
        if not self._ends[child].done():
            self._ends[child].set_result(code)

    async def _wait_until_up(self, readiness: Readiness) -> None:
        pulse = asyncio.create_task(self._watch_cpu())
        try:
            await asyncio.sleep(readiness.grace_s)
            await self._until_ready(readiness)
        finally:
            pulse.cancel()
        if not self.facts.buffers:
            self.facts.resident = await asyncio.to_thread(resident_bytes, [child.pid for child in self._ends])
        self.facts.mark_ready(self._begun_s, time.monotonic())
        self._tell(m.EngineReady(run=self.number, slots=self.facts.slots))

    async def _until_ready(self, readiness: Readiness) -> None:
        while not await is_ready(self._build_endpoint(), readiness):  # noqa: ASYNC110 -- another process cannot set an Event
            await asyncio.sleep(readiness.interval_s)

    async def _watch_cpu(self) -> None:
        pids = [child.pid for child in self._ends]
        spent_s = await asyncio.to_thread(cpu_seconds, pids)
        while True:
            await asyncio.sleep(PULSE_S)
            before_s, spent_s = spent_s, await asyncio.to_thread(cpu_seconds, pids)
            if spent_s - before_s > ALIVE_SHARE * PULSE_S:
                self._tell(m.SignOfLife(run=self.number))

    def _build_endpoint(self) -> EngineEndpoint:
        return EngineEndpoint(base_url=self.facts.base_url, key=self.facts.key, served_name=self.facts.served_name)

    async def _post_stop(self, path: str) -> None:
        with contextlib.suppress(
            OSError, ValueError
        ):  # deaf by now: the grace period ends in a kill (TimeoutError too)
            await self._build_endpoint().send_request("POST", path)

    async def _kill_remaining(self) -> None:
        ends_left = [end for end in self._ends.values() if not end.done()]
        if ends_left and not self._is_abandoned:
            self.kill()
            await asyncio.wait(ends_left)

    def _clean_up(self) -> None:
        if all(end.done() for end in self._ends.values()):
            self._deps.records.remove_record(self._token)
            shutil.rmtree(self._folder, ignore_errors=True)


def _choose_key(request: LoadRequest) -> str:
    """Return the key of this launch. A router passes on the key it is given: it has that of its replicas, if any."""
    if request.seat is not None:
        return request.seat.key_file.read_text("utf-8")
    remote = request.source.remote
    shared_key = remote.key_file.read_text("utf-8") if remote is not None and remote.replicas else ""
    return shared_key or secrets.token_urlsafe(32)


def resident_bytes(pids: Sequence[int]) -> int:
    """Return what processes and their children have in memory now; pages that several map count for each."""
    return sum(_own_resident(process) for process in _with_children(pids))


def _own_resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def cpu_seconds(pids: Sequence[int]) -> float:
    """Return the processor time that processes and their children have used."""
    return sum(_own_cpu_seconds(process) for process in _with_children(pids))


def _with_children(pids: Sequence[int]) -> Iterator[psutil.Process]:
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            leader = psutil.Process(pid)
            yield from (leader, *leader.children(recursive=True))


def _own_cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return times.user + times.system
