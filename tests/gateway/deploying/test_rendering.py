"""Files for clusters: by the schemas of what reads them, the flags of what is started, and what they may not hold."""

import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from app.core.deployments import TARGETS, DeploymentRequest
from app.core.errors import BadRequest
from app.engine_store.recipe import read_recipes
from app.gateway.deploying.rendering import render_deployment, stable_versions
from app.gateway.deploying.yaml_writing import Node, Remark, write_documents

VERSIONS = stable_versions(read_recipes())
COMPOSE_SCHEMA = json.loads(
    files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text(encoding="utf-8")
)
STRAY_DOLLAR = re.compile(r"\$\w+|\$\{[^}]*\}|\$")
CUSTOM = "DynamoGraphDeployment"
HELP = Path(__file__).resolve().parents[2] / "fixtures" / "engine_help"


def render_texts(**fields: Any) -> dict[str, str]:  # noqa: ANN401 -- fields of the request
    request = DeploymentRequest(**{"model": "Qwen/Qwen3-8B", "context": 32_768, **fields})
    return {file.name: file.text for file in render_deployment(request, VERSIONS).files}


def render_documents(**fields: Any) -> list[Any]:  # noqa: ANN401 -- as above
    return [entry for text in render_texts(**fields).values() for entry in yaml.safe_load_all(text)]


def render_objects(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- as above
    """Return objects by their kind; of the two Services, the router's."""
    return {entry["kind"]: entry for entry in render_documents(**fields)}


def container_of(entry: Any) -> Any:  # noqa: ANN401 -- parsed YAML
    (container,) = entry["spec"]["template"]["spec"]["containers"]
    return container


@pytest.mark.parametrize("cards", [1, 4])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "dynamo"])
def test_kubernetes_own_schemas_take_every_object_and_know_every_field(engine: str, cards: int) -> None:
    documents = render_documents(engine=engine, cards=cards)
    standard = [entry for entry in documents if entry["kind"] != CUSTOM]
    for entry in standard:
        kubernetes_validate.validate(entry, kubernetes_validate.latest_version(), strict=True)
    assert (len(standard), len(documents)) == ((1, 2) if engine == "dynamo" else (9, 9))


def test_the_schemas_refuse_a_field_that_kubernetes_does_not_know() -> None:
    """What the test above rests on."""
    entry = render_objects()["StatefulSet"]
    container_of(entry)["livenessProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(entry, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("cards", [1, 2])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_compose_specification_takes_the_file(engine: str, cards: int) -> None:
    document = yaml.safe_load(render_texts(engine=engine, target="compose", cards=cards)["compose.yaml"])
    jsonschema.Draft202012Validator(COMPOSE_SCHEMA).validate(document)
    document["services"]["router"]["imagee"] = "x"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(COMPOSE_SCHEMA).validate(document)


def find_compose_problems(document: Any) -> list[str]:  # noqa: ANN401 -- parsed YAML
    """Return what Compose's own program refuses and its schema does not: what is named and not there, stray dollars."""
    services, volumes = document["services"], document.get("volumes", {})
    problems = []
    for name, service in services.items():
        sources = [entry.partition(":")[0] for entry in service.get("volumes", ())]
        problems += [f"{name}: volume {volume}" for volume in sources if not volume.startswith(("/", ".", *volumes))]
        problems += [f"{name}: depends on {other}" for other in service.get("depends_on", {}) if other not in services]
    words = yaml.safe_dump(document).replace("$$", "")
    return [*problems, *(f"interpolated: {word}" for word in STRAY_DOLLAR.findall(words))]


@pytest.mark.parametrize("cards", [1, 2])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_everything_that_a_compose_file_names_is_in_it(engine: str, cards: int) -> None:
    document = yaml.safe_load(render_texts(engine=engine, target="compose", cards=cards, replicas=2)["compose.yaml"])
    assert not find_compose_problems(document)
    worker = document["services"]["worker-1"]
    worker["volumes"], worker["command"] = ["elsewhere:/models"], ["$KEY", "$$0", "${MORE}"]
    document["services"]["router"]["depends_on"]["worker-7"] = {"condition": "service_healthy"}
    assert len(find_compose_problems(document)) == 4


COMPOSE = shutil.which("docker-compose")


@pytest.mark.skipif(COMPOSE is None, reason="Compose's own program is not here")
@pytest.mark.parametrize("cards", [1, 2])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_compose_s_own_program_reads_the_file(engine: str, cards: int, tmp_path: Path) -> None:
    """It needs no daemon for that, and says the file as it understands it."""
    assert COMPOSE is not None
    text = render_texts(engine=engine, target="compose", cards=cards, replicas=2)["compose.yaml"]
    (tmp_path / "compose.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "secrets.env").write_text("FLEET_API_KEY=sk-fleet\nVLLM_API_KEY=sk-vllm\n", encoding="utf-8")
    result = subprocess.run([COMPOSE, "config"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not result.returncode, result.stderr
    assert "level=" not in result.stderr
    services, compose_services = yaml.safe_load(text)["services"], yaml.safe_load(result.stdout)["services"]
    assert services.keys() == compose_services.keys()
    for name, service in compose_services.items():
        assert service["environment"].items() >= {"FLEET_API_KEY": "sk-fleet", "VLLM_API_KEY": "sk-vllm"}.items()
        assert service["command"] == services[name]["command"], "every word reaches the container as it stands"


def test_replicas_share_no_card_and_the_router_names_each() -> None:
    document = yaml.safe_load(render_texts(target="compose", replicas=3, cards=2)["compose.yaml"])
    services = document["services"]
    workers = {name: entry for name, entry in services.items() if name != "router"}
    devices = [entry["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"] for entry in workers.values()]
    assert devices == [["0", "1"], ["2", "3"], ["4", "5"]]
    assert [f"http://{name}:8000" for name in workers] == [
        word for word in services["router"]["command"] if word.startswith("http://")
    ]
    assert not any("ports" in entry for entry in workers.values())


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_router_looks_for_the_pods_that_there_are(engine: str) -> None:
    objects = render_objects(engine=engine, name="team")
    labels = objects["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    words = container_of(objects["Deployment"])["args"]
    at = words.index("--selector")
    assert words[at + 1 : at + 3] == [f"{name}={text}" for name, text in labels.items()]
    (port,) = container_of(objects["StatefulSet"])["ports"]
    assert words[words.index("--service-discovery-port") + 1] == str(port["containerPort"])
    (rule,) = objects["Role"]["rules"]
    assert (rule["resources"], rule["verbs"]) == (["pods"], ["get", "list", "watch"])
    (peer,) = objects["NetworkPolicy"]["spec"]["ingress"][0]["from"]
    router_labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert peer["podSelector"]["matchLabels"] == router_labels == objects["Service"]["spec"]["selector"]


def test_engines_are_given_what_their_own_tables_say() -> None:
    words = {
        engine: container_of(render_objects(engine=engine, cards=2)["StatefulSet"])["args"]
        for engine in ("vllm", "sglang")
    }
    assert words["vllm"][:2] == ["serve", "Qwen/Qwen3-8B"]
    assert words["vllm"][-6:] == [
        *("--max-model-len", "32768", "--tensor-parallel-size", "2"),
        *("--shutdown-timeout", "120"),
    ]
    assert words["sglang"][:2] == ["--model-path", "Qwen/Qwen3-8B"]
    assert words["sglang"][-6:] == ["--context-length", "32768", "--tp-size", "2", "--api-key", "$(FLEET_API_KEY)"]
    for arguments in words.values():
        assert arguments[arguments.index("--served-model-name") + 1] == "qwen3-8b"
        assert "engines.foreign_worker" not in arguments


def flags_of_words(container: Any) -> set[str]:  # noqa: ANN401 -- parsed YAML
    return {word for word in container["args"] if word.startswith("-")}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_versions_in_the_images_have_every_flag(engine: str) -> None:
    """By what the help of just these versions explained."""
    record = json.loads((HELP / f"{engine}-{VERSIONS[engine]}.json").read_bytes())
    rendered_flags = flags_of_words(container_of(render_objects(engine=engine, cards=2)["StatefulSet"]))
    assert rendered_flags <= set(record["flags"])


def test_dynamos_version_has_every_flag_of_both_programs() -> None:
    record = json.loads((HELP / f"dynamo-{VERSIONS['dynamo']}.json").read_bytes())
    frontend, worker = render_objects(engine="dynamo", cards=2)[CUSTOM]["spec"]["services"].values()
    assert flags_of_words(frontend["extraPodSpec"]["mainContainer"]) <= set(record["frontend_flags"])
    assert flags_of_words(worker["extraPodSpec"]["mainContainer"]) <= set(record["flags"])


def test_a_graph_of_dynamo_has_its_frontend_and_workers_on_one_plane() -> None:
    graph = render_objects(engine="dynamo", cards=2, replicas=5)[CUSTOM]
    frontend, worker = graph["spec"]["services"].values()
    for service in (frontend, worker):
        words = service["extraPodSpec"]["mainContainer"]["args"]
        assert words[words.index("--discovery-backend") + 1] == "kubernetes"
    assert (worker["replicas"], worker["resources"]["limits"]["gpu"]) == (5, "2")
    (claim,) = graph["spec"]["pvcs"]
    assert worker["volumeMounts"][0]["name"] == claim["name"]
    assert worker["sharedMemory"] == {"size": "8Gi"}
    assert "sharedMemory" not in render_objects(engine="dynamo")[CUSTOM]["spec"]["services"]["VllmWorker"]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "dynamo"])
def test_images_have_the_versions_that_are_installed_here_and_go_online(engine: str) -> None:
    text = "\n".join(render_texts(engine=engine).values())
    assert VERSIONS[engine] in text
    assert "latest" not in text
    assert "OFFLINE" not in text
    assert "SGL_FORCE_SHUTDOWN" not in text
    assert "PYTHONPATH" not in text


@pytest.mark.parametrize(
    ("engine", "target"), [("vllm", "kubernetes"), ("sglang", "kubernetes"), ("vllm", "compose"), ("sglang", "compose")]
)
def test_keys_are_references(engine: str, target: str) -> None:
    for text in render_texts(engine=engine, target=target).values():
        for document in yaml.safe_load_all(text):
            for key, value in scalars_of(document):
                assert key not in {"VLLM_API_KEY", "FLEET_API_KEY", "HF_TOKEN"}, "a variable with its value"
                if "API_KEY" in str(value) and key != "name":
                    assert "$(" in value or "$$" in value
    if target == "kubernetes":
        env = container_of(render_objects(engine=engine)["StatefulSet"])["env"]
        assert [entry["name"] for entry in env if "valueFrom" in entry] == [
            {"vllm": "VLLM_API_KEY", "sglang": "FLEET_API_KEY"}[engine],
            "HF_TOKEN",
        ]


def scalars_of(node: Any, key: str = "") -> list[tuple[str, Any]]:  # noqa: ANN401 -- parsed YAML
    if isinstance(node, dict):
        return [pair for name, value in node.items() for pair in scalars_of(value, name)]
    if isinstance(node, list):
        return [pair for value in node for pair in scalars_of(value, key)]
    return [(key, node)]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_pod_has_time_to_load_and_to_finish(engine: str) -> None:
    pod = render_objects(engine=engine, cards=2)["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    probe = container["startupProbe"]
    assert probe["failureThreshold"] * probe["periodSeconds"] == 3600
    assert {container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")} == {
        "/health"
    }
    wait = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > wait + 120
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/models", "/dev/shm"}  # noqa: S108 -- a path in the container
    assert render_objects(engine=engine)["StatefulSet"]["spec"]["template"]["spec"].get("volumes") is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": "qwen3"}, "is not a repository"),
        ({"model": "../etc/passwd"}, "is not a repository"),
        ({"model": "a/b\nkind: Pod"}, "is not a repository"),
        ({"model": "a/$(KEY)"}, "is not a repository"),
        ({"engine": "ollama"}, "vllm or sglang or dynamo"),
        ({"target": "nomad"}, "kubernetes or compose, not"),
        ({"engine": "dynamo", "target": "compose"}, "target of dynamo can be kubernetes, not"),
        ({"replicas": 0}, "replicas can be 1 to 1000"),
        ({"replicas": 65, "target": "compose"}, "replicas can be 1 to 64"),
        ({"cards": 17}, "cards can be 1 to 16"),
        ({"context": 0}, "context can be"),
        ({"disk_gib": -1}, "disk_gib can be"),
        ({"name": "Team"}, "cannot be the name"),
        ({"name": "a" * 41}, "cannot be the name"),
        ({"model": "owner/123"}, "cannot be the name"),
    ],
)
def test_what_cannot_be_written_is_a_sentence(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        render_texts(**fields)


@pytest.mark.parametrize(
    ("model", "name"),
    [("Qwen/Qwen3-8B", "qwen3-8b"), ("a/01-ai_Yi.1.5", "ai-yi-1-5"), ("a/" + "x" * 90, "x" * 40), ("a/b-", "b")],
)
def test_a_name_is_made_from_the_repository(model: str, name: str) -> None:
    assert render_deployment(DeploymentRequest(model=model), VERSIONS).name == name


def test_texts_come_back_from_yaml_as_they_were() -> None:
    words = ["no", "y", "1e3", "null", "", " x", "a: b", "#", "- a", "*a", '"', "\\", "é\t", "0x1", "~", "a/b", "1:30"]
    node: Node = {"words": [Remark(word, "Why.\nAnd more.") for word in words], "flag": False, "none": [], "count": 3}
    text = write_documents("A heading.", [node, {"deep": [{"a": [[1, 2], ["x"]]}, {"b": Remark({}, "Empty.")}]}])
    assert list(yaml.safe_load_all(text)) == [
        {"words": words, "flag": False, "none": [], "count": 3},
        {"deep": [{"a": [[1, 2], ["x"]]}, {"b": {}}]},
    ]
    assert text.count("# Why.") == len(words)


def test_every_target_that_is_listed_can_be_written() -> None:
    pairs = [(engine, target) for engine, targets in TARGETS.items() for target in targets]
    assert all(render_texts(engine=engine, target=target) for engine, target in pairs)
