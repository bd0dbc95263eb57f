"""A headless Chromium, driven by its DevTools protocol: a page is opened, asked, typed into and photographed.

Takes addresses of pages that run on this machine; gives what is on screen. Must not reach any other host: Chromium
resolves no name. All waiting is done by the caller (e2e/waiting.py), but for the answer to one command.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import aiohttp

from e2e import waiting

NAMES = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS = 60
COMMAND_SECONDS = 60
FLAGS = (
    *("--headless=new", "--remote-debugging-port=0", "--no-first-run", "--no-default-browser-check"),
    *("--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--metrics-recording-only", "--mute-audio"),
    # pages are several, and none of them waits for being in front
    *("--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows"),
    *("--force-color-profile=srgb", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
)


def find() -> str | None:
    """The program, by $CHROMIUM or on the PATH; None when there is none."""
    named = os.environ.get("CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Failed(AssertionError):
    """A command, or a script in the page, failed."""


class Page:
    """One page. `problems` are what its console complained of: exceptions, refused loads, violations of its policy."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._socket: aiohttp.ClientWebSocketResponse
        self._reading: asyncio.Task[None]
        self.problems: list[str] = []
        #: addresses of all that was loaded
        self.requested: list[str] = []

    async def connect(self, session: aiohttp.ClientSession, url: str) -> None:
        """Take hold of a page that was made."""
        self._socket = await session.ws_connect(url, max_msg_size=0)
        self._reading = asyncio.create_task(self._read())
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self._call(f"{domain}.enable")
        await self._call("Page.bringToFront")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Give a command, and wait for its answer."""
        return asyncio.run_coroutine_threadsafe(self._call(method, **params), self._loop).result(COMMAND_SECONDS)

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise Failed(f"{script[:200]}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def open(self, url: str) -> None:
        """Go to an address."""
        answer = self.call("Page.navigate", url=url)
        if answer.get("errorText"):
            raise Failed(f"{url}: {answer['errorText']}")

    def text(self, selector: str) -> str:
        """What can be read in the first element of this selector; "" when there is none, or it is not shown."""
        # innerText of what is not shown would be all of it
        script = f"(one => one?.checkVisibility() ? one.innerText : '')(document.querySelector({json.dumps(selector)}))"
        return str(self.evaluate(script))

    def texts(self, selector: str) -> list[str]:
        """What can be read in each element of this selector."""
        script = f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.innerText)"
        return [str(text) for text in self.evaluate(script)]

    def click(self, selector: str) -> None:
        """Press the mouse on the middle of the first element of this selector."""
        script = f"""(() => {{
          const one = document.querySelector({json.dumps(selector)});
          one.scrollIntoView({{ block: "center", behavior: "instant" }});
          const box = one.getBoundingClientRect();
          return [box.x + box.width / 2, box.y + box.height / 2];
        }})()"""
        x, y = self.evaluate(script)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text: str) -> None:
        """Put text where the focus is."""
        self.call("Input.insertText", text=text)

    def key(self, name: str) -> None:
        """Press a key such as ArrowRight, Enter or Tab."""
        code = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        text = {"Enter": "\r"}.get(name)
        typed = {"text": text} if text else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code.get(name, 0), **typed)

    def resize(self, width: int, height: int) -> None:
        """The size of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: str) -> None:
        """The colours that the system is said to have: light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def photograph(self, path: pathlib.Path) -> None:
        """Store what is on screen as PNG."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data))

    async def _call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._answers[number] = self._loop.create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        said = await answer
        if "error" in said:
            raise Failed(f"{method}: {said['error'].get('message')}")
        return dict(said.get("result", {}))

    async def _read(self) -> None:
        async for message in self._socket:
            said = json.loads(message.data)
            answer = self._answers.pop(said.get("id", 0), None)
            if answer is not None and not answer.done():
                answer.set_result(said)
            self._hear(said.get("method", ""), said.get("params", {}))
        for answer in self._answers.values():
            answer.cancel()

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.problems.append(details.get("exception", {}).get("description") or details["text"])
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.problems.append(str(params["args"]))
            case "Network.requestWillBeSent":
                self.requested.append(params["request"]["url"])


class Browser:
    """The program, with as many pages as are asked for, each as if nobody had been there before."""

    def __init__(self, program: str) -> None:
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-chromium-"))
        flags = [*FLAGS, f"--user-data-dir={self._folder}", "--no-sandbox"]  # the sandbox is refused to root
        log = (self._folder / "log").open("wb")
        with log:
            self._process = subprocess.Popen([program, *flags, "about:blank"], stdout=log, stderr=log)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="browser", daemon=True)
        self._thread.start()
        self._session: aiohttp.ClientSession
        try:
            port = waiting.wait_for(self._port, START_SECONDS, "Chromium listens")
            self._root = Page(self._loop)
            self._do(self._begin(port))
        except BaseException:
            self.stop()
            raise

    def page(self) -> Page:
        """A new page in a profile of its own."""
        return self._do(self._new_page())

    def stop(self) -> None:
        """End the program."""
        if hasattr(self, "_session"):
            self._do(self._session.close())
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _do(self, call: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(COMMAND_SECONDS)

    def _port(self) -> int:
        assert self._process.poll() is None, (self._folder / "log").read_text(errors="replace")[-2000:]
        told = self._folder / "DevToolsActivePort"
        lines = told.read_text().split() if told.exists() else []
        return int(lines[0]) if len(lines) == 2 else 0

    async def _begin(self, port: int) -> None:
        self._session = aiohttp.ClientSession()
        self._address = f"127.0.0.1:{port}"
        async with self._session.get(f"http://{self._address}/json/version") as answer:
            url = (await answer.json())["webSocketDebuggerUrl"]
        self._root._socket = await self._session.ws_connect(url, max_msg_size=0)
        self._root._reading = asyncio.create_task(self._root._read())

    async def _new_page(self) -> Page:
        context = (await self._root._call("Target.createBrowserContext"))["browserContextId"]
        target = await self._root._call("Target.createTarget", url="about:blank", browserContextId=context)
        made = Page(self._loop)
        await made.connect(self._session, f"ws://{self._address}/devtools/page/{target['targetId']}")
        return made


@contextlib.contextmanager
def started(program: str) -> Iterator[Browser]:
    """A browser for the time of a block."""
    browser = Browser(program)
    try:
        yield browser
    finally:
        browser.stop()
