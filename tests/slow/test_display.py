"""A run continues if its display is lost or cannot show a character. Help is quick. Ctrl-C prints no traceback."""

import io
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import tdu
from tdu.run import progress

TINY = ("--hidden-sizes", "8", "--exploiters", "2", "--explorers", "1", "--batch-size", "8", "--min-replay", "16")
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii:strict"}
ROOT = str(Path(tdu.__file__).parents[1])


def environment(**more):
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH"))))} | more


def python(code, *arguments, **settings):
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, **settings)


def test_a_run_without_any_display_is_a_run_like_any_other(tmp_path):
    """`>&-` closes a descriptor, and the next opened file would get its number."""
    command = f'exec "{sys.executable}" -m tdu train deep_sea:size=4 --episodes 12 --progress plain --evaluate-every 5 '
    command += f'{" ".join(TINY)} --out "{tmp_path / "run"}" <&- >&- 2>&-'
    ended = subprocess.run(["sh", "-c", command], env=environment(**ASCII), timeout=300, check=False)
    assert ended.returncode == 0
    run = tdu.load(tmp_path / "run")
    assert run.log["episode"].tolist() == list(range(1, 13))
    assert run.result["episodes"] == 12


def test_a_broken_pipe_is_dropped_and_an_ascii_terminal_is_served():
    code = """
        import os, sys
        from tdu.cli.output import lasting_streams
        from tdu.errors import tell
        with lasting_streams():
            print("\\u03c3 \\u00b1")
            for _ in range(3):
                tell("\\u03c3 \\u00b1" * 2**15)
            print("still here", flush=True)
    """
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as broken:
        command = [sys.executable, "-c", textwrap.dedent(code)]
        ended = subprocess.run(
            command, env=environment(**ASCII), stdout=subprocess.PIPE, stderr=broken, timeout=60, check=False
        )
    assert ended.stdout.decode("ascii").splitlines() == ["? ?", "still here"]
    assert ended.returncode == 0


class Closed(io.StringIO):
    def write(self, text):
        raise BrokenPipeError


def test_a_run_that_loses_its_parent_is_told_to_end(monkeypatch):
    received = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        monkeypatch.setattr(progress, "facts", lambda report: {})
        progress.display("json", "run", Closed())[0](None)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]


COMMANDS = [
    "train",
    "check",
    "evaluate",
    "sweep",
    "score",
    "report",
    "plot",
    "watch",
    "reproduce",
    "list",
    "demo",
    "mnist",
]


def test_help_shows_every_command():
    shown = python("from tdu.cli import main; main(['--help'])").stdout
    assert re.findall(r"^  (\w+) ", shown.partition("commands")[2].partition("examples")[0], re.M) == COMMANDS


@pytest.mark.parametrize("command", ["", *COMMANDS, "train --agent su", "train --agent tdu_r2d2"])
def test_help_needs_no_jax(command):
    code = """
        import sys
        from tdu.cli import main
        try:
            main([*sys.argv[1:], "--help"])
        except SystemExit:
            print([name for name in ("jax", "scipy", "matplotlib", "safetensors", "bsuite") if name in sys.modules])
    """
    shown = python(code, *command.split())
    assert shown.stdout.splitlines()[0].startswith("usage: tdu")
    assert shown.stdout.splitlines()[-1] == "[]", shown.stderr


def started(command):
    """A process that heeds Ctrl-C. The tests may run with Ctrl-C ignored, and child processes inherit that."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
@pytest.mark.parametrize("library", ["_multiarray_umath", "jaxlib"])
def test_ctrl_c_while_modules_are_imported_is_no_traceback(library, tmp_path):
    """An extension module must not swallow the interrupt, because then the command would continue."""
    command = [sys.executable, "-m", "tdu", "train", "deep_sea:size=5", "--out", str(tmp_path / "run")]
    process = started(command)
    while library not in Path(f"/proc/{process.pid}/maps").read_text():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == (b"", b"tdu: interrupted.\n")
    assert process.returncode == 130
    assert not (tmp_path / "run").exists()


def test_ctrl_c_outside_imports_is_what_it_was():
    code = """
        import os, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from tdu import interrupts
        with interrupts.heeded():
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                print("caught")
        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    """
    assert python(code).stdout.split() == ["caught", "True"]


def test_ctrl_c_within_jax_s_garbage_collection_is_not_lost():
    code = """
        import contextlib, gc, signal, time
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from tdu import interrupts
        from tdu.run.signals import Signals

        def _xla_gc_callback(phase, info):
            if phase == "start" and not sent:
                sent.append(phase)
                signal.raise_signal(signal.SIGINT)

        gc.callbacks.append(_xla_gc_callback)
        for first in ((), (signal.SIGINT,)):
            with interrupts.heeded(), Signals(lambda words: None) if first else contextlib.nullcontext():
                for number in first:  # within a run, the second Ctrl-C ends the process
                    signal.raise_signal(number)
                sent = []
                try:
                    gc.collect()
                    time.sleep(30)
                except KeyboardInterrupt:
                    print("caught")
    """
    assert python(code).stdout.split() == ["caught", "caught"]


def test_ctrl_c_while_compiling_ends_with_its_exit_code(tmp_path):
    """Without care, the interpreter crashes in most cases when it is taken apart afterwards."""
    for moment in (0.5, 1.5):
        process = started(
            [sys.executable, "-m", "tdu", "train", "deep_sea:size=10", "--out", str(tmp_path / str(moment))]
        )
        assert process.stderr.readline().startswith(b"tdu: compiling")
        time.sleep(moment)
        process.send_signal(signal.SIGINT)
        assert b"interrupted" in process.communicate(timeout=120)[1]
        assert process.returncode == 130
