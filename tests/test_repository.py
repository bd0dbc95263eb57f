"""Rules on the repository itself: what it may hold, and that what it says of itself is true."""

import ast
import fnmatch
import pathlib
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ("extender", "permit_gate")
PYTHON_LINES = 500
#: written in pieces, so that this file does not break its own rule
FOREIGN_TO_A_REPOSITORY = re.compile(
    r"(?<![\w.])/(?:work|root|home/\w+)/"
    "|"
    + "|".join(
        re.escape(".".join(host))
        for host in (
            ("pypi", "org"),
            ("files", "pythonhosted", "org"),
            ("proxy", "golang", "org"),
            ("sum", "golang", "org"),
            ("deb", "debian", "org"),
        )
    )
)


def ignored() -> list[str]:
    """The patterns of .gitignore; only names are used there."""
    lines = (ROOT / ".gitignore").read_text().split()
    return [".git", *(line.rstrip("/") for line in lines)]


def files(suffix: str = "", below: pathlib.Path = ROOT) -> Iterator[pathlib.Path]:
    """All files of the repository."""
    patterns = ignored()
    for path in sorted(below.iterdir()):
        if any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns):
            continue
        if path.is_dir():
            yield from files(suffix, path)
        elif path.name.endswith(suffix):
            yield path


def names_of(paths) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def test_imports_point_the_way_that_the_contracts_say():
    command = [pathlib.Path(sys.executable).parent / "lint-imports", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_python_file_is_longer_than_a_reader_s_patience():
    lengths = {path: len(path.read_text().splitlines()) for path in files(".py")}
    assert names_of(path for path, length in lengths.items() if length > PYTHON_LINES) == []


def test_no_file_names_this_machine_or_a_registry():
    found = []
    for path in files():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in FOREIGN_TO_A_REPOSITORY.finditer(text)]
    assert found == []


def test_the_rule_on_machines_and_registries_can_fail():
    for text in (
        "/" + "work/main",
        "cd /" + "root/x",
        "https://pypi" + ".org/simple",
        "GOPROXY=proxy.golang" + ".org",
    ):
        assert FOREIGN_TO_A_REPOSITORY.search(text), text
    assert not FOREIGN_TO_A_REPOSITORY.search("pkg/framework/work/x and homework/root/")


def targets() -> set[str]:
    """The targets of the Makefile."""
    return set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def make_commands(text: str) -> set[str]:
    """The targets that a text tells its reader to make: `make x` at the begin of a line, or in backticks."""
    return set(re.findall(r"(?:^|`|\$ )(?:[A-Z0-9_]+=\S+ )*make ([a-z][a-z0-9-]*)", text, re.MULTILINE))


def test_the_readme_gives_the_two_commands_for_a_fresh_machine():
    assert {"demo", "test"} <= make_commands((ROOT / "README.md").read_text())


def test_every_command_that_a_page_tells_is_a_target():
    unknown = {}
    for path in files(".md"):
        if missing := make_commands(path.read_text()) - targets():
            unknown[str(path.relative_to(ROOT))] = missing
    assert unknown == {}


def test_every_target_is_in_the_help_and_is_phony():
    text = (ROOT / "Makefile").read_text()
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True).stdout
    assert set(re.findall(r"^ +make ([a-z0-9-]+)", shown, re.MULTILINE)) == targets()
    assert targets() == set(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split())


def test_the_package_list_holds_every_module_that_runs():
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert told["tool"]["setuptools"]["packages"]["find"]["include"] == [f"{name}*" for name in PACKAGES]
    assert told["tool"]["importlinter"]["root_packages"] == list(PACKAGES)
    folders = {path.parent for name in PACKAGES for path in files(".py", ROOT / name)}
    assert names_of(folder for folder in folders if not (folder / "__init__.py").is_file()) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_opens_with_a_docstring(package):
    silent = [path for path in files(".py", ROOT / package) if not ast.get_docstring(ast.parse(path.read_text()))]
    assert names_of(silent) == []


def imported(path: pathlib.Path) -> set[str]:
    """The top-level packages that a file imports."""
    roots = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            roots.add((node.module or "").partition(".")[0])
    return roots


def test_e2e_is_a_black_box():
    """It speaks Kubernetes and HTTP to the real programs, and imports nothing of ours."""
    guilty = [path for path in files(".py", ROOT / "e2e") if imported(path) & {*PACKAGES, "tests"}]
    assert names_of(guilty) == []


def test_what_runs_does_not_import_tests():
    guilty = [
        path for name in PACKAGES for path in files(".py", ROOT / name) if imported(path) & {"tests", "e2e", "pytest"}
    ]
    assert names_of(guilty) == []


def test_no_two_test_modules_share_a_name():
    """Test folders are no packages, so pytest imports their modules by the bare name."""
    counted = Counter(path.name for path in files(".py", ROOT / "tests") if path.name.startswith("test_"))
    assert [name for name, number in counted.items() if number > 1] == []


def test_the_constraints_pin_every_dependency_exactly():
    lines = [line for line in (ROOT / ".ci" / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[\w.+!]+", line)] == []
    pinned = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {
        re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", text)[0]).lower()
        for text in (*told["dependencies"], *told["optional-dependencies"]["dev"])
    }
    assert wanted - pinned == set()
