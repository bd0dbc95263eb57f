"""The cards of nodes: what each has, what pods and reservations have of it, and which ones a pod gets.

Takes nodes, pods and shares, gives copies of what is free, counts of pods that fit, and shares; must not choose nodes.

A share never straddles cards, and slots, memory and cores must all fit. One of 100 cores is alone on its card: it
joins nobody, and nobody joins it. Of the cards that fit a container gets those with least memory to spare, then least
cores, then by their order, so that shares stand together and whole cards stay whole; only where that would cost room
for another pod of the same kind it gets those with most to spare. An init container ends before the pod's own ones
start, so it may have of their cards what they have: of each card a pod takes the most that it has at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from extender.core import links
from extender.core.ids import NodeName
from extender.core.links import Links
from extender.core.model import Card, CardAsk, CardRequest, Share, Shares, Trouble
from extender.core.reasons import Detail
from extender.core.resources import GPU_CORES, GPU_MEMORY

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Sizes = npt.NDArray[np.int64]

_Load = tuple[str, int, int, int, int]
#: columns of sizes
SLOTS, MEMORY, CORES = range(3)
#: so many cores are the card itself
ALONE = 100
#: more shares than any card has slots for
_ANY = 2**31
_MASKS = 256
#: free memory, free cores and place within a node in one number: places below 2^10, cores below 2^14
_BITS_CORES = 10
_BITS_MEMORY = 24
_ANY_CARD = CardRequest(())
#: troubles that end some time
_OUT_OF_USE = (Trouble.UNHEALTHY, Trouble.CORDONED, Trouble.REFUSED)


@dataclass(eq=False, slots=True)
class Roll:
    """The cards of all nodes, by row of the node table and then by their order. Never changed once made."""

    row: Ints
    total: Sizes
    cards: tuple[Card, ...]
    #: rows of nodes that publish cards, also of those whose cards cannot be read
    rows: frozenset[int]
    #: how the cards of the node of each are joined, where that is known
    links: tuple[Links | None, ...]
    _masks: dict[CardRequest, Mask] = field(default_factory=dict)
    _kinds: dict[tuple[tuple[CardAsk, CardRequest], ...], Kinds] = field(default_factory=dict)
    _mended: Roll | None = None

    @property
    def outage(self) -> bool:
        """True when a card is out of use."""
        return any(card.trouble in _OUT_OF_USE for card in self.cards)

    @property
    def mended(self) -> Roll:
        """The same cards with all of them in use."""
        if self._mended is None:
            cards = (replace(c, trouble=Trouble.NONE) if c.trouble in _OUT_OF_USE else c for c in self.cards)
            self._mended = Roll(self.row, self.total, tuple(cards), self.rows, self.links)
        return self._mended

    def mask(self, request: CardRequest) -> Mask:
        """The cards that may be given to a pod by its selectors and their own state."""
        found = self._masks.get(request)
        if found is None:
            if len(self._masks) >= _MASKS:
                self._masks.clear()
            found = np.array([not card.trouble and accepts(request, card) for card in self.cards], dtype=bool)
            self._masks[request] = found
        return found

    def kinds(self, asks: tuple[tuple[CardAsk, CardRequest], ...]) -> Kinds:
        """Shares that are asked for, each with what selects the cards it may be of."""
        found = self._kinds.get(asks)
        if found is None:
            if len(self._kinds) >= _MASKS:
                self._kinds.clear()
            found = self._kinds[asks] = Kinds(
                memory=np.array([-1 if ask.memory is None else ask.memory for ask, _ in asks], dtype=np.int64),
                percent=np.array([100 if ask.percent is None else ask.percent for ask, _ in asks], dtype=np.int64),
                cores=np.array([ask.cores for ask, _ in asks], dtype=np.int64),
                mask=np.array([self.mask(request) for _, request in asks], dtype=bool).T.copy(),
            )
        return found


class Kinds:
    """Shares of single cards that are asked for, as arrays with a place for each. Never changed once made."""

    def __init__(self, memory: Ints, percent: Ints, cores: Ints, mask: Mask) -> None:
        self.memory = memory
        self.cores = cores
        #: cards of the roll x kinds
        self.mask = mask
        #: those of so many cores are alone on their card
        self.alone: Mask = cores >= ALONE
        #: True when all say how much memory they ask for, and when that is something
        self.sized, self.positive = bool((memory >= 0).all()), bool((memory > 0).all())
        #: True when one of them asks for cores
        self.cored = bool(cores.any())
        self._percent = percent

    def of(self, total: Ints) -> Ints:
        """What each asks of cards with so much memory: cards x kinds, or a row for all cards."""
        if self.sized:
            return self.memory
        return np.where(self.memory < 0, total[:, None] * self._percent // 100, self.memory)


def accepts(request: CardRequest, card: Card) -> bool:
    """Whether the pod takes a card of this type and name."""
    if request.kinds and not any(kind in card.kind for kind in request.kinds):
        return False
    if any(kind in card.kind for kind in request.not_kinds) or card.id in request.not_ids:
        return False
    return not request.ids or card.id in request.ids


def need(ask: CardAsk, memory: int) -> int:
    """The memory that is asked of a card that has so much."""
    if ask.memory is not None:
        return ask.memory
    return memory if ask.percent is None else memory * ask.percent // 100


class Cards:
    """What is free of the cards of some nodes: a scratch of one plan. `row` says which node a card is of."""

    def __init__(self, roll: Roll, which: Ints, row: Ints, free: Sizes, alone: Ints, size: int) -> None:
        self.roll = roll
        self._which = which
        self._row = row
        self.free = free
        #: how many shares on each card are to be alone
        self.alone = alone
        #: rows that publish cards
        self.there = np.zeros(size, dtype=bool)

    def copy(self) -> Cards:
        """A scratch of its own."""
        copied = Cards(self.roll, self._which, self._row, self.free.copy(), self.alone.copy(), 0)
        copied.there = self.there
        return copied

    def emptied(self) -> Cards:
        """The cards as they would be if nothing ran."""
        copied = self.copy()
        copied.free = self.roll.total[self._which].copy()
        copied.alone = np.zeros_like(self.alone)
        return copied

    def mended(self) -> Cards:
        """The cards as they would be with all of them in use."""
        copied = self.copy()
        copied.roll = self.roll.mended
        return copied

    def slots(self, size: int) -> Ints:
        """The slots of all cards of each row that are in use."""
        usable = np.array([not card.trouble for card in self.roll.cards], dtype=bool)[self._which]
        return _sums(self._row[usable], self.roll.total[self._which[usable], SLOTS], size)

    def among(self, rows: Ints) -> Cards:
        """The cards of these rows, which are counted from 0 then."""
        position = np.full(len(self.there), -1, dtype=np.int64)
        position[rows] = np.arange(len(rows))
        kept = np.flatnonzero(position[self._row] >= 0)
        kept = kept[np.argsort(position[self._row[kept]], kind="stable")]
        part = Cards(
            self.roll, self._which[kept], position[self._row[kept]], self.free[kept], self.alone[kept], len(rows)
        )
        part.there = self.there[rows]
        return part

    def look(self, row: int) -> bytes:
        """What the cards of a node have free: equal for nodes that fare alike as far as cards go."""
        part = self._part(row)
        return self.free[part].tobytes() + self.alone[part].tobytes() + self.roll.total[self._which[part]].tobytes()

    def take(self, row: int, shares: Shares, sign: int = 1) -> None:
        """Use up shares of a node's cards, or give them back (sign -1); cards that are not there are left out."""
        part = self._part(row)
        at = {self.roll.cards[self._which[place]].id: place for place in range(part.start, part.stop)}
        for card, slots, memory, cores, alone in loads(shares):
            place = at.get(card)
            if place is not None:
                self.free[place] -= (sign * slots, sign * memory, sign * cores)
                self.alone[place] += sign * alone

    def overdrawn(self, row: int) -> bool:
        """True when more is taken of a card of this node than it has, or one that is alone has company."""
        part = self._part(row)
        free, alone = self.free[part], self.alone[part]
        crowded = (alone > 0) & (self.roll.total[self._which[part], SLOTS] - free[:, SLOTS] > 1)
        return bool((free < 0).any() or crowded.any())

    def totals(self, places: Ints | slice = slice(None)) -> Sizes:
        """What these cards have when nothing is taken."""
        return self.roll.total[self._which[places]]

    def usable(self, places: Ints | slice = slice(None)) -> Mask:
        """Which of these cards are in use."""
        return self.roll.mask(_ANY_CARD)[self._which[places]]

    def rows(self, places: Ints) -> Ints:
        """The rows that these cards are of."""
        return self._row[places]

    def places(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """The cards of these rows one row after the other, where each row's begin, and which of the rows have any."""
        first, last = np.searchsorted(self._row, rows), np.searchsorted(self._row, rows + 1)
        holders = np.flatnonzero(last > first)
        number = (last - first)[holders]
        starts = np.cumsum(number) - number
        return np.repeat(first[holders] - starts, number) + np.arange(number.sum()), starts, holders

    def tightest(self, ask: CardAsk, request: CardRequest, rows: Ints) -> Ints:
        """The cards that a container gets on each of these rows, on which it fits: the first of each row, then the
        second, and so on for as many as it asks for; those with least to spare, as `choose` gives them."""
        places, starts, _ = self.places(rows)
        within = np.arange(len(places)) - np.repeat(starts, np.diff(starts, append=len(places)))
        spare = self.free[places, MEMORY] << _BITS_MEMORY | self.free[places, CORES] << _BITS_CORES | within
        none = np.iinfo(np.int64).max
        spare[self.fits(self.roll.kinds(((ask, request),)), places)[:, 0] <= 0] = none
        chosen = np.empty(ask.number * len(rows), dtype=np.int64)
        for number in range(ask.number):
            least = np.minimum.reduceat(spare, starts)
            at = starts + (least & (1 << _BITS_CORES) - 1)
            chosen[number * len(rows) : (number + 1) * len(rows)] = places[at]
            spare[at] = none
        return chosen

    def with_share(self, places: Ints, ask: CardAsk) -> Cards:
        """These cards alone, each with one such share taken."""
        which, free = self._which[places], self.free[places]
        free[:, SLOTS] -= 1
        memory = self.roll.total[which, MEMORY]
        if ask.memory is not None:
            free[:, MEMORY] -= ask.memory
        else:
            free[:, MEMORY] -= memory if ask.percent is None else memory * ask.percent // 100
        free[:, CORES] -= ask.cores
        return Cards(self.roll, which, self._row[places], free, self.alone[places] + (ask.cores >= ALONE), 0)

    def _part(self, row: int) -> slice:
        first, last = np.searchsorted(self._row, (row, row + 1))
        return slice(int(first), int(last))

    # --- how many fit ---------------------------------------------------------------------------

    def capacity(self, request: CardRequest, most: int) -> Ints:
        """How many such pods each row's cards take, up to `most`; `most` where no cards are published."""
        asks = request.asks
        if len(asks) == 1:
            found = self._of_one(asks[0], self._fits(asks[0], request, slice(None)), most)
        else:
            found = self._of_several(request, most)
        return np.where(self.there, found, most)

    def _fits(self, ask: CardAsk, request: CardRequest, part: slice) -> Ints:
        """How many shares of this kind each card takes."""
        return self.fits(self.roll.kinds(((ask, request),)), part)[:, 0]

    def fits(self, kinds: Kinds, part: slice | Ints = slice(None)) -> Ints:
        """How many shares of each of these kinds each card takes: cards x kinds."""
        which, free = self._which[part], self.free[part]
        total = self.roll.total[which]
        memory = kinds.of(total[:, MEMORY])
        fits = free[:, MEMORY, None] // np.maximum(memory, 1)
        if not kinds.positive:
            fits = np.where(memory, fits, _ANY)
        np.minimum(fits, free[:, SLOTS, None], out=fits)
        if kinds.cored:
            cores = np.where(kinds.cores, free[:, CORES, None] // np.maximum(kinds.cores, 1), _ANY)
            np.minimum(fits, cores, out=fits)
            idle = free[:, SLOTS] == total[:, SLOTS]
            np.minimum(fits, np.where(kinds.alone, idle[:, None], _ANY), out=fits)
        fits[(self.alone[part] > 0)[:, None] | ~kinds.mask[which]] = 0
        return np.maximum(fits, 0, out=fits)

    def _of_one(self, ask: CardAsk, fits: Ints, most: int) -> Ints:
        """Pods that take so many different cards each: as many as leave none of them short of a card."""
        size = len(self.there)
        low, high = np.zeros(size, dtype=np.int64), np.full(size, most, dtype=np.int64)
        if ask.number == 1:
            return np.minimum(_sums(self._row, np.minimum(fits, most), size), most)
        for _ in range(most.bit_length()):
            middle = (low + high + 1) // 2
            enough = _sums(self._row, np.minimum(fits, middle[self._row]), size) >= middle * ask.number
            low, high = np.where(enough, middle, low), np.where(enough, high, middle - 1)
        return low

    def _of_several(self, request: CardRequest, most: int) -> Ints:
        """Containers that ask for different things are tried out, once for all nodes that look the same."""
        found = np.zeros(len(self.there), dtype=np.int64)
        mask = self.roll.mask(request)
        known: dict[bytes, int] = {}
        for row in np.unique(self._row).tolist():
            part = self._part(row)
            look = self.look(row) + mask[self._which[part]].tobytes()
            if look not in known:
                known[look] = self._try_out(request, row, most)
            found[row] = known[look]
        return found

    def _try_out(self, request: CardRequest, row: int, most: int) -> int:
        taken: list[Shares] = []
        while len(taken) < most and (shares := self.choose(row, request)) is not None:
            self.take(row, shares)
            taken.append(shares)
        for shares in taken:
            self.take(row, shares, -1)
        return len(taken)

    # --- what is lacking ------------------------------------------------------------------------

    def lacking(self, request: CardRequest, rows: Ints, names: Sequence[NodeName | None]) -> Detail:
        """What no card of these rows has enough of for one more pod, with the card that is nearest to it."""
        ask = max(request.asks, key=_hardness)
        mine = np.isin(self._row, rows) & self.roll.mask(request)[self._which] & (self.free[:, SLOTS] > 0)
        places = np.flatnonzero(mine)
        if not len(places):
            return (("problem", "no card in use there is of a type and name that it takes"),)
        total, free = self.roll.total[self._which[places]], self.free[places]
        asked = np.array([need(ask, memory) for memory in total[:, MEMORY].tolist()], dtype=np.int64)
        room = free[:, MEMORY] >= asked
        idle = (free[:, SLOTS] == total[:, SLOTS]) | (ask.cores < ALONE)
        cores = (self.alone[places] == 0) & (free[:, CORES] >= ask.cores) & idle
        short = [name for name, enough in ((GPU_MEMORY, room), (GPU_CORES, cores)) if enough.sum() < ask.number]
        detail: Detail = ()
        for name in short or (GPU_MEMORY, GPU_CORES):
            by, amounts = (MEMORY, asked) if name == GPU_MEMORY else (CORES, np.full(len(places), ask.cores))
            best = int(np.argmax(free[:, by] - amounts))
            detail += (("resource", name), ("lacking", name.partition("/")[2]), ("asked", int(amounts[best])))
            detail += (("free", int(free[best, by])), ("node", str(names[self._row[places[best]]])))
            detail += (("card", self.roll.cards[self._which[places[best]]].id),)
        if (self.alone[places] > 0).any() or not idle.all():
            detail += (("problem", f"{ALONE} gpucores are a card to itself"),)
        return detail

    # --- which ones -----------------------------------------------------------------------------

    def choose(self, row: int, request: CardRequest) -> Shares | None:
        """Shares for one more pod; None when its cards have no room. Nodes that publish no cards give no shares."""
        if not self.there[row]:
            return () if request.plain else None
        asks, part = request.asks, self._part(row)
        if len(asks) == 1 and asks[0].number > 1:
            return self._spread_if_needed(row, request, part)
        return self._fill(row, request, part, roomy=False) or self._fill(row, request, part, roomy=True)

    def _spread_if_needed(self, row: int, request: CardRequest, part: slice) -> Shares | None:
        before = self._count(request, part)
        close = self._fill(row, request, part, roomy=False)
        if close is None:
            return None
        self.take(row, close)
        after = self._count(request, part)
        self.take(row, close, -1)
        return close if after >= before - 1 else self._fill(row, request, part, roomy=True)

    def _count(self, request: CardRequest, part: slice) -> int:
        """How many such pods of one container the cards of one node take."""
        ask = request.asks[0]
        fits = self._fits(ask, request, part).tolist()
        low, high = 0, sum(fits) // ask.number
        while low < high:
            middle = (low + high + 1) // 2
            if sum(min(one, middle) for one in fits) >= middle * ask.number:
                low = middle
            else:
                high = middle - 1
        return low

    def _fill(self, row: int, request: CardRequest, part: slice, roomy: bool) -> Shares | None:
        """Cards for one container after the other, those that are hardest to please first; then for those that pass,
        each for itself, cards that the others have where they will do."""
        given: list[tuple[Share, ...]] = [() for _ in request.containers]
        asking = [(at, ask) for at, ask in enumerate(request.containers) if ask is not None]
        asking.sort(key=lambda one: _hardness(one[1]), reverse=True)
        taken: list[Shares] = []
        lasting = [one for one in asking if one[0] not in request.passing]
        for at, ask in lasting:
            shares = self._of_container(ask, request, part, roomy)
            if shares is None:
                break
            given[at] = shares
            taken.append((shares,))
            self.take(row, (shares,))
        for one in taken:
            self.take(row, one, -1)
        if len(taken) < len(lasting):
            return None
        near = {share.card for share in each_share(tuple(given))}
        for at, ask in asking:
            if at in request.passing:
                shares = self._of_container(ask, request, part, roomy, near)
                if shares is None:
                    return None
                given[at] = tuple(replace(share, passing=True) for share in shares)
        return tuple(given)

    def _of_container(
        self, ask: CardAsk, request: CardRequest, part: slice, roomy: bool, near: Collection[str] = ()
    ) -> tuple[Share, ...] | None:
        fits = self._fits(ask, request, part)
        places = np.flatnonzero(fits)
        if len(places) < ask.number:
            return None
        chosen = self._joined_best(ask, places, part) if not near else None
        if chosen is None:
            free = self.free[part][places]
            by = (places, -fits[places]) if roomy else (places, free[:, CORES], free[:, MEMORY])
            if near:
                names = [self.roll.cards[which].id for which in self._which[part][places].tolist()]
                by = (*by, np.array([name not in near for name in names]))
            chosen = places[np.lexsort(by)[: ask.number]].tolist()
        cards = [self.roll.cards[self._which[part.start + place]] for place in chosen]
        return tuple(Share(card.id, need(ask, card.memory), ask.cores) for card in cards)

    def _joined_best(self, ask: CardAsk, places: Ints, part: slice) -> list[int] | None:
        """Of whole cards those that are joined best; None where it is not known, or parts of cards are asked for."""
        matrix = self.roll.links[self._which[part.start]]
        if matrix is None or len(matrix) != part.stop - part.start or not ask.whole:
            return None
        fit = links.fit(matrix, sum(1 << place for place in places.tolist()), ask.number)
        assert fit is not None, "there are as many places"
        return [place for place in places.tolist() if fit.bits >> place & 1]


def _hardness(ask: CardAsk) -> tuple[bool, int, int, int, int]:
    whole = ask.memory is None and ask.percent is None
    return (ask.cores >= ALONE, _ANY if whole else ask.memory or 0, ask.percent or 0, ask.number, ask.cores)


def _sums(row: Ints, values: Ints, size: int) -> Ints:
    return np.bincount(row, weights=values, minlength=size).astype(np.int64)


def each_share(shares: Shares) -> Iterator[Share]:
    """All shares of a pod."""
    return (share for container in shares for share in container)


def loads(shares: Shares) -> Iterable[_Load]:
    """What a pod takes of cards: card, slots, memory, cores, and how many of its shares are to be alone there."""
    every = list(each_share(shares))
    if not any(share.passing for share in every):
        return ((share.card, 1, share.memory, share.cores, int(share.cores >= ALONE)) for share in every)
    most: dict[str, tuple[int, int, int, int]] = {}
    # what lasts is there at one time; of what passes one container is at a time
    for container in (tuple(share for share in every if not share.passing), *shares):
        at_once: dict[str, tuple[int, int, int, int]] = {}
        for share in container:
            slots, memory, cores, alone = at_once.get(share.card, (0, 0, 0, 0))
            alone += share.cores >= ALONE
            at_once[share.card] = (slots + 1, memory + share.memory, cores + share.cores, alone)
        for card, sizes in at_once.items():
            known = most.get(card, (0, 0, 0, 0))
            most[card] = (*map(max, sizes, known),)  # type: ignore[assignment]
    return [(card, *sizes) for card, sizes in most.items()]
