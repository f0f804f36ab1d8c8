# SPDX-License-Identifier: BSL-1.0
"""A headless Chromium for tests and measurements: pages are opened, asked and used through its remote debugging pipe."""
from __future__ import annotations

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60  # for one answer


def find_chromium() -> str | None:
    """Its path; None where it is not installed."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """One page of one Chromium. Use it in a `with`: the program ends there."""

    def __init__(self, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.count, self.events = 0, []
        from_here, to_there = os.pipe()
        from_there, to_here = os.pipe()
        self.program = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{from_here} 4>&{to_here}', "bash", str(find_chromium()),
             "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}",
             "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(from_here, to_here))
        os.close(from_here)
        os.close(to_here)
        self.out, self.into = os.fdopen(to_there, "wb", 0), os.fdopen(from_there, "rb", 0)
        os.set_blocking(self.into.fileno(), False)
        self.unread, self.session = b"", None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.session = None
            self.send("Browser.close")
        except (OSError, RuntimeError, TimeoutError):
            self.program.kill()
        self.program.wait(20)
        self.out.close()
        self.into.close()
        self.folder.cleanup()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The browser's answer. Raises RuntimeError if it is an error, TimeoutError if there is none."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(time.monotonic() + SECONDS)
            if answer.get("id") != self.count:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self.unread:
            part = self.into.read(1 << 20)
            if part:
                self.unread += part
            elif part == b"":
                raise RuntimeError("Chromium has ended")
            elif time.monotonic() > end:
                raise TimeoutError("Chromium does not answer")
            else:
                time.sleep(0.002)
        first, _, self.unread = self.unread.partition(b"\0")
        return json.loads(first)

    def run(self, script: str) -> Any:
        """The value of a script's last expression; a promise is waited for. Raises RuntimeError with what it throws."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def open(self, file: pathlib.Path, ready: str = "Boolean(window.echoReport)", seconds: float = SECONDS) -> None:
        """Opens a file and waits until `ready` is true. Raises TimeoutError."""
        self.events.clear()
        self.send("Page.navigate", url=file.resolve().as_uri())
        self.wait_for(ready, seconds)

    def wait_for(self, condition: str, seconds: float = 10) -> None:
        end = time.monotonic() + seconds
        while not self.run(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"not within {seconds} s: {condition}; {self.problems()}")
            time.sleep(0.02)

    def first_paint(self) -> float:
        """When the page was first painted, in ms after its start. The script may be ready before that: it is waited for."""
        painted = "performance.getEntriesByName('first-contentful-paint')"
        self.wait_for(f"{painted}.length > 0", SECONDS)
        return self.run(f"{painted}[0].startTime")

    def problems(self) -> list[str]:
        """What the console and the browser's log say since the page was opened."""
        found = []
        for event in self.events:
            method, more = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(str(more["exceptionDetails"].get("exception", {}).get("description", more)))
            elif method == "Runtime.consoleAPICalled" and more["type"] in ("error", "warning", "assert"):
                found.append(" ".join(str(part.get("value", part.get("description"))) for part in more["args"]))
            elif method == "Log.entryAdded" and more["entry"]["level"] in ("error", "warning"):
                found.append(more["entry"]["text"])
        return found

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, x: float, y: float, to_x: float, to_y: float) -> None:
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1, buttons=1)
        for part in (0.3, 0.7, 1.0):
            self.mouse("mouseMoved", x + part * (to_x - x), y + part * (to_y - y), button="left", buttons=1)
        self.mouse("mouseReleased", to_x, to_y, button="left", clickCount=1)

    def key(self, key: str, **more: Any) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def screenshot(self, file: pathlib.Path, whole: bool = False, **clip: float) -> None:
        """A PNG of the window, of the whole page, or of `clip`: x, y, width, height."""
        more = {"clip": {**clip, "scale": 1}} if clip else {}
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole or bool(clip), **more)
        file.write_bytes(base64.b64decode(shot["data"]))
