"""Headless Chromium, driven over its debugging pipe with the standard library alone."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip


def executable():
    """The path of Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


_CONNECT = """
import os, sys
for fixed, given in zip((3, 4), [os.dup(int(number)) for number in sys.argv[1:3]]):
    os.dup2(given, fixed)
    os.set_inheritable(fixed, True)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from descriptor 3 and answers on 4. This script connects them: a process with JAX must not fork."""


class Browser:
    """One tab. It collects console output, errors and requests."""

    def __init__(self):
        self._profile = tempfile.mkdtemp(prefix="tdu-browser-")
        to_read, self._to_write = os.pipe()
        self._to_listen, to_answer = os.pipe()
        with contextlib.ExitStack() as stack:
            for descriptor in (to_read, to_answer):
                stack.callback(os.close, descriptor)

            descriptors = (to_read, to_answer)
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CONNECT, *map(str, descriptors), executable(), *FLAGS,
                 f"--user-data-dir={self._profile}", "about:blank"],
                pass_fds=descriptors, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        self._buffer, self._number, self._session = b"", 0, None
        self.problems, self.requests = [], []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Sends a command and waits for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to_write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _next(self):
        while b"\0" not in self._buffer:
            piece = os.read(self._to_listen, 1 << 16)
            assert piece, "Chromium has ended"
            self._buffer += piece
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event):
        method, details = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(details["exceptionDetails"].get("exception", {}).get("description", str(details)))
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(" ".join(str(a.get("value", a.get("description"))) for a in details["args"]))
        elif method == "Log.entryAdded":
            self.problems.append(details["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])

    def open(self, path, *, width=1200, height=900, dark=False, phone=False):
        """Opens a file and waits until its script has run."""
        self.problems.clear()
        self.requests.clear()
        scale = 2 if phone else 1
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.until("document.documentElement?.dataset.ready === 'yes'")

    def run(self, expression):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression, seconds=300):
        """Waits for an expression to be true."""
        end = time.monotonic() + seconds
        while not self.run(expression):
            assert time.monotonic() < end, f"never came true: {expression}"
            time.sleep(0.02)

    def key(self, name, code):
        """Presses a key."""
        text = {"text": name} if len(name) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)

    def screenshot(self, path=None, *, full=True):
        """The page as an image."""
        data = base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=full)["data"])
        if path is not None:
            path.write_bytes(data)
        return data

    def close(self):
        """Ends Chromium."""
        self._session = None
        with contextlib.suppress(OSError, AssertionError):
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to_write)
        os.close(self._to_listen)
        shutil.rmtree(self._profile, ignore_errors=True)
