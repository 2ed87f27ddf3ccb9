"""Chromium, driven over a pipe by the DevTools protocol: messages of JSON, each ended by a zero byte.

One page at a time is looked at. Every wait is bounded.
"""

import base64
import contextlib
import json
import os
import pathlib
import select
import subprocess
import time
from collections.abc import Callable

from benchlib.process import last_words, stop

WAIT_BOUND_S = 20
END_BOUND_S = 10
READ_BYTES = 1 << 20

# Chromium reads descriptor 3 and writes descriptor 4.
HANDS_PIPE = 'exec 3<&0 4>&1 0</dev/null 1>&2; exec "$@"'
OPTIONS = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--mute-audio",
    # A page that is gone back to loads anew, and says so.
    "--disable-features=BackForwardCache",
    # Loopback only, whatever it would like to ask.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


class Unseen(Exception):
    """What did not come, or came otherwise."""


class Browser:
    def __init__(self, program: str, scratch: pathlib.Path):
        self.log = scratch / "chromium.log"
        # It refuses to run as root with a sandbox of its own.
        as_root = ["--no-sandbox"] if os.getuid() == 0 else []
        argv = [program, *OPTIONS, *as_root, f"--user-data-dir={scratch / 'profile'}", "about:blank"]
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen(
                ["sh", "-c", HANDS_PIPE, "sh", *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                env={**os.environ, "HOME": str(scratch)},
            )
        self.received = b""
        self.messages: list[dict] = []
        self.asked = 0

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_exception) -> None:
        with contextlib.suppress(Unseen, OSError):
            self.call("Browser.close")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_BOUND_S)
        if self.process.poll() is None:
            stop(self.process)
        self.process.stdin.close()
        self.process.stdout.close()

    def call(self, method: str, session: str | None = None, **parameters) -> dict:
        self.asked += 1
        message = {"id": self.asked, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self.process.stdin.write(json.dumps(message).encode() + b"\0")
        self.process.stdin.flush()
        answer = self.take(lambda message: message.get("id") == self.asked, method)
        if error := answer.get("error"):
            raise Unseen(f"{method}: {error['message']}")
        return answer["result"]

    def take(self, wanted: Callable[[dict], bool], what: str) -> dict:
        """The first message that is wanted; others stay for whoever wants them."""
        deadline = time.monotonic() + WAIT_BOUND_S
        looked_at = 0
        while True:
            for at in range(looked_at, len(self.messages)):
                if wanted(self.messages[at]):
                    return self.messages.pop(at)
            looked_at = len(self.messages)
            self.receive(deadline, what)

    def receive(self, deadline: float, what: str) -> None:
        output = self.process.stdout.fileno()
        if not select.select([output], [], [], max(0, deadline - time.monotonic()))[0]:
            raise Unseen(f"no {what} within {WAIT_BOUND_S} s")
        piece = os.read(output, READ_BYTES)
        if not piece:
            raise Unseen(f"Chromium has ended: {last_words(self.log)}")
        *whole, self.received = (self.received + piece).split(b"\0")
        self.messages += [json.loads(message) for message in whole]


class Page:
    """A tab of its own, and what it complained of."""

    def __init__(self, browser: Browser):
        self.browser = browser
        browser.messages.clear()
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *_exception) -> None:
        with contextlib.suppress(Unseen):
            self.browser.call("Target.closeTarget", targetId=self.target)

    def call(self, method: str, **parameters) -> dict:
        return self.browser.call(method, self.session, **parameters)

    def wait_for(self, event: str, wanted: Callable[[dict], bool] = lambda _: True) -> dict:
        def is_it(message: dict) -> bool:
            return self.is_ours(message, event) and wanted(message["params"])

        return self.browser.take(is_it, event)["params"]

    def is_ours(self, message: dict, event: str) -> bool:
        return message.get("sessionId") == self.session and message.get("method") == event

    def events(self, event: str) -> list[dict]:
        """All that came so far, and nobody waited for."""
        self.value("0")  # What the browser said before has come when this has.
        return [message["params"] for message in self.browser.messages if self.is_ours(message, event)]

    def open(self, url: str) -> None:
        if trouble := self.call("Page.navigate", url=url).get("errorText"):
            raise Unseen(f"{url}: {trouble}")
        self.wait_for("Page.loadEventFired")

    def reload(self) -> None:
        self.call("Page.reload")
        self.wait_for("Page.loadEventFired")

    def value(self, expression: str):
        """Of JavaScript, once its promise is kept."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if details := answer.get("exceptionDetails"):
            raise Unseen(f"{expression}: {described(details)}")
        return answer["result"].get("value")

    def click(self, element: str) -> None:
        """In the middle of what the expression finds, as a mouse does."""
        at = self.value(
            f"(() => {{ const found = {element}; found.scrollIntoView({{block: 'center', behavior: 'instant'}});"
            " const box = found.getClientRects()[0];"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)

    def follow(self, element: str) -> None:
        """To the page behind the link."""
        self.click(element)
        self.wait_for("Page.loadEventFired")

    def press_tab(self) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)

    def looks(self, scheme: str, width: int, height: int, scale: float = 1, is_phone: bool = False) -> None:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=is_phone
        )

    def screenshot(self, path: pathlib.Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def troubles(self) -> list[str]:
        """All that a developer would see in red on the console, but for the icon that browsers ask every
        site for when a document, as a text, names none."""
        logged = [event["entry"] for event in self.events("Log.entryAdded")]
        return [
            *(
                f"{entry['text']} {entry.get('url', '')}"
                for entry in logged
                if entry["level"] == "error" and not entry.get("url", "").endswith("/favicon.ico")
            ),
            *(
                str([argument.get("value") for argument in said["args"]])
                for said in self.events("Runtime.consoleAPICalled")
                if said["type"] in ("error", "assert")
            ),
            *(described(thrown["exceptionDetails"]) for thrown in self.events("Runtime.exceptionThrown")),
        ]


def described(exception: dict) -> str:
    return exception.get("exception", {}).get("description", exception["text"])
