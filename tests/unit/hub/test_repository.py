from collections.abc import Iterator

import pytest

from app.core.errors import BadRequest, NotFound, RoundhouseError, Unauthorized, Unavailable
from app.hub.repositories.repository import read_branches, read_repository, resolve_address
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub
from tests.range_server import Hub, serve_ranges

COMMIT = "0123456789" * 4


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serve_hub(FakeHub()) as served_hub:
        yield served_hub


def test_a_repository_is_read_with_sizes_hashes_and_its_commit(hub: FakeHub) -> None:
    stored_repository = hub.add(
        "org/model",
        {"config.json": b"{}", "model.safetensors": bytes(5000)},
        gated="manual",
        about={"tags": ["mlx"], "cardData": {"base_model": ["org/base"], "license": "mit"}, "library_name": "mlx"},
    )
    repository = read_repository(hub.url, "org/model")
    assert (repository.commit, repository.gated, repository.base_models, repository.licence) == (
        stored_repository.commit("main"),
        True,
        ["org/base"],
        "mit",
    )
    small, large = repository.find_file("config.json"), repository.find_file("model.safetensors")
    assert small is not None
    assert large is not None
    assert (small.size, small.sha256, small.etag) == (2, "", small.oid)
    assert (large.size, large.etag) == (5000, large.sha256)


def test_branches_are_listed_and_read_by_name(hub: FakeHub) -> None:
    hub.add("org/exl", {"README.md": b"#"}).branches["4.0bpw"] = {"config.json": b"{}"}
    assert read_branches(hub.url, "org/exl") == ["main", "4.0bpw"]
    assert [file.path for file in read_repository(hub.url, "org/exl", revision="4.0bpw").files] == ["config.json"]


@pytest.mark.parametrize(
    ("name", "revision", "kind"),
    [
        ("org/none", "", Unauthorized),
        ("org/model", "none", NotFound),
        ("org", "", BadRequest),
        ("a/b/../c", "", BadRequest),
    ],
)
def test_what_is_not_there_is_said(hub: FakeHub, name: str, revision: str, kind: type[RoundhouseError]) -> None:
    hub.add("org/model", {"config.json": b"{}"})
    with pytest.raises(kind):
        read_repository(hub.url, name, revision=revision)


def test_a_repository_that_is_not_there_is_named_with_what_may_help(hub: FakeHub) -> None:
    with pytest.raises(Unauthorized, match=r"There is no repository org/none at 127\.0\.0\.1, or it is private\."):
        read_repository(hub.url, "org/none")
    hub.is_frank = True
    for revision in ("", "4.0bpw"):
        with pytest.raises(NotFound, match=r"There is no repository org/none at 127\.0\.0\.1\.") as error:
            read_repository(hub.url, "org/none", revision=revision)
        assert error.value.code == "model_not_found"
        assert "spelling" in error.value.hint
        assert "private or gated" in error.value.hint


def test_a_revision_that_is_not_there_is_told_from_a_repository_that_is_not(hub: FakeHub) -> None:
    hub.add("org/exl", {"README.md": b"#"}).branches["4.0bpw"] = {"config.json": b"{}"}
    for is_frank in (False, True):
        hub.is_frank = is_frank
        with pytest.raises(NotFound, match=r"org/exl has no revision '5\.0bpw'") as error:
            read_repository(hub.url, "org/exl", revision="5.0bpw")
        assert (error.value.code, error.value.hint) == ("revision_not_found", "Its branches are main, 4.0bpw.")


def test_paths_that_lead_elsewhere_are_left_out(hub: FakeHub) -> None:
    wrong = ["../x.gguf", "a/../../x.gguf", "/etc/x.gguf", "a\\b.gguf", "c:x.gguf", "nul\x00.gguf", "dot./x", "a//b"]
    hub.add("org/model", {"fine/x.gguf": b"x", **dict.fromkeys(wrong, b"x")})
    assert [file.path for file in read_repository(hub.url, "org/model").files] == ["fine/x.gguf"]


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b"{}", b'{"sha": "x"}', b'{"sha": "%s", "siblings": [{"rfilename": "a"}]}' % COMMIT.encode()]
)
def test_an_answer_that_makes_no_sense_is_said(answer: bytes) -> None:
    with (
        serve_ranges(Hub(files={"/api/models/org/model/revision/main?blobs=true": answer})) as served_url,
        pytest.raises(Unavailable, match="could not be understood"),
    ):
        read_repository(served_url.url, "org/model")


def test_addresses_stay_within_the_repository() -> None:
    assert resolve_address("https://hub/", "org/model", COMMIT, "a b/c#d.gguf") == (
        f"https://hub/org/model/resolve/{COMMIT}/a%20b/c%23d.gguf"
    )
    for path in ("../x", "a/../x", "/x", ""):
        with pytest.raises(BadRequest):
            resolve_address("https://hub", "org/model", COMMIT, path)
    with pytest.raises(BadRequest):
        resolve_address("https://hub", "org/model", "main", "x")
