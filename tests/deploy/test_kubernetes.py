"""The manifests fit the code: as they are written, and as kustomize puts them together."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from benchmarks.capacity import MEMORY_BYTES
from schemas.topics import TOPICS
from streams.main.command_line import app
from streams.stage.flow.takeover import DEDUPLICATOR_GROUP
from streams.stage.flow.writer import WRITER_GROUP
from streams.store.app.settings import Settings, descriptions, load

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
BASE = KUBERNETES / "base"
EXAMPLE = KUBERNETES / "overlays" / "example"
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
ROLES = ("deduplicator", "writer")
GROUPS = {"deduplicator": DEDUPLICATOR_GROUP, "writer": WRITER_GROUP}
READS = {"deduplicator": "memory.events", "writer": "memory.decisions"}
LABEL = "app.kubernetes.io/"
OVERLAY_BYTES = 7 * 1_024
"""What a memory that waits takes, at most (streams/stage/flow/partition_owner.py)."""

Object = dict[str, Any]


def _read(file: Path) -> list[Object]:
    return [one for one in yaml.safe_load_all(file.read_text("utf-8")) if one]


def _kustomization(folder: Path) -> Object:
    [found] = _read(folder / "kustomization.yaml")
    return found


def _config(folder: Path) -> dict[str, str]:
    [made] = _kustomization(folder)["configMapGenerator"]
    return dict(line.split("=", 1) for line in made["literals"])


def _written() -> list[Object]:
    """Return the base as it is written, with the ConfigMap that its generator makes."""
    files = _kustomization(BASE)["resources"]
    config: Object = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "memsieve"},
        "data": _config(BASE),
    }
    return [config, *(one for file in files for one in _read(BASE / file))]


def _built(folder: Path) -> list[Object]:
    """Return what kustomize makes of a folder; skips where there is none."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not on the PATH: the manifests are checked as they are written")
    done = subprocess.run(
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


@pytest.fixture(
    params=[
        "written",
        pytest.param("base", marks=pytest.mark.process),
        pytest.param("example", marks=pytest.mark.process),
    ]
)
def objects(request: pytest.FixtureRequest) -> list[Object]:
    """Return the manifests: as written, and as built of the base and of the example."""
    if request.param == "written":
        return _written()
    return _built(BASE if request.param == "base" else EXAMPLE)


def _of(objects: list[Object], kind: str, name: str | None = None) -> Object:
    [found] = [
        one for one in objects if one["kind"] == kind and name in {None, one["metadata"]["name"]}
    ]
    return found


def _templates(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """Yield every template of pods, by the name of what it belongs to."""
    for one in objects:
        if "template" in one.get("spec", {}):
            yield one["metadata"]["name"], one["spec"]["template"]


def _containers(objects: list[Object]) -> Iterator[Object]:
    for name, template in _templates(objects):
        spec = template["spec"]
        containers = [*spec["containers"], *spec.get("initContainers", [])]
        assert containers, name
        yield from containers


def test_every_file_is_a_part_of_what_is_built() -> None:
    for folder in (BASE, EXAMPLE):
        listed = {"kustomization.yaml", *_kustomization(folder)["resources"]} - {"../../base"}
        assert listed == {file.name for file in folder.iterdir()}


def test_there_is_all_that_runs(objects: list[Object]) -> None:
    kinds = [one["kind"] for one in objects]
    counted = {kind: kinds.count(kind) for kind in kinds}
    expected = {
        "ConfigMap": 1,
        "ServiceAccount": 1,
        "Job": 1,
        "Deployment": 2,
        "ScaledObject": 2,
        "PodDisruptionBudget": 2,
        "NetworkPolicy": 1,
    }
    assert expected.items() <= counted.items()
    assert set(counted) <= {*expected, "Namespace", "TriggerAuthentication"}
    names = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(set(names)) == len(names)


def test_a_container_can_do_no_more_than_it_must(objects: list[Object]) -> None:
    containers = list(_containers(objects))
    assert len(containers) == 3
    for container in containers:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108
    user = re.search(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    assert user is not None
    for _, template in _templates(objects):
        spec = template["spec"]
        assert spec["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": int(user[1]),
            "runAsGroup": int(user[2]),
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert spec["automountServiceAccountToken"] is False
        assert spec["serviceAccountName"] == _of(objects, "ServiceAccount")["metadata"]["name"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        [volume] = spec["volumes"]
        assert volume["name"] == "tmp"
        assert volume["emptyDir"]["sizeLimit"]


def test_a_service_of_the_namespace_becomes_no_setting(objects: list[Object]) -> None:
    """A Service named memsieve-x would put MEMSIEVE_X_PORT there, which is refused at the start."""
    for _, template in _templates(objects):
        assert template["spec"]["enableServiceLinks"] is False


def test_every_variable_is_a_setting(objects: list[Object]) -> None:
    known = {f"MEMSIEVE_{name.upper().replace('.', '__')}" for name in descriptions()}
    config = _of(objects, "ConfigMap")
    named = set(config["data"])
    for container in _containers(objects):
        assert container["envFrom"] == [{"configMapRef": {"name": config["metadata"]["name"]}}]
        named |= {one["name"] for one in container["env"]}
    assert named <= known
    assert len(named) > 8


def test_secrets_are_taken_by_reference_and_never_written(objects: list[Object]) -> None:
    secret = re.compile(r"PASSWORD|KEY$")
    assert not [name for name in _of(objects, "ConfigMap")["data"] if secret.search(name)]
    assert not [one for one in objects if one["kind"] == "Secret"]
    for container in _containers(objects):
        for one in container["env"]:
            assert "value" not in one
            if secret.search(one["name"]):
                assert one["valueFrom"]["secretKeyRef"]["name"] == "memsieve"


def test_the_settings_can_be_used(
    objects: list[Object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = _settings(objects, monkeypatch, tmp_path)
    assert settings.index.kind == "qdrant"
    assert settings.service.host == "0.0.0.0"  # noqa: S104 - the pod's own network
    assert (settings.kafka.prefix, settings.kafka.run) == ("", "")  # the groups below have none


def _settings(objects: list[Object], monkeypatch: pytest.MonkeyPatch, directory: Path) -> Settings:
    monkeypatch.chdir(directory)
    for name in descriptions():
        monkeypatch.delenv(f"MEMSIEVE_{name.upper().replace('.', '__')}", raising=False)
    monkeypatch.delenv("MEMSIEVE_CONFIG", raising=False)
    for name, value in _of(objects, "ConfigMap")["data"].items():
        monkeypatch.setenv(name, value)
    return load({})


def test_the_commands_exist(objects: list[Object]) -> None:
    for container in _containers(objects):
        assert "command" not in container  # the image's own: memsieve
        command: Any = get_command(app)
        words: list[str] = list(container["args"])
        while children := getattr(command, "commands", {}):
            command = children[words.pop(0)]
        with command.make_context("memsieve", words) as context:  # refuses an unknown option
            assert context.params.get("partitions") in {None, 6}


def test_the_image_is_that_of_the_project(objects: list[Object]) -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    image: str = compose["services"]["writer"]["image"]
    for container in _containers(objects):
        assert container["image"].rpartition("/")[2] == image


def test_labels_and_selectors_meet(objects: list[Object]) -> None:
    for name, template in _templates(objects):
        labels = template["metadata"]["labels"]
        assert labels[f"{LABEL}part-of"] == "memsieve"
        assert name == f"memsieve-{labels[f'{LABEL}component']}"
        policy = _of(objects, "NetworkPolicy")["spec"]
        assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    for role in ROLES:
        deployment = _of(objects, "Deployment", f"memsieve-{role}")["spec"]
        labels = deployment["template"]["metadata"]["labels"]
        assert labels[f"{LABEL}component"] == role
        selectors = [
            deployment["selector"]["matchLabels"],
            _of(objects, "PodDisruptionBudget", f"memsieve-{role}")["spec"]["selector"][
                "matchLabels"
            ],
            deployment["template"]["spec"]["topologySpreadConstraints"][0]["labelSelector"][
                "matchLabels"
            ],
        ]
        for selector in selectors:
            assert selector.items() <= labels.items()
            assert selector[f"{LABEL}component"] == role
        [container] = deployment["template"]["spec"]["containers"]
        assert (container["name"], container["args"]) == (role, ["service", role])


def test_probes_ask_what_is_served(
    objects: list[Object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    served = (ROOT / "streams" / "services" / "world" / "health.py").read_text("utf-8")
    port = _settings(objects, monkeypatch, tmp_path).service.port
    for role in ROLES:
        deployment = _of(objects, "Deployment", f"memsieve-{role}")
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        assert container["ports"] == [{"name": "health", "containerPort": port}]
        paths = {"startupProbe": "/live", "livenessProbe": "/live", "readinessProbe": "/ready"}
        for probe, path in paths.items():
            assert container[probe]["httpGet"] == {"path": path, "port": "health"}
            assert f'("{path}", ' in served
        # Kafka and the index are asked one after the other, each for up to 2 s.
        assert container["readinessProbe"]["timeoutSeconds"] > 4
    [metrics] = _of(objects, "NetworkPolicy")["spec"]["ingress"]
    assert metrics["ports"] == [{"protocol": "TCP", "port": "health"}]


def test_a_process_has_time_to_end(
    objects: list[Object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its batch, and then the group's member, may each take as long as the drain."""
    drain = _settings(objects, monkeypatch, tmp_path).service.drain_seconds
    for role in ROLES:
        spec = _of(objects, "Deployment", f"memsieve-{role}")["spec"]["template"]["spec"]
        assert spec["terminationGracePeriodSeconds"] > 2 * drain


def test_processes_come_and_go_with_the_records_that_wait(objects: list[Object]) -> None:
    job = _of(objects, "Job")["spec"]["template"]["spec"]["containers"][0]["args"]
    partitions = int(job[job.index("--partitions") + 1])
    for role in ROLES:
        assert "replicas" not in _of(objects, "Deployment", f"memsieve-{role}")["spec"]
        scaled = _of(objects, "ScaledObject", f"memsieve-{role}")["spec"]
        assert scaled["scaleTargetRef"]["name"] == f"memsieve-{role}"
        assert scaled["minReplicaCount"] == 1
        assert scaled["maxReplicaCount"] == partitions
        [trigger] = scaled["triggers"]
        assert trigger["type"] == "kafka"
        asked = trigger["metadata"]
        assert asked["consumerGroup"] == GROUPS[role]
        assert asked["topic"] == READS[role]
        assert asked["topic"] in {topic.name for topic in TOPICS}
        assert asked["bootstrapServersFromEnv"] in _of(objects, "ConfigMap")["data"]
        budget = _of(objects, "PodDisruptionBudget", f"memsieve-{role}")["spec"]
        assert budget["maxUnavailable"] == 1


def test_what_goes_out_is_what_the_settings_name(
    objects: list[Object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = _settings(objects, monkeypatch, tmp_path)
    assert settings.kafka.bootstrap is not None
    url = re.search(r":(\d+)$", settings.qdrant.url)
    assert url is not None
    wanted = {int(server.rpartition(":")[2]) for server in settings.kafka.bootstrap.split(",")}
    wanted |= {int(url[1]), settings.qdrant.grpc_port}
    policy = _of(objects, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    open_ports = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert wanted <= open_ports
    assert open_ports == {53, 9092, 9093, 6333, 6334}


def test_resources_are_what_was_measured(objects: list[Object]) -> None:
    """The table reckons a writer as half of a deduplicator, and memories at what they take."""
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    row = re.search(r"^\| 10 \| 6 \| 1 \| 1 \| 2 \| ([\d.]+) \|$", page, re.MULTILINE)
    assert row is not None
    assert "with 1,000,000 memories" in page
    measured = (float(row[1]) * 2**30 - 1_000_000 * MEMORY_BYTES) / 1.5
    waiting = Settings().service.overlay_memories_max * OVERLAY_BYTES
    for role, base, full in (("deduplicator", measured, waiting), ("writer", measured / 2, 0)):
        deployment = _of(objects, "Deployment", f"memsieve-{role}")
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        resources = container["resources"]
        assert base < _bytes(resources["requests"]["memory"]) < 2 * base
        assert base + full < _bytes(resources["limits"]["memory"]) < 3 * (base + full)
    [threads] = [one for one in _env(objects, "deduplicator") if "THREADS" in one["name"]]
    # The process sees the cores of the node and would start a thread for each.
    source = {"containerName": "deduplicator", "resource": "limits.cpu"}
    assert threads["valueFrom"]["resourceFieldRef"].items() >= source.items()


def _env(objects: list[Object], role: str) -> list[Object]:
    deployment = _of(objects, "Deployment", f"memsieve-{role}")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return container["env"]


def _bytes(quantity: str) -> int:
    units = {"Mi": 2**20, "Gi": 2**30}
    return int(quantity[:-2]) * units[quantity[-2:]]


def test_the_page_makes_the_secret_that_the_processes_take() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")
    made = set(re.findall(r"--from-(?:literal|file)=([\w-]+)", page))
    taken = {
        one["valueFrom"]["secretKeyRef"]["key"]
        for container in _containers(_written())
        for one in container["env"]
        if "secretKeyRef" in one["valueFrom"]
    }
    assert made == taken
    assert "create secret generic memsieve " in page


def test_what_the_page_names_is_there() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")
    paths = set(re.findall(r"deploy/kubernetes/[\w/.-]+", page))
    assert len(paths) > 1
    assert [path for path in paths if not (ROOT / path).exists() and "mine" not in path] == []
    names = {f"{one['kind'].lower()}/{one['metadata']['name']}" for one in _written()}
    named = set(re.findall(r"\b(?:deployment|job)/[\w-]+", page))
    assert named
    assert named <= names


@pytest.mark.process
def test_the_example_logs_in_where_its_processes_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    objects = _built(EXAMPLE)
    settings = _settings(objects, monkeypatch, tmp_path)
    assert settings.kafka.mechanism == "SCRAM-SHA-512"
    assert settings.kafka.tls
    login = _of(objects, "TriggerAuthentication")
    [name] = login["spec"]["env"]
    assert name["name"] in _of(objects, "ConfigMap")["data"]
    [password] = login["spec"]["secretTargetRef"]
    theirs = next(one for one in _env(objects, "writer") if "PASSWORD" in one["name"])
    ours = theirs["valueFrom"]["secretKeyRef"]
    assert (password["name"], password["key"]) == (ours["name"], ours["key"])
    for role in ROLES:
        [trigger] = _of(objects, "ScaledObject", f"memsieve-{role}")["spec"]["triggers"]
        assert trigger["authenticationRef"] == {"name": login["metadata"]["name"]}
        assert trigger["metadata"]["sasl"] == "scram_sha512"
        assert trigger["metadata"]["tls"] == "enable"
    space = _of(objects, "Namespace")
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    others = [one for one in objects if one["kind"] != "Namespace"]
    assert {one["metadata"]["namespace"] for one in others} == {space["metadata"]["name"]}
    limited = [rule["to"] for rule in _of(objects, "NetworkPolicy")["spec"]["egress"]]
    assert len(limited) == 3  # each rule says whereto


def test_prometheus_looks_for_the_labels_and_the_port_that_pods_have() -> None:
    file = ROOT / "deploy" / "prometheus" / "prometheus.yml"
    [config] = _read(file)
    assert (file.parent / config["rule_files"][0]).exists()
    pods = config["scrape_configs"][0]["relabel_configs"]
    assert pods[0]["regex"] == "memsieve;health"
    labels = set(
        _of(_written(), "Deployment", "memsieve-writer")["spec"]["template"]["metadata"]["labels"]
    )
    named = {f"__meta_kubernetes_pod_label_{re.sub(r'[./-]', '_', label)}" for label in labels}
    asked = {one for rule in pods for one in rule["source_labels"] if "_label_" in one}
    assert asked <= named
    assert {rule.get("target_label") for rule in pods} == {None, "job", "instance"}


@pytest.mark.process
def test_prometheus_itself_takes_its_configuration(tmp_path: Path) -> None:
    """Debian's is made without the discovery in Kubernetes: all else of the job is read."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on the PATH: Debian's package `prometheus` has it")
    file = ROOT / "deploy" / "prometheus" / "prometheus.yml"
    [config] = _read(file)
    assert config["scrape_configs"][0].pop("kubernetes_sd_configs") == [{"role": "pod"}]
    (tmp_path / file.name).write_text(yaml.safe_dump(config), "utf-8")
    shutil.copy(file.with_name("alerts.yml"), tmp_path)
    done = subprocess.run(
        [promtool, "check", "config", str(tmp_path / file.name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout
