"""Profiles in pictures and tests of the window: one that is active, one for the night, one that leaves models alone."""

from app.core.profiles import (
    NextSwitch,
    Profile,
    ProfileAction,
    ProfileHours,
    ProfileList,
    ProfileModel,
    ProfilePlan,
    ProfilePool,
    ProfileStep,
    Weekday,
)

CODING = Profile(
    name="Coding",
    models=[
        ProfileModel(model="qwen3-8b-q4_k_m", is_pinned=True, context=65_536),
        ProfileModel(model="nomic-embed-text-v1.5", is_loaded=False),
    ],
    default="qwen3-8b-q4_k_m",
    aliases=["gpt-*=qwen3-8b-q4_k_m"],
)
NIGHT = Profile(
    name="Night batch",
    models=[ProfileModel(model="gpt-oss-20b-mxfp4")],
    hours=[ProfileHours(days=[Weekday.MONDAY, Weekday.TUESDAY], start="22:00", end="06:00")],
)
WRITING = Profile(name="Writing", aliases=["writer=auto"])
STATE = ProfileList(
    profiles=[CODING, NIGHT, WRITING],
    active="Coding",
    next_switch=NextSwitch(at=1_795_730_400.0, profile="Night batch"),
    can_undo=True,
)
GIB = 1 << 30
PLAN = ProfilePlan(
    profile="Night batch",
    steps=[
        ProfileStep(
            model="qwen3-8b-q4_k_m", action=ProfileAction.UNLOAD, memory_bytes=10 * GIB, context=65_536, is_busy=True
        ),
        ProfileStep(model="gpt-oss-20b-mxfp4", action=ProfileAction.LOAD, memory_bytes=13 * GIB, context=32_768),
    ],
    pools=[ProfilePool(name="NVIDIA GeForce RTX 4090", limit=23 * GIB, before_bytes=10 * GIB, after_bytes=13 * GIB)],
)


def profile_replies() -> dict[str, object]:
    """Return what the gateway answers about them."""
    return {
        "GET /profiles": STATE,
        "GET /profile/draft": Profile(name="new", models=CODING.models),
        "POST /profiles": CODING,
        "POST /profile/plan": PLAN,
        "POST /profile/use": PLAN,
        "POST /profile/undo": ProfilePlan(profile="Coding"),
        "DELETE /profiles/Writing": None,
    }
