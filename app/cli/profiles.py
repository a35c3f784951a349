"""`roundhouse profiles`: sets of models with pins, contexts and aliases, switched by one command."""

import time
from collections.abc import Iterator, Mapping, Sequence

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.client.http import GatewayClient, quote_segment
from app.core import words
from app.core.errors import BadRequest, quote_value
from app.core.profiles import (
    NextSwitch,
    Profile,
    ProfileAction,
    ProfileList,
    ProfileModel,
    ProfilePlan,
    ProfilePool,
    ProfileStep,
    SaveProfile,
    UseProfile,
    format_hours,
    parse_hours,
)

_LOOK_S = 0.3
_SWITCH_S = 120.0
"""Each model is planned first, whose files may lie on a drive that slept."""
_ACTIONS: Mapping[ProfileAction, str] = {
    ProfileAction.LOAD: "load",
    ProfileAction.RELOAD: "load again",
    ProfileAction.KEEP: "keep",
    ProfileAction.UNLOAD: "unload",
    ProfileAction.STAY: "stays, pinned",
    ProfileAction.LEAVE_OUT: "leave out",
}


@click.group("profiles", invoke_without_command=True)
@json_option
@click.pass_context
def profiles(ctx: click.Context, *, as_json: bool) -> None:
    """Switch between sets of models, with their pins, contexts and aliases."""
    if ctx.invoked_subcommand is None:
        _show_profiles(as_json=as_json)


@profiles.command("list")
@json_option
def list_profiles(*, as_json: bool) -> None:
    """List the profiles, which is active, and the next switch by hours."""
    _show_profiles(as_json=as_json)


@profiles.command("show")
@click.argument("name")
@json_option
def show_profile(*, name: str, as_json: bool) -> None:
    """Show what the profile NAME holds."""
    show_result("profile", _read(connect_gateway(), name), as_json=as_json, text=_profile_lines)


@profiles.command("save")
@click.argument("name")
@click.option("--model", "models", multiple=True, metavar="MODEL[=TOKENS]", help="A model, and its context.")
@click.option("--pin", "pins", multiple=True, metavar="MODEL", help="Keep this model of the profile loaded.")
@click.option("--on-request", "waiting", multiple=True, metavar="MODEL", help="Do not load this model on switching.")
@click.option("--default", "default", metavar="MODEL", help="The model that requests for `auto` get.")
@click.option("--alias", "aliases", multiple=True, metavar="NAME=MODEL", help="A name, and who answers to it.")
@json_option
def save_profile(  # noqa: PLR0913 -- one option each
    *,
    name: str,
    models: tuple[str, ...],
    pins: tuple[str, ...],
    waiting: tuple[str, ...],
    default: str | None,
    aliases: tuple[str, ...],
    as_json: bool,
) -> None:
    """Keep the profile NAME: with these models, or without any as it is now.

    What is kept then is what is loaded, with pins and contexts. A profile of that name is replaced, but for its hours.
    """
    client = connect_gateway()
    hours = next((profile.hours for profile in _list(client).profiles if profile.name == name), [])
    if models or aliases or default:
        profile = Profile(
            name=name,
            models=[_parse_model(text, pins, waiting) for text in models],
            default=default or "",
            aliases=list(aliases),
        )
        _check_named(profile, (*pins, *waiting))
    else:
        _refuse_without_models(pins, waiting)
        profile = client.get("/profile/draft", Profile)
    saved_profile = msgspec.structs.replace(profile, name=name, hours=hours)
    _save(client, SaveProfile(profile=saved_profile), as_json=as_json)


@profiles.command("rename")
@click.argument("name")
@click.argument("new_name")
@json_option
def rename_profile(*, name: str, new_name: str, as_json: bool) -> None:
    """Call the profile NAME by NEW_NAME."""
    client = connect_gateway()
    profile = msgspec.structs.replace(_read(client, name), name=new_name)
    _save(client, SaveProfile(profile=profile, replaced=name), as_json=as_json)


@profiles.command("hours")
@click.argument("name")
@click.argument("hours", nargs=-1, metavar="[DAYS START-END]...")
@click.option("--never", is_flag=True, help="Take the profile's hours away.")
@json_option
def set_hours(*, name: str, hours: tuple[str, ...], never: bool, as_json: bool) -> None:
    """Have the profile NAME active at these hours: `hours night mon-fri 22:00-06:00`. The local clock counts."""
    if bool(hours) == never:
        raise BadRequest("Say DAYS START-END, as in `mon-fri 22:00-06:00`, or --never.", code="usage")
    client = connect_gateway()
    profile = msgspec.structs.replace(_read(client, name), hours=parse_hours(" ".join(hours)))
    _save(client, SaveProfile(profile=profile), as_json=as_json)
    switch = _list(client).next_switch
    if switch is not None:
        print_note(_switch_line(switch))


@profiles.command("use")
@click.argument("name")
@click.option("--plan", "plan_only", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--wait/--no-wait", default=True, help="Wait until its models are loaded.")
@json_option
def use_profile(*, name: str, plan_only: bool, wait: bool, as_json: bool) -> None:
    """Switch to the profile NAME. Only what differs is loaded and unloaded, and no answer is broken off."""
    client = connect_gateway()
    _read(client, name)
    _switch(client, UseProfile(name=name), plan_only=plan_only, wait=wait, as_json=as_json)


@profiles.command("off")
@json_option
def use_none(*, as_json: bool) -> None:
    """Use no profile: pins, contexts and aliases are those of the settings again. What is loaded stays."""
    _switch(connect_gateway(), UseProfile(), plan_only=False, wait=False, as_json=as_json)


@profiles.command("undo")
@click.option("--wait/--no-wait", default=True, help="Wait until the models are loaded again.")
@json_option
def undo_switch(*, wait: bool, as_json: bool) -> None:
    """Take the last switch back: what was active and loaded before it is so again."""
    client = connect_gateway()
    plan = client.post("/profile/undo", None, ProfilePlan, timeout_s=_SWITCH_S)
    _show_switch(client, plan, wait=wait, as_json=as_json)


@profiles.command("remove")
@click.argument("name")
@json_option
def remove_profile(*, name: str, as_json: bool) -> None:
    """Remove the profile NAME. What is loaded stays loaded."""
    connect_gateway().delete(f"/profiles/{quote_segment(name)}")
    show_result("removed", name, as_json=as_json, text=lambda profile_name: [f"{profile_name} is removed."])


def _show_profiles(*, as_json: bool) -> None:
    show_result("profiles", _list(connect_gateway()), as_json=as_json, text=_list_lines)


def _list(client: GatewayClient) -> ProfileList:
    return client.get("/profiles", ProfileList)


def _read(client: GatewayClient, name: str) -> Profile:
    return client.get(f"/profiles/{quote_segment(name)}", Profile)


def _save(client: GatewayClient, request: SaveProfile, *, as_json: bool) -> None:
    show_result("profile", client.post("/profiles", request, Profile), as_json=as_json, text=_profile_lines)


def _switch(client: GatewayClient, request: UseProfile, *, plan_only: bool, wait: bool, as_json: bool) -> None:
    address = "/profile/plan" if plan_only else "/profile/use"
    plan = client.post(address, request, ProfilePlan, timeout_s=_SWITCH_S)
    _show_switch(client, plan, wait=wait and not plan_only, as_json=as_json)


def _show_switch(client: GatewayClient, plan: ProfilePlan, *, wait: bool, as_json: bool) -> None:
    problems = _wait_until_loaded(client) if wait else []
    show_result("switch", plan, as_json=as_json, text=_plan_lines)
    for problem in problems:
        print_note(problem)


def _wait_until_loaded(client: GatewayClient) -> list[str]:
    while (state := _list(client)).loading:
        time.sleep(_LOOK_S)
    return state.problems


def _parse_model(text: str, pins: Sequence[str], waiting_models: Sequence[str]) -> ProfileModel:
    """Return what a profile says of a model. Raises BadRequest."""
    name, equals, tokens = text.rpartition("=")
    if not equals:
        name, tokens = text, ""
    if tokens and not tokens.isdecimal():
        raise BadRequest(f"A context is a number of tokens, not {quote_value(tokens)}.", code="usage")
    context = int(tokens) if tokens else None
    return ProfileModel(model=name, is_loaded=name not in waiting_models, is_pinned=name in pins, context=context)


def _check_named(profile: Profile, names: Sequence[str]) -> None:
    for name in names:
        if profile.find_model(name) is None:
            raise BadRequest(
                f"{quote_value(name)} is none of the profile's models.", hint="Say --model too.", code="usage"
            )


def _refuse_without_models(pins: Sequence[str], waiting_models: Sequence[str]) -> None:
    if pins or waiting_models:
        raise BadRequest("--pin and --on-request are for models named by --model.", code="usage")


def _list_lines(state: ProfileList) -> Iterator[str]:
    if not state.profiles:
        print_note("There are no profiles. `roundhouse profiles save NAME` keeps what is loaded now as one.")
        return
    rows = [
        ("*" if profile.name == state.active else "", profile.name, _models_text(profile), format_hours(profile.hours))
        for profile in state.profiles
    ]
    yield from format_table(("", "PROFILE", "MODELS", "HOURS"), rows)
    if state.loading:
        print_note(f"Loading: {', '.join(state.loading)}.")
    for problem in state.problems:
        print_note(problem)
    if state.next_switch is not None:
        print_note(_switch_line(state.next_switch))


def _switch_line(switch: NextSwitch) -> str:
    at = time.strftime("%A %H:%M", time.localtime(switch.at))
    return (
        f"Next switch: {at}, to {switch.profile}." if switch.profile else f"Next switch: {at}, back to what was before."
    )


def _models_text(profile: Profile) -> str:
    return ", ".join(entry.model for entry in profile.models) or "as they are"


def _profile_lines(profile: Profile) -> Iterator[str]:
    yield profile.name
    for entry in profile.models:
        facts = [f"{entry.context} tokens"] if entry.context else []
        facts += ["pinned"] if entry.is_pinned else []
        facts += [] if entry.is_loaded else ["loaded on request"]
        yield f"  {entry.model}{': ' if facts else ''}{', '.join(facts)}"
    if not profile.models:
        yield "  models stay as they are"
    if profile.default:
        yield f"  auto: {profile.default}"
    yield from (f"  alias: {alias}" for alias in profile.aliases)
    if profile.hours:
        yield f"  hours: {format_hours(profile.hours)}"


def _plan_lines(plan: ProfilePlan) -> Iterator[str]:
    yield f"Profile {plan.profile}" if plan.profile else "No profile"
    yield from map(_step_line, plan.steps)
    yield from map(_pool_line, plan.pools)


def _step_line(step: ProfileStep) -> str:
    facts = [words.format_bytes(step.memory_bytes)] if step.memory_bytes else []
    facts += (
        [f"{step.context} tokens"] if step.context and step.action in {ProfileAction.LOAD, ProfileAction.RELOAD} else []
    )
    facts += (
        ["after its answers"] if step.is_busy and step.action in {ProfileAction.UNLOAD, ProfileAction.RELOAD} else []
    )
    facts += [step.reason] if step.reason else []
    return f"  {_ACTIONS[step.action]:<14} {step.model}{': ' if facts else ''}{', '.join(facts)}"


def _pool_line(pool: ProfilePool) -> str:
    before, after, limit = map(words.format_bytes, (pool.before_bytes, pool.after_bytes, pool.limit))
    return f"  {pool.name}: {before} -> {after} of {limit}"
