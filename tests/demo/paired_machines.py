"""Paired computers: one that answers with two models, one that sleeps."""

from app.core.machines import MachineCode, MachineList, MachineStanding, ModelLoad, NearbyMachine

DESK = MachineStanding(
    name="desk",
    fingerprint="70cd0aadd32af7726f1c0d7e9b2a4c5570cd0aadd32af7726f1c0d7e9b2a4c55",
    host="192.168.1.7",
    port=11643,
    mac="02:fc:00:00:00:01",
    paired_at=1_795_600_000.0,
    is_reachable=True,
    models=[
        ModelLoad(name="qwen3-30b-a3b@desk", is_loaded=True, in_flight=2, slots=4, tokens_per_s=118.4),
        ModelLoad(name="gpt-oss-20b-mxfp4@desk", load_s=6.5),
    ],
)
BOX = MachineStanding(
    name="box",
    fingerprint="b83e01c4f95d6a20b83e01c4f95d6a20b83e01c4f95d6a20b83e01c4f95d6a20",
    host="192.168.1.22",
    port=11643,
    mac="02:fc:00:00:00:02",
    paired_at=1_795_610_000.0,
    is_reachable=False,
    problem="It did not answer in time.",
)
DEN = NearbyMachine(
    name="den",
    fingerprint="5d0f77b2c94e18a35d0f77b2c94e18a35d0f77b2c94e18a35d0f77b2c94e18a3",
    host="192.168.1.31",
    port=11643,
)
LISTED = MachineList(
    name="laptop",
    fingerprint="3f91c2d84be0a6753f91c2d84be0a6753f91c2d84be0a6753f91c2d84be0a675",
    port=11643,
    machines=[BOX, DESK],
    nearby=[DEN],
)
CODE = MachineCode(code="5865-6106", seconds=300.0)


def machine_replies() -> dict[str, object]:
    """Return what the gateway answers about them."""
    return {
        "GET /machines": LISTED,
        "POST /machines": DESK,
        "POST /machines/code": CODE,
        "DELETE /machines/code": None,
        "POST /machines/wake": None,
        "DELETE /machines/box": None,
    }
