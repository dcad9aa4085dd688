"""Films of a trained agent: GIF with Pillow, MP4 with ffmpeg, the system's or that of the extra `films`."""

import io
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jax
import numpy as np

from tdu import files
from tdu.environments.pictures import Frame, Stage
from tdu.errors import UserError, writing
from tdu.run.trained import TrainedAgent
from tdu.types import TimeStep

MAX_FRAMES = 5000
_MAX_BYTES = 2**30  # Size of all frames, which are in memory
KINDS = (".gif", ".mp4")

Policy = Callable[[int], Callable[[TimeStep], int]]  # policy(episode) -> a function from time steps to actions


def chosen(agent: TrainedAgent, *, head: int | None, explorer: bool) -> tuple[Policy, str]:
    """A policy, greedy on the exploiters' mean, on a head, or on an explorer, another one in each episode; and its name."""

    def greedy(episode: int) -> Callable[[TimeStep], int]:
        agent.begin_episode()
        return agent.act_on

    if head is None and not explorer:
        return greedy, "greedy on the exploiters' mean"
    examiner = agent.examiner
    if examiner is None:
        raise UserError("this agent has no separate heads to act on; watch it with --greedy.")
    count, q = examiner.exploiters + examiner.explorers, jax.jit(examiner.q)
    if explorer and not examiner.explorers:
        raise UserError("this agent has no explorers; choose one of its heads with --head, or --greedy.")
    if head is not None and head >= count:
        raise UserError(f"this agent has heads 0 to {count - 1}, not {head}.")
    heads = range(examiner.exploiters, count) if head is None else [head]

    def on_a_head(episode: int) -> Callable[[TimeStep], int]:
        acting = heads[episode % len(heads)]
        return lambda timestep: int(np.argmax(np.asarray(q(agent.params, timestep.observation))[acting]))

    if head is None:
        return on_a_head, "explorers, one after the other"
    return on_a_head, f"head {head}, {'an exploiter' if head < examiner.exploiters else 'an explorer'}"


def played(stage: Stage, policy: Policy, *, episodes: int, longest: int) -> Iterator[tuple[int, int, float, bool]]:
    """Plays; yields (episode, step, return so far, whether the episode has ended) before the first step and after each."""
    for episode in range(episodes):
        timestep, total = stage.reset(episode), 0.0
        act = policy(episode)
        yield episode, 0, total, False
        for step in range(1, longest + 1):
            timestep = stage.step(act(timestep))
            total += float(timestep.reward)
            yield episode, step, total, bool(timestep.last)
            if timestep.last:
                break


def film(frames: Sequence[Frame], path: Path, frames_per_second: int) -> None:
    """Writes a film; all frames have one size."""
    is_gif = path.suffix == ".gif"
    data = gif(frames, 1000 // frames_per_second) if is_gif else _mp4(frames, frames_per_second)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(path, data)


def check(path: Path) -> None:
    """Raises if no film can be written to the path."""
    if path.suffix not in KINDS:
        raise UserError(f"{path} must end with .gif or .mp4.")
    if path.suffix == ".mp4" and _ffmpeg() is None:
        other = path.with_suffix(".gif")
        raise UserError(f"an .mp4 needs ffmpeg, which is not installed: pip install 'tdu[films]', or write {other}.")
    if path.exists():
        raise UserError(f"{path} exists; choose another --out.")
    with writing(path):
        files.try_to_write(next(parent for parent in path.absolute().parents if parent.exists()))


def is_full(frames: Sequence[Frame]) -> bool:
    """Whether a film has its maximum length."""
    return len(frames) >= MAX_FRAMES or (bool(frames) and len(frames) * frames[0].nbytes >= _MAX_BYTES)


def gif(frames: Sequence[Frame], milliseconds: int) -> bytes:
    """A GIF that loops, with a pause on the last frame."""
    from PIL import Image

    pictures = [Image.fromarray(frame).quantize(64, dither=Image.Dither.NONE) for frame in frames]
    times = [milliseconds] * (len(pictures) - 1) + [max(1500, milliseconds)]
    buffer = io.BytesIO()
    looped = {"duration": times, "loop": 0, "optimize": True, "disposal": 1}
    pictures[0].save(buffer, "GIF", save_all=True, append_images=pictures[1:], **looped)
    return buffer.getvalue()


def _ffmpeg() -> str | None:
    if found := shutil.which("ffmpeg"):
        return found
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):  # not installed, or no binary for this machine
        return None


def _mp4(frames: Sequence[Frame], frames_per_second: int) -> bytes:
    height, width = (side - side % 2 for side in frames[0].shape[:2])
    with tempfile.TemporaryDirectory() as folder:
        raw, out = Path(folder) / "film.raw", Path(folder) / "film.mp4"
        command = [str(_ffmpeg()), "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}",
                   "-r", str(frames_per_second), "-i", str(raw), "-pix_fmt", "yuv420p", str(out)]  # fmt: skip
        with writing(raw), open(raw, "wb") as f:
            for frame in frames:
                f.write(np.ascontiguousarray(frame[:height, :width]).tobytes())
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            words = done.stderr.decode(errors="replace").strip().splitlines()
            raise UserError(f"ffmpeg could not make the film: {words[-1] if words else 'no message'}.")
        return out.read_bytes()
