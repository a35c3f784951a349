"""What a release says of itself counts if a trusted key signed it, it is current, and it is no step back."""

import base64
import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.core.updates import InstallationKind
from app.updates.manifest import (
    KEYS_FILE,
    MAX_FILE_BYTES,
    SignedManifest,
    UpdateManifest,
    UpdateRefused,
    check_current,
    check_no_downgrade,
    file_address,
    is_final,
    read_trusted_keys,
    verify_manifest,
    version_order,
)
from tests.range_server import Hub
from tests.releases import DAY, HOST, NOW, Publisher

PACKAGE = {"roundhouse_0.2.0_amd64.deb": b"a package"}


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path, Hub())


def sign_document(publisher: Publisher, document: dict[str, Any], *keys: Ed25519PrivateKey) -> SignedManifest:
    content = json.dumps(document).encode()
    signatures = [base64.b64encode(key.sign(content)).decode() for key in keys or (publisher.key,)]
    return SignedManifest(content=content, signatures="\n".join(signatures))


def read(publisher: Publisher, **changes: object) -> UpdateManifest:
    document = {**publisher.document("0.2.0", PACKAGE), **changes}
    return verify_manifest(sign_document(publisher, document), read_trusted_keys(publisher.keys_file))


def refusal(publisher: Publisher, **changes: object) -> str:
    with pytest.raises(UpdateRefused) as error:
        read(publisher, **changes)
    return error.value.code


def test_what_a_trusted_key_signed_is_read(publisher: Publisher) -> None:
    data = read(publisher)
    assert (data.version, data.channel, data.issued) == ("0.2.0", "stable", NOW)
    file = data.find_file(InstallationKind.DEB, HOST.platform, HOST.architecture)
    assert file is not None
    assert (file.name, file.size) == ("roundhouse_0.2.0_amd64.deb", 9)
    assert data.find_file(InstallationKind.EXE, HOST.platform, HOST.architecture) is None
    assert file_address("https://example.org/updates/stable.json", file) == f"https://example.org/updates/{file.name}"


def test_a_changed_byte_and_a_stranger_s_key_are_refused(publisher: Publisher) -> None:
    good = sign_document(publisher, publisher.document("0.2.0"))
    tampered_manifest = SignedManifest(content=good.content.replace(b"better", b"worse!"), signatures=good.signatures)
    stranger = sign_document(publisher, publisher.document("0.2.0"), Ed25519PrivateKey.generate())
    unsigned_manifest = SignedManifest(content=good.content, signatures="no signature at all\n\n")
    for wrong in (tampered_manifest, stranger, unsigned_manifest):
        with pytest.raises(UpdateRefused) as error:
            verify_manifest(wrong, read_trusted_keys(publisher.keys_file))
        assert error.value.code == "update_signature"
        assert error.value.status == 409


def test_keys_are_changed_by_signing_with_both(publisher: Publisher) -> None:
    old, new = publisher.key, Ed25519PrivateKey.generate()
    both = sign_document(publisher, publisher.document("0.2.0"), new, old)
    assert verify_manifest(both, read_trusted_keys(publisher.keys_file)).version == "0.2.0"
    own = publisher.keys_file.with_name("own.txt")
    own.write_text(base64.b64encode(new.public_key().public_bytes_raw()).decode())
    with_both_keys = read_trusted_keys(publisher.keys_file, own)
    assert len(with_both_keys) == 2
    assert (
        verify_manifest(sign_document(publisher, publisher.document("0.3.0"), new), with_both_keys).version == "0.3.0"
    )


def test_lines_that_are_no_key_are_no_key(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.write_text(f"# nothing\n\nnonsense\n{base64.b64encode(bytes(31)).decode()}\n")
    assert read_trusted_keys(file, tmp_path / "nothing") == ()


def test_the_keys_that_ship_are_keys() -> None:
    lines = KEYS_FILE.read_text(encoding="utf-8").splitlines()
    keys = [line for line in lines if line.strip() and not line.startswith("#")]
    assert len(read_trusted_keys(KEYS_FILE)) == len(keys)


@pytest.mark.parametrize(
    "changes",
    [
        {"purpose": "catalogue"},
        {"version": "../../etc"},
        {"version": "1"},
        {"issued": "2026-11-21T00:00:00"},
        {"expires": "tomorrow"},
        {"notes": "x" * 70_000},
        {"files": "none"},
    ],
)
def test_what_is_signed_and_makes_no_sense_is_refused(publisher: Publisher, changes: dict[str, object]) -> None:
    assert refusal(publisher, **changes) == "update_unreadable"


def test_a_newer_form_is_refused_with_what_to_do(publisher: Publisher) -> None:
    with pytest.raises(UpdateRefused, match="does not know") as error:
        read(publisher, format=2)
    assert "by hand" in error.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "https://example.org/.."},
        {"url": "https://example.org/"},
        {"url": "https://example.org/a b"},
        {"sha256": "0" * 63},
        {"size": 0},
        {"size": MAX_FILE_BYTES + 1},
        {"kind": "exe2"},
    ],
)
def test_a_file_that_cannot_be_is_refused(publisher: Publisher, changes: dict[str, object]) -> None:
    (usual,) = publisher.document("0.2.0", PACKAGE)["files"]
    assert refusal(publisher, files=[{**usual, **changes}]) == "update_unreadable"


def test_a_description_counts_for_its_channel_and_its_time(publisher: Publisher) -> None:
    data = read(publisher)
    check_current(data, "stable", NOW)
    with pytest.raises(UpdateRefused, match="for the channel beta"):
        check_current(data, "beta", NOW)
    with pytest.raises(UpdateRefused, match="counted until") as error:
        check_current(data, "stable", NOW + 31 * DAY)
    assert error.value.code == "update_expired"
    assert "clock" in error.value.hint


def test_a_step_back_is_refused(publisher: Publisher) -> None:
    data = read(publisher)
    for known_version in ("0.1.9", "0.2.0rc1", "0.2", "0.2.0"):
        check_no_downgrade(data, known_version)
    for known_version, issue_time in (("0.2.1", NOW), ("0.10.0", NOW), ("0.2.0", NOW + dt.timedelta(seconds=1))):
        with pytest.raises(UpdateRefused) as error:
            check_no_downgrade(data, known_version, issue_time)
        assert error.value.code == "update_downgrade"


def test_versions_are_in_order() -> None:
    versions = [
        "0.1",
        "0.2.0a1",
        "0.2.0b1",
        "0.2.0b2",
        "0.2.0rc1",
        "0.2.0rc10",
        "0.2",
        "0.2.0.1",
        "0.2.1",
        "0.10.0",
        "1.0",
    ]
    assert sorted(versions, key=version_order) == versions
    assert version_order("1.0.0") == version_order("1.0")
    assert [is_final(version) for version in ("0.2.0", "0.2.0rc1")] == [True, False]
