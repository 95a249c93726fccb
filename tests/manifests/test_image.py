"""The Dockerfile: pinned, without a shell at run time, not as root; and the pins it installs from."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from itertools import takewhile

import yaml

from tests.manifests.documents import ROOT, pod_spec

_PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)((?: *\\\n +--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Instruction:
    name: str
    words: str

    @property
    def exec_form(self) -> list[str]:
        """The words of ``["a", "b"]``. Raises ValueError for the shell form."""
        form: list[str] = json.loads(self.words)
        return form


@cache
def stages() -> list[list[Instruction]]:
    """The instructions of each stage, its FROM first."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found: list[list[Instruction]] = []
    arguments: dict[str, str] = {}
    for line in filter(None, map(str.strip, joined.splitlines())):
        name, _, words = line.partition(" ")
        if not found and name.upper() == "ARG":
            argument, _, default = words.strip().partition("=")
            arguments[f"${{{argument}}}"] = default
            continue
        for argument, default in arguments.items():
            words = words.replace(argument, default)
        instruction = Instruction(name.upper(), words.strip())
        if instruction.name == "FROM":
            found.append([])
        found[-1].append(instruction)
    return found


def last(name: str) -> Instruction:
    return [instruction for instruction in stages()[-1] if instruction.name == name][-1]


def pins(file: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Package -> its version and hashes."""
    text = (ROOT / file).read_text()
    found = {name: (version, frozenset(re.findall(r"sha256:\w+", rest))) for name, version, rest in _PIN.findall(text)}
    assert len(found) == text.count("=="), "each pin has its hashes"
    return found


def test_each_base_has_a_full_version_and_a_digest() -> None:
    bases = {stage[0].words.split()[0] for stage in stages()}
    for base in bases:
        assert re.fullmatch(r"[a-z]+:\d+\.\d+\.\d+-[a-z-]+@sha256:[0-9a-f]{64}", base), base
    assert len(bases) == 1, "what is compiled for one Python is run by the same"


def test_the_base_is_renewed_by_a_machine() -> None:
    configured = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())
    assert {"docker"} <= {update["package-ecosystem"] for update in configured["updates"]}


def test_the_python_is_one_that_the_package_allows() -> None:
    minor = re.match(r"python:(\d+\.\d+)\.", stages()[-1][0].words)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert minor and project["requires-python"] == f">={minor[1]}"


def test_nothing_is_fetched_by_address_and_no_package_of_the_system_is_added() -> None:
    for stage in stages():
        for instruction in stage:
            assert instruction.name != "ADD"
            if instruction.name == "LABEL":
                continue
            assert not re.search(r"https?:|apt-get|apk |curl |wget ", instruction.words)


def test_the_last_stage_only_copies_and_runs_nothing() -> None:
    assert len(stages()) == 2
    assert "RUN" not in {instruction.name for instruction in stages()[-1]}
    (copy,) = (instruction for instruction in stages()[-1] if instruction.name == "COPY")
    assert copy.words.startswith("--from=build ")


def test_commands_need_no_shell() -> None:
    for stage in stages():
        for instruction in stage:
            if instruction.name in ("RUN", "ENTRYPOINT", "CMD"):
                assert instruction.exec_form
    program, *rest = last("ENTRYPOINT").exec_form
    assert program.endswith("/bin/python") and rest[-3:] == ["-m", "scheduler", "run"]


def test_python_is_isolated_from_the_working_folder_and_from_its_environment() -> None:
    assert "-I" in last("ENTRYPOINT").exec_form
    assert last("WORKDIR").words not in ("", "/")
    environment = " ".join(instruction.words for instruction in stages()[-1] if instruction.name == "ENV")
    assert "PYTHON" not in environment, "isolated mode reads none of these variables"


def test_the_user_is_a_number_other_than_roots_and_the_deployments() -> None:
    user, _, group = last("USER").words.partition(":")
    context = pod_spec()["securityContext"]
    assert (int(user), int(group)) == (context["runAsUser"], context["runAsGroup"])
    assert int(user) > 0


def test_nothing_is_written_at_run_time() -> None:
    assert "-B" in last("ENTRYPOINT").exec_form
    assert any("compileall" in instruction.words for instruction in stages()[0] if instruction.name == "RUN")


def test_packages_come_as_wheels_and_by_their_hashes() -> None:
    installs = [
        instruction.exec_form
        for instruction in stages()[0]
        if instruction.name == "RUN" and "install" in instruction.exec_form
    ]
    assert installs
    for words in installs:
        assert {"--require-hashes", "--only-binary=:all:"} <= set(words) or {"--no-index", "--no-deps"} <= set(words)


def test_all_that_is_copied_is_there_and_let_through_to_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    let_through = {line[1:] for line in ignored if line.startswith("!")}
    copied = {
        word.removeprefix("./")
        for instruction in stages()[0]
        if instruction.name == "COPY"
        for word in instruction.words.split()[:-1]
    }
    assert "*" in ignored
    assert copied == let_through
    assert all((ROOT / name).exists() for name in copied)


def test_the_images_pins_are_those_that_the_tests_run_with() -> None:
    tested = pins("requirements.txt")
    for file in ("requirements-runtime.txt", "requirements-build.txt"):
        for name, pin in pins(file).items():
            assert tested[name] == pin, f"{file}: {name}"


def test_the_image_holds_every_dependency_and_no_test_tool() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {_name(text) for text in (*project["dependencies"], *extras["uvloop"], *extras["tracing"])}
    tools = {_name(text) for text in project["optional-dependencies"]["test"]}
    pinned = pins("requirements-runtime.txt").keys()
    assert wanted <= pinned
    assert not (tools - wanted) & pinned


def test_no_file_of_pins_names_a_host() -> None:
    for file in ("requirements.txt", "requirements-runtime.txt", "requirements-build.txt"):
        text = (ROOT / file).read_text()
        assert not re.search(r"https?:|^--(?!hash)", text, re.MULTILINE), file


def _name(requirement: str) -> str:
    letters = "".join(takewhile(lambda letter: letter.isalnum() or letter in "-_.", requirement))
    return letters.lower().replace("_", "-")
