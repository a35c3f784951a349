"""Nothing that says whose computer it is survives redaction, and nothing that says what it can do is lost."""

import string
import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.redaction import PrivateNames, RecordRedactor, names_here

HEX = "0123456789abcdef"
PRIVATE = PrivateNames(users=["zqanna", "Anna Zqverba"], hosts=["zqanna-mbp.zqfritz.box", "zqanna-mbp"])

macs = st.lists(st.text(HEX, min_size=2, max_size=2), min_size=5, max_size=5).map(lambda rest: ":".join(["9c", *rest]))
ids = st.uuids(version=4).map(str)
serials = st.text(string.ascii_uppercase + string.digits, min_size=8, max_size=12).map("ZQ".__add__)
long_ids = st.uuids(version=4).map(lambda unique: 2 * unique.hex)


@st.composite
def secrets(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Return text as systems write it, and what of it must be gone."""
    mac, unique, serial, container = draw(macs), draw(ids), draw(serials), draw(long_ids)
    texts = {
        f"link/ether {mac} brd": [mac],
        f"{mac.replace(':', '-').upper()}": [mac.replace(":", "-")],
        f"GPU-{unique}": [unique],
        f"MIG-{unique}/1/0": [unique],
        unique.replace("-", ""): [unique.replace("-", "")],
        f"Serial\t\t: {serial}": [serial],
        f'"_spdisplays_display-serial-number" : "{serial}"': [serial],
        f"Serial Number (system): {serial}": [serial],
        f"0::/system.slice/docker-{container}.scope": [container],
        f"/kubepods/pod{unique.replace('-', '_')}/x": [unique.replace("-", "_")],
        f"/dev/disk/by-id/nvme-Samsung_SSD_{serial} on /": [serial],
        f"root=UUID={unique} ro": [unique],
        "/home/zqanna/models/a.gguf": ["zqanna"],
        "/Users/zqbert/Library": ["zqbert"],
        r"C:\Users\Zq Carla\AppData": ["Zq Carla"],
        r"c:\\Users\\zqdora\\x": ["zqdora"],
        "Linux version 6.8.0 (zqeva@zqlab) (gcc 13)": ["zqeva", "zqlab"],
        "ZQANNA-MBP kernel": ["zqanna-mbp"],
        "Anna Zqverba's Mac": ["Anna Zqverba"],
        "S-1-5-21-3623811015-3361044348-30300820-1013": ["3623811015"],
    }
    text = draw(st.sampled_from(sorted(texts)))
    return text, texts[text]


noise = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30)


@given(st.lists(secrets(), min_size=1, max_size=5), noise)
def test_no_secret_survives_in_any_table(secret_texts: list[tuple[str, list[str]]], around: str) -> None:
    texts = [text for text, _ in secret_texts]
    raw: dict[str, Any] = {
        "system": "linux",
        "files": {f"proc/{number}": f"{around}\n{text}\n{around}" for number, text in enumerate(texts)},
        "links": {f"sys/{number}/x": text for number, text in enumerate(texts)},
        "commands": {f"cat {text}": text for text in texts},
        "nvml": {"devices": [{"name": text, "more": [text]} for text in texts]},
    }
    redacted_text = msgspec.json.encode(RecordRedactor(PRIVATE).redact_value(raw)).decode().lower()
    for _, removed_texts in secret_texts:
        assert not [secret for secret in removed_texts if secret.lower() in redacted_text]


@given(ids, ids)
def test_an_id_is_the_same_everywhere_and_two_stay_two(first: str, second: str) -> None:
    redacted_record = RecordRedactor(PrivateNames()).redact_value(
        [f"GPU-{first}", first.replace("-", ""), f"GPU-{first[:8]}", f"GPU-{second}"]
    )
    whole, bare, short, other = redacted_record
    assert whole.removeprefix("GPU-").replace("-", "") == bare
    assert whole.startswith(short)
    assert (whole == other) is (first == second)
    assert str(uuid.UUID(whole.removeprefix("GPU-"))) in whole


@pytest.mark.parametrize(
    "text",
    [
        "0000:01:00.0",
        "00000000:C1:00.0",
        "NVIDIA GeForce RTX 4090",
        "32.0.15.7688",
        "0x00000000_0x0000d1b2",
        "0000000008000000",
        "/sys/class/drm/card0/device",
        "AMD Ryzen 9 7950X 16-Core Processor",
        r"PCI\VEN_10DE&DEV_2684&SUBSYS_16F310DE&REV_A1",
        "Pages free:   1234.",
        "hw.serialdebugmode: 0",
        "0::/user.slice/user-1000.slice",
    ],
)
def test_what_decides_what_a_machine_can_do_is_kept(text: str) -> None:
    assert RecordRedactor(PRIVATE).redact_value({"files": {"proc/x": text}, "nvml": [text]}) == {
        "files": {"proc/x": text},
        "nvml": [text],
    }


@pytest.mark.parametrize(
    "name", ["sys/class/drm/card0/device/unique_id", "proc/device-tree/serial-number", "etc/hostname"]
)
def test_a_file_that_is_an_id_becomes_a_stand_in_of_its_length(name: str) -> None:
    redacted_file = RecordRedactor(PrivateNames()).redact_value({"files": {name: "8c5b1f3e2a9d4c6f"}})["files"][name]
    assert redacted_file != "8c5b1f3e2a9d4c6f"
    assert len(redacted_file) == 16


def test_a_name_that_means_something_to_engines_is_no_secret() -> None:
    private = PrivateNames(users=["root", "amd", "al"], hosts=["localhost"])
    assert RecordRedactor(private).redact_value({"vendor": "amd", "x": "root al localhost"}) == {
        "vendor": "amd",
        "x": "root al localhost",
    }


def test_a_field_called_like_the_user_keeps_its_name() -> None:
    assert RecordRedactor(PrivateNames(users=["memory"])).redact_value({"memory": "of memory"}) == {
        "memory": "of someone"
    }


def test_this_computer_has_a_name() -> None:
    assert all(names_here().hosts)
