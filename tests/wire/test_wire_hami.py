"""HAMi's annotations: three texts of a node's cards, what pods ask for and were given, and bad texts."""

from __future__ import annotations

import json
import pathlib

import pytest
import yaml
from wire_objects import node, pod, table

from extender.core.model import Card, CardAsk, CardRequest, Share, Trouble
from extender.core.resources import GPU, GPU_CORES, GPU_MEMORY, GPU_PARTS, GPU_PERCENT, GPU_SHARE
from extender.wire import hami
from extender.wire.objects import decode_node, decode_pod

SEVEN = "GPU-a,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:"
NINE = "GPU-a,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true,0,hami-core:"
V100 = Card("GPU-a", 10, 32768, 100, "NVIDIA-TESLA V100-PCIE-32GB")
JSON = {"id": "GPU-a", "count": 10, "devmem": 32768, "devcore": 100, "type": "NVIDIA-Tesla V100-PCIE-32GB"}


def published(text: object, **more: str) -> tuple[tuple[Card, ...] | None, tuple[str, ...]]:
    got = decode_node(node(meta={"annotations": {hami.REGISTER: text, **more}}))
    return got.cards, got.problems


def test_a_node_that_publishes_nothing_has_no_cards_to_judge() -> None:
    assert decode_node(node()).cards is None


@table(
    "text, want",
    {
        "seven fields": (SEVEN, (V100,)),
        "nine fields": (NINE, (V100,)),
        "JSON": (json.dumps([JSON | {"health": True}]), (V100,)),
        "JSON with fields of a later version": (json.dumps([JSON | {"health": True, "pci": {"a": 1}}]), (V100,)),
        "health that is not stated is none": (
            json.dumps([JSON]),
            (Card("GPU-a", 10, 32768, 100, V100.kind, Trouble.UNHEALTHY),),
        ),
        "all but the name may be left out": ('[{"id":"x"}]', (Card("x", 0, 0, 0, "", Trouble.UNHEALTHY),)),
        "ill": (SEVEN.replace("true", "false"), (Card("GPU-a", 10, 32768, 100, V100.kind, Trouble.UNHEALTHY),)),
        "cut into instances": (
            NINE.replace("hami-core", "mig"),
            (Card("GPU-a", 10, 32768, 100, V100.kind, Trouble.MIG),),
        ),
        "by index": (
            NINE.replace(",0,hami", ",1,hami") + NINE.replace("GPU-a", "GPU-b"),
            (Card("GPU-b", 10, 32768, 100, V100.kind), V100),
        ),
        "no card at all": ("[]", ()),
        "the empty text": ("", ()),
    },
)
def test_published_cards(text: str, want: tuple[Card, ...]) -> None:
    assert published(text) == (want, ())


@table(
    "text, problem",
    {
        "a cut text": (SEVEN + "GPU-b,10,4096...", "3 fields"),
        "eight fields": (NINE.replace(",hami-core", ""), "8 fields"),
        "no JSON": ("[{", "no JSON"),
        "no objects": ("[1]", "no object"),
        "no list": ('{"id": "x"}', "fields"),
        "no name": ('[{"index":1}]', "no id"),
        "a name that cannot be written": ('[{"id":"a,b"}]', "no id"),
        "twice": (SEVEN * 2, "twice"),
        "negative": (SEVEN.replace("32768", "-1"), "memory is not a number"),
        "huge": (SEVEN.replace("32768", "9" * 30), "memory is not a number"),
        "a fraction": (json.dumps([JSON | {"devmem": 1.5}]), "devmem is not a number"),
        "true for a number": (json.dumps([JSON | {"count": True}]), "count is not a number"),
        "a text for health": (json.dumps([JSON | {"health": "true"}]), "health is not"),
        "a number for a text": (json.dumps([JSON | {"type": 1}]), "type is not a text"),
        "neither true nor false": (SEVEN.replace("true", "yes"), "health is not"),
        "digits of another script": (SEVEN.replace("100", "١٠٠"), "cores is not a number"),
        "too many": ("".join(SEVEN.replace("GPU-a", f"g{n}") for n in range(65)), "more than 64"),
        "no text": (7, "not a text"),
    },
)
def test_cards_that_cannot_be_read_count_as_none(text: object, problem: str) -> None:
    cards, problems = published(text)
    assert cards == ()
    assert problem in problems[0]


def test_cordoned_cards() -> None:
    cards, problems = published(SEVEN + SEVEN.replace("GPU-a", "GPU-b"), **{hami.CORDON: "GPU-x, GPU-b"})
    assert [card.trouble for card in cards or ()] == [Trouble.NONE, Trouble.CORDONED]
    assert problems == ()


def test_the_texts_that_people_showed_are_read_or_refused_by_name(shared: pathlib.Path) -> None:
    docs = list(yaml.safe_load_all((shared / "data/nodes/hami-node-annotations.yaml").read_text()))
    got = {doc["metadata"]["name"]: decode_node(doc) for doc in docs if doc["metadata"]["name"].startswith("node")}
    assert {name: len(node.cards or ()) for name, node in got.items()} == {
        "node-a": 0,
        "node-b": 8,
        "node-c": 2,
        "node-d": 1,
        "node-e": 1,
    }
    assert "3 fields" in got["node-a"].problems[0]
    assert {card.trouble for card in (*(got["node-b"].cards or ()), *(got["node-e"].cards or ()))} == {Trouble.MIG}
    assert (got["node-b"].cards or ())[0].id == "GPU-c6a9ed1a-e4f8-f17b-845b-7c76ba095a82"  # its index is 0


# --- pods ------------------------------------------------------------------------------------------


def container(**limits: object) -> dict:
    return {"name": "c", "resources": {"requests": {GPU: 1} if GPU in limits else {}, "limits": limits}}


def asks(*containers: dict, init: tuple[dict, ...] = (), **notes: str) -> tuple[CardRequest | None, tuple[str, ...]]:
    """What is read of a pod; API servers copy limits of extended resources into requests."""
    for one in (*containers, *init):
        one["resources"]["requests"] = dict(one["resources"]["limits"])
    meta = {"annotations": {f"nvidia.com/{key.replace('_', '-')}": value for key, value in notes.items()}}
    got = decode_pod(pod(meta=meta, spec={"containers": list(containers), "initContainers": list(init)}))
    return got.shape.cards, got.problems


@table(
    "limits, want",
    {
        "whole GPUs": ({GPU: "2"}, CardAsk(2)),
        "memory": ({GPU: 1, GPU_MEMORY: "3000"}, CardAsk(1, memory=3000)),
        "memory in thousands": ({GPU: 1, GPU_MEMORY: "3k"}, CardAsk(1, memory=3000)),
        "a percentage": ({GPU: 1, GPU_PERCENT: "50"}, CardAsk(1, percent=50)),
        "more than all": ({GPU: 1, GPU_PERCENT: "150"}, CardAsk(1, percent=100)),
        "both: the memory": ({GPU: 1, GPU_MEMORY: "3000", GPU_PERCENT: "50"}, CardAsk(1, memory=3000)),
        "nothing of it is as if it was not named": ({GPU: 1, GPU_MEMORY: "0", GPU_PERCENT: "0"}, CardAsk(1)),
        "cores": ({GPU: 1, GPU_CORES: "30"}, CardAsk(1, cores=30)),
    },
)
def test_what_a_container_asks_for(limits: dict, want: CardAsk) -> None:
    assert asks(container(**limits)) == (CardRequest((want,)), ())


def test_containers_keep_their_places_and_the_first_ones_come_first() -> None:
    got, _ = asks(container(), container(**{GPU: 2}), init=(container(**{GPU: 1, GPU_MEMORY: 100}), container()))
    assert got == CardRequest((CardAsk(1, memory=100), None, None, CardAsk(2)), passing=(0,))


def test_a_sidecar_lasts_and_with_cards_what_is_started_beside_it_is_taken_for_lasting() -> None:
    sidecar = container(**{GPU: 1}) | {"restartPolicy": "Always"}
    got, _ = asks(container(**{GPU: 1}), init=(sidecar, container(**{GPU: 1})))
    assert got == CardRequest((CardAsk(1), CardAsk(1), CardAsk(1)))
    got, _ = asks(container(**{GPU: 1}), init=(container() | {"restartPolicy": "Always"}, container(**{GPU: 1})))
    assert got == CardRequest((None, CardAsk(1), CardAsk(1)), passing=(1,))


def test_what_an_init_container_was_given_is_known_to_pass() -> None:
    text = "GPU-0,NVIDIA,100,0:;GPU-0,NVIDIA,200,30:;"
    limits = {"resources": {"requests": {GPU: 1}, "limits": {GPU: 1}}}
    spec = {"initContainers": [{"name": "i", **limits}], "containers": [{"name": "c", **limits}]}
    got = decode_pod(pod(meta={"annotations": {hami.ALLOCATED: text}}, spec=spec))
    assert got.shares == ((Share("GPU-0", 100, 0, passing=True),), (Share("GPU-0", 200, 30),))
    assert hami.encode_shares(got.shares) == text
    # of an annotation with another number of containers nothing is known to pass
    got = decode_pod(pod(meta={"annotations": {hami.ALLOCATED: f"{text};"}}, spec=spec))
    assert not any(share.passing for container in got.shares for share in container)


def test_which_cards_a_pod_takes() -> None:
    got, _ = asks(
        container(**{GPU: 1}),
        use_gputype="A100, v100",
        nouse_gputype="SXM",
        use_gpuuuid="GPU-a,GPU-b",
        nouse_gpuuuid=",",
    )
    assert got == CardRequest((CardAsk(1),), ("A100", "V100"), ("SXM",), ("GPU-a", "GPU-b"), ())


@pytest.mark.parametrize(("mode", "sound"), [("", True), ("hami-core", True), ("mig", False), ("mps", False)])
def test_a_mode_in_which_cards_are_not_shared_here_is_named(mode: str, sound: bool) -> None:
    got, problems = asks(container(**{GPU: 1}), vgpu_mode=mode)
    assert got == CardRequest((CardAsk(1),))
    assert ["nvidia.com/vgpu-mode" in text for text in problems] == ([] if sound else [True])


@table(
    "containers, want",
    {
        "whole GPUs": ([{GPU: 2}], 200),
        "memory in MiB is not a part of any card": ([{GPU: 2, GPU_MEMORY: 1000}], 200),
        "a percentage": ([{GPU: 2, GPU_PERCENT: 30}], 60),
        "the same percentage twice": ([{GPU: 1, GPU_PERCENT: 30}, {GPU: 2, GPU_PERCENT: 30}], 90),
        "different ones": ([{GPU: 1, GPU_PERCENT: 30}, {GPU: 2}], 230),
        "MIG instances by their slices": ([{"nvidia.com/mig-3g.20gb": 7}], 300),
        "beside GPUs": ([{"nvidia.com/mig-4g.24gb": 1, GPU: 1, GPU_PERCENT: 30}], 130),
        "none": ([{"cpu": "1"}], None),
    },
)
def test_what_a_pod_costs_by_share(containers: list[dict], want: int | None) -> None:
    made = [{"name": "c", "resources": {"requests": one, "limits": one}} for one in containers]
    got = decode_pod(pod(spec={"containers": made}))
    assert dict(got.shape.request).get(GPU_SHARE) == (want and want * GPU_PARTS // 100)


@pytest.mark.parametrize(("first", "want"), [({GPU: 1, GPU_PERCENT: 20}, 60), ({GPU: 2, GPU_PERCENT: 50}, 100)])
def test_an_init_container_costs_only_what_is_more_than_the_others(first: dict, want: int) -> None:
    made = [{"name": "c", "resources": {"requests": one, "limits": one}} for one in (first, {GPU: 2, GPU_PERCENT: 30})]
    got = decode_pod(pod(spec={"initContainers": made[:1], "containers": made[1:]}))
    assert dict(got.shape.request)[GPU_SHARE] == want * GPU_PARTS // 100


def test_a_pod_without_gpus_asks_for_none() -> None:
    assert asks(container(cpu="1")) == (None, ())
    assert asks(container(**{"nvidia.com/mig-1g.5gb": 1})) == (None, ())


@table(
    "limits, problem",
    {
        "a share of nothing": ({GPU_MEMORY: 100}, "without nvidia.com/gpu"),
        "more cores than a card has": ({GPU: 1, GPU_CORES: 101}, "101 is more than the 100"),
        "negative": ({GPU: 1, GPU_MEMORY: "-5"}, "negative"),
        "no number": ({GPU: 1, GPU_MEMORY: "much"}, "not a quantity"),
        "huge": ({GPU: 1, GPU_MEMORY: 2**40}, "a number that a card may have"),
    },
)
def test_bad_requests_are_named(limits: dict, problem: str) -> None:
    _, problems = asks(container(**limits))
    assert any(problem in one for one in problems), problems


GIVEN = ((), (Share("GPU-a", 4096, 30), Share("GPU-b", 4096, 30)))


def test_shares_are_written_as_the_device_plugin_reads_them() -> None:
    assert hami.encode_shares(GIVEN) == ";GPU-a,NVIDIA,4096,30:GPU-b,NVIDIA,4096,30:;"
    assert hami.binding_notes(GIVEN, "n1", 1705054796.7) == {
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": "1705054796",
        "hami.io/vgpu-devices-to-allocate": ";GPU-a,NVIDIA,4096,30:GPU-b,NVIDIA,4096,30:;",
        "hami.io/vgpu-devices-allocated": ";GPU-a,NVIDIA,4096,30:GPU-b,NVIDIA,4096,30:;",
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": "1705054796",
    }


@table(
    "text, want",
    {
        "as written": (hami.encode_shares(GIVEN), GIVEN),
        "an instance of a card": ("GPU-a[1-0],NVIDIA,9856,14:;", ((Share("GPU-a", 9856, 14),),)),
        "of nothing": (";;", ()),
        "empty": ("", ()),
        "without an end": ("GPU-a,NVIDIA,4096,30:", ()),
        "three fields": ("GPU-a,NVIDIA,4096:;", ()),
        "negative": ("GPU-a,NVIDIA,-1,0:;", ()),
        "no card": (",NVIDIA,1,0:;", ()),
        "no text": (5, ()),
    },
)
def test_shares_of_a_pod(text: object, want: object) -> None:
    assert decode_pod(pod(meta={"annotations": {hami.ALLOCATED: text}})).shares == want


def test_a_pod_that_was_given_nothing() -> None:
    assert decode_pod(pod()).shares == ()


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, True),
        ({"phase": "Failed", "reason": "Evicted"}, False),
        ({"phase": "Running", "reason": "UnexpectedAdmissionError"}, False),
        ({"phase": "Failed", "reason": ["x"]}, False),
    ],
)
def test_a_pod_that_its_kubelet_did_not_admit(status: dict, want: bool) -> None:
    assert decode_pod(pod(status=status)).not_admitted is want


def test_manifests_that_people_run_are_read(shared: pathlib.Path) -> None:
    read = {}
    for path in sorted((shared / "data/manifests/hami").glob("nvidia__*.yaml")):
        for doc in yaml.safe_load_all(path.read_text()):
            if isinstance(doc, dict) and doc.get("kind") == "Pod":
                doc["metadata"]["uid"] = "u"
                for one in doc["spec"]["containers"]:
                    limits = (one.get("resources") or {}).get("limits") or {}
                    one["resources"] = {"requests": {**limits}, "limits": limits}
                got = decode_pod(doc)
                read[path.stem] = (got.shape.cards, got.problems)
    assert read["nvidia__use_exclusive_card"] == (CardRequest((CardAsk(2, percent=100, cores=100),)), ())
    assert read["nvidia__use_memory_fraction"] == (CardRequest((CardAsk(2, percent=50, cores=30),)), ())
    assert read["nvidia__specify_uuid_to_use"][0] is not None
    assert read["nvidia__specify_uuid_to_use"][0].ids
    assert read["nvidia__specify_card_type_not_use"][0].not_kinds
    assert {name for name, (_, problems) in read.items() if problems} == {"nvidia__dynamic_mig_example"}
