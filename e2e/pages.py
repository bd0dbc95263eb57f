"""The web page as its readers have it: opened in a browser, signed in to, looked at.

Takes a browser, an address and tokens; gives what stands on screen in each part. Must not judge.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

from e2e import browser, waiting

#: where pictures are stored
ARTIFACTS = pathlib.Path(os.environ.get("MUSTER_ARTIFACTS") or pathlib.Path(__file__).parent / "artifacts")
SOON = 30.0
WIDTH, HEIGHT = 1600, 1100
#: gives `window.hacked` away, were it ever taken for HTML
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>'


class Screen:
    """One reader's page."""

    def __init__(self, page: browser.Page, url: str) -> None:
        self.page = page
        self.url = url
        page.resize(WIDTH, HEIGHT)
        page.prefer("light")
        page.open(url)
        waiting.wait_for(lambda: page.text("#signin h1"), SOON, "the page asks to sign in")

    def sign_in(self, token: str, namespaces: str = "") -> None:
        """As a person does: type, and press Enter."""
        for name, text in (("namespaces", namespaces), ("token", token)):
            self.page.evaluate(f"document.getElementById('{name}').focus()")
            self.page.type(text)
        self.page.key("Enter")

    def wait_live(self) -> None:
        """Wait until the first news are on screen."""
        waiting.wait_for(lambda: self.page.text("#live-text"), SOON, "it is live", until=lambda said: "live" in said)

    def wait_refused(self, words: str) -> None:
        """Wait until the reader is signed out with these words."""
        waiting.wait_for(lambda: self.page.text("#problem"), SOON, words, until=lambda said: words in said)

    def rows(self, part: str) -> dict[str, list[str]]:
        """The rows of a table by what stands in their first cell."""
        script = f"""[...document.querySelectorAll('#{part} > .scroll tbody tr')].map(
            (row) => [...row.children].map((cell) => cell.innerText.trim()))"""
        return {cells[0]: cells[1:] for cells in self.page.evaluate(script)}

    def wait_row(self, part: str, name: str, *words: str) -> list[str]:
        """Wait until a table has this row with these words among its cells."""
        return waiting.wait_for(
            lambda: self.rows(part).get(name, []),
            SOON,
            f"{part} shows {name} with {words}",
            until=lambda cells: cells and all(word in cells for word in words),
        )

    def wait_no_row(self, part: str, name: str) -> None:
        """Wait until a table lacks this row."""
        waiting.wait_for(lambda: self.rows(part), SOON, f"{name} is gone", until=lambda rows: name not in rows)

    def node(self, name: str) -> str:
        """What the map says of a node."""
        script = f"document.querySelector('.node[data-node=\"{name}\"]')?.getAttribute('aria-label') ?? ''"
        return str(self.page.evaluate(script))

    def cells(self, name: str, kind: str) -> int:
        """How many GPUs of a node are painted as this."""
        return int(self.page.evaluate(f"document.querySelectorAll('.node[data-node=\"{name}\"] .gpu.{kind}').length"))

    def number(self, name: str) -> int:
        """A figure of the line of sums; -1 while it is not known."""
        text = self.page.text(f".figure.{name} b").replace(",", "")
        return int(text) if text.isdigit() else -1

    def details(self) -> str:
        """All that stands in the details."""
        return self.page.text("#details")

    def everything(self) -> str:
        """All text of the document, shown or not, and all names in it."""
        script = "document.body.textContent + [...document.querySelectorAll('*')].flatMap((one) => "
        script += "[...one.attributes].map((a) => a.value)).join(' ')"
        return str(self.page.evaluate(script))

    def unnamed(self) -> list[str]:
        """What a screen reader would come to without being told what it is."""
        roles = {"button", "link", "textbox", "searchbox", "combobox", "image", "table", "region", "heading", "listbox"}
        tree = self.page.call("Accessibility.getFullAXTree")["nodes"]
        shown = [one for one in tree if not one["ignored"] and one.get("role", {}).get("value") in roles]
        return [one["role"]["value"] for one in shown if not one.get("name", {}).get("value")]

    def photograph(self, name: str) -> None:
        """Store pictures of it in light and dark."""
        for scheme in ("light", "dark"):
            self.page.prefer(scheme)
            self.page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))")
            self.page.photograph(ARTIFACTS / f"page-{name}-{scheme}.png")
        self.page.prefer("light")

    def timings(self) -> dict[str, Any]:
        """When it was first painted and how long the newest news took to be on screen, in milliseconds."""
        script = """({
            paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime,
            update: performance.getEntriesByName('muster-update')[0]?.duration,
        })"""
        return dict(self.page.evaluate(script))
