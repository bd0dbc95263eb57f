"""`nvidia-smi topo -m`: real outputs, what is refused with its line, and the annotation."""

from __future__ import annotations

import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_objects import table

from extender.core.links import Links
from extender.wire import gpu_topology
from extender.wire.fields import Reader
from extender.wire.gpu_topology import TopologyError, parse

PAIR = Links((("X", "NV4"), ("NV4", "X")))
HEAD = "        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity\n"
ROW0 = "GPU0     X      NV4     PIX     0-23            0\n"
ROW1 = "GPU1    NV4      X      SYS     24-47           1\n"
NIC = "NIC0    PIX     SYS      X\n"

#: files of the shared data that are no whole matrix, with the line that tells so
REFUSED = {
    "16xV100-dgx2-NV6_rows0-3.txt": 5,
    "8gpu-noNVLink-10nic-sys_rows0-5.txt": 7,
    "8xA800-NV8-9nic_gpu7-row-missing.txt": 9,
    "8xH100-NV18-affinity-numa-fused.txt": 1,
}


def test_every_real_output_is_read_or_refused_with_its_line(shared: pathlib.Path) -> None:
    files = sorted((shared / "data" / "topo").rglob("*.txt"))
    assert files
    for file in files:
        text = file.read_text()
        if file.name in REFUSED:
            with pytest.raises(TopologyError) as refused:
                parse(text)
            assert refused.value.line == REFUSED[file.name], file.name
        else:
            links = parse(text)
            assert len(links) == len(re.findall(r"^GPU\d+ ?\s", text, re.MULTILINE)), file.name
            assert gpu_topology.decode(Reader(), gpu_topology.encode(links)) == links


@table(
    "text, rows, numa",
    {
        "whole": (HEAD + ROW0 + ROW1 + NIC, PAIR.rows, (0, 1)),
        "rows of network cards may be missing": (HEAD + ROW0 + ROW1, PAIR.rows, (0, 1)),
        "or cut off": (HEAD + ROW0 + ROW1 + "NIC0    PI", PAIR.rows, (0, 1)),
        "a prompt before it, colours and carriage returns": (
            f"# nvidia-smi topo -m\r\n\x1b[4m{HEAD.strip()}\x1b[0m\r\n{ROW0}\r\n{ROW1}\r\n\r\nLegend:\r\n",
            PAIR.rows,
            (0, 1),
        ),
        "tabs, and no affinity": ("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n", PAIR.rows, (None, None)),
        "the old name of SYS": (
            "\tGPU0\tGPU1\nGPU0\tX\tSOC\nGPU1\tSOC\tX\n",
            (("X", "SYS"), ("SYS", "X")),
            (None, None),
        ),
        "one GPU": ("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\tN/A\n", (("X",),), (None,)),
        "several NUMA nodes": ("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t3,9-11\n", (("X",),), (3,)),
        "rows in another order": (HEAD + ROW1 + ROW0, PAIR.rows, (0, 1)),
    },
)
def test_what_is_read(text: str, rows: tuple, numa: tuple) -> None:
    assert parse(text) == Links(rows, numa)


@table(
    "text, line, words",
    {
        "nothing": ("", 1, "no header"),
        "something else": ("NVIDIA-SMI has failed\n", 1, "no header"),
        "no header": (ROW0 + ROW1, 1, "before the header"),
        "a missing row": (HEAD + ROW0 + NIC, 3, "no row of GPU1"),
        "a row that is cut off": (HEAD + ROW0 + "GPU1    NV4      X\n", 3, "2 of 3 cells"),
        "a cell that is no link": (HEAD + ROW0 + ROW1.replace("NV4", "NV0"), 3, "'NV0' in the row of GPU1"),
        "an affinity where a cell should be": (HEAD + ROW0 + "GPU1    NV4      X      24-47    1\n", 3, "'24-47'"),
        "two cells in one": (HEAD + ROW0 + ROW1.replace("NV4      X ", "NV4X"), 3, "'NV4X'"),
        "a second row": (HEAD + ROW0 + ROW0, 3, "second row"),
        "a row without a column": (HEAD + ROW0 + ROW1 + ROW1.replace("GPU1", "GPU2"), 4, "no column"),
        "two columns": (HEAD.replace("GPU1", "GPU0") + ROW0, 1, "two columns"),
        "no X on the diagonal": (HEAD + ROW0.replace(" X ", "PIX") + ROW1, 2, "PIX between GPU0 and GPU0"),
        "an X beside it": (HEAD + ROW0.replace("NV4", " X ") + ROW1, 2, "X between GPU0 and GPU1"),
        "two answers for one pair": (HEAD + ROW0 + ROW1.replace("NV4", "PHB"), 3, "the other way"),
        "more GPUs than there can be": (" ".join(f"GPU{n}" for n in range(65)), 1, "65 GPUs"),
        "longer than any": ("x" * (2**20 + 1), 1, "longer than"),
    },
)
def test_what_is_refused(text: str, line: int, words: str) -> None:
    with pytest.raises(TopologyError, match=f"line {line}: ") as refused:
        parse(text)
    assert words in str(refused.value)


@given(st.text(alphabet="GPUNIC0123 X\tSYNV4\n,-", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        links = parse(text)
    except TopologyError:
        return
    assert gpu_topology.decode(Reader(), gpu_topology.encode(links)) == links


@table(
    "text",
    {
        "no JSON": ("{",),
        "a list": ("[]",),
        "another version": ('{"version":2,"links":[["X"]]}',),
        "not square": ('{"version":1,"links":[["X","SYS"]]}',),
        "not the same both ways": ('{"version":1,"links":[["X","SYS"],["PIX","X"]]}',),
        "no link": ('{"version":1,"links":[["X","A"],["A","X"]]}',),
        "a NUMA node below zero": ('{"version":1,"links":[["X"]],"numa":[-1]}',),
        "too many NUMA nodes": ('{"version":1,"links":[["X"]],"numa":[0,1]}',),
        "nested without end": ("[" * 100_000,),
    },
)
def test_an_annotation_that_cannot_be_read_is_set_aside(text: str) -> None:
    reader = Reader()
    assert gpu_topology.decode(reader, text) is None
    assert reader.problems == ["metadata.annotations[muster.dev/gpu-topology]: no GPU topology that can be read"]
