"""The node agent's command line: what it shows, and what it refuses. tests/kube has what it writes."""

from __future__ import annotations

import io
import pathlib
import stat

import orjson
import pytest

from extender.node_agent import console

TEXT = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"


def show(*arguments: str) -> tuple[int, str, str]:
    out, errors = io.StringIO(), io.StringIO()
    return console.main([*arguments, "--dry-run"], out, errors), out.getvalue(), errors.getvalue()


def program(folder: pathlib.Path, script: str) -> str:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_dry_run_prints_what_would_be_written(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "topo"
    file.write_text(TEXT)
    status, out, errors = show("--from-file", str(file))
    assert (status, errors) == (0, "")
    assert orjson.loads(out) == {"version": 1, "links": [["X", "NV4"], ["NV4", "X"]], "numa": [None, None]}


def test_a_refused_matrix_is_told_with_file_and_line(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "topo"
    file.write_text(TEXT.replace("GPU1\tNV4", "GPU1\tPIX"))
    assert show("--from-file", str(file)) == (
        1,
        "",
        f"{file}: line 3: PIX from GPU1 to GPU0, and NV4 the other way\n",
    )


def test_a_file_that_is_not_there(tmp_path: pathlib.Path) -> None:
    status, out, errors = show("--from-file", str(tmp_path / "none"))
    assert (status, out) == (1, "")
    assert "No such file" in errors


def test_what_the_program_prints_is_read(tmp_path: pathlib.Path) -> None:
    run = program(tmp_path, f"cat <<'END'\n{TEXT}END")
    assert show("--nvidia-smi", run)[0] == 0


def test_a_program_that_fails_is_told_with_its_words(tmp_path: pathlib.Path) -> None:
    status, _, errors = show("--nvidia-smi", program(tmp_path, "echo no driver; exit 9"))
    assert status == 1
    assert "ended with 9: no driver" in errors


def test_a_node_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    with pytest.raises(SystemExit) as ended:
        console.main([])
    assert ended.value.code == 2
