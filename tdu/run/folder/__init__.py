"""A run's folder: config.json, log.csv, learner.csv, checkpoints/ and result.json, locked while the run is under way."""

import csv
import io
import math
import os
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

from tdu import files
from tdu.errors import RunError, reading, setting, writing
from tdu.files import Json
from tdu.run.folder import checkpoints, snapshots
from tdu.run.folder.lock import LOCKS, Lock
from tdu.run.folder.lock import is_in_use as is_in_use
from tdu.run.folder.log import EMPTY, GrowingFile, Log, LogWriter, matches
from tdu.run.folder.log import read_log as read_log
from tdu.run.folder.records import GreedyReturn as GreedyReturn
from tdu.run.folder.records import RunConfig as RunConfig
from tdu.run.folder.records import RunResult as RunResult
from tdu.run.folder.records import read_json as read_json
from tdu.run.folder.records import template, versions, without_limits, written_json
from tdu.run.runners.protocol import Clock, Saved
from tdu.run.runners.rows import Column, Row

CONFIG = "config.json"
LOG = "log.csv"
LEARNER_LOG = "learner.csv"
EVALUATIONS = "evaluations.csv"
RECORD = "record.jsonl"
EVENTS = "events.csv"
BEST = "best"
CHECKPOINTS = "checkpoints"
RESULT = "result.json"
_HAS_CHECKPOINTS = ".has-checkpoints"
"""An empty file that exists once a checkpoint was saved. Without its checkpoints, such a run does not begin anew."""


class Folder:
    """A run's folder, opened for writing."""

    def __init__(self, path: str | os.PathLike[str], *, resume: bool):
        self.path = Path(path)
        self._is_made_here = self._is_begun_here = False
        with writing(self.path):
            self._refuse_if_taken(resume)
            try:
                self.path.mkdir(parents=True)
                self._is_made_here = True
            except FileExistsError:
                pass  # an existing folder may be used
        self._lock = Lock(self.path)
        try:
            self._refuse_if_taken(resume)
        except RunError:
            self._lock.release()
            raise
        self._logs: dict[str, LogWriter] = {}  # log.csv from the beginning, others from their first row
        self._record: GrowingFile | None = None
        self._versions: list[dict[str, str]] = []
        for name in (CONFIG, RESULT):
            for left_over in self.path.glob(f".{name}{files.WRITING}*"):
                left_over.unlink(missing_ok=True)

    def _refuse_if_taken(self, resume: bool) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; choose another --out.")
        names = {*os.listdir(self.path)} - LOCKS if self.path.is_dir() else set()
        names = {name for name in names if not name.startswith(f".{CONFIG}{files.WRITING}")}
        if names and not resume:
            begun = (
                ""
                if CHECKPOINTS in names or CONFIG not in names
                else "; it has no checkpoint, so it would start from the beginning"
            )
            raise RunError(
                f"{self.path} already exists; continue it (--resume, or resume=True{begun}) or choose another folder (--out)."
            )
        if names and CONFIG not in names:
            raise RunError(f"{self.path} has files but no config.json, so it is not a run; choose another --out.")

    def withdraw(self) -> None:
        """Deletes the folder of a run that could not start: if this object created both, and it has no checkpoint."""
        if self._is_made_here and self._is_begun_here and not (self.path / _HAS_CHECKPOINTS).exists():
            self._close_logs()
            shutil.rmtree(self.path, ignore_errors=True)  # the lock is still held: some file systems keep its name

    def read_config(self) -> RunConfig | None:
        return read_config(self.path) if (self.path / CONFIG).exists() else None

    def write_config(self, config: RunConfig) -> None:
        with writing(self.path / CONFIG):
            files.write_atomically(self.path / CONFIG, written_json(config.to_file()))
        self._is_begun_here = True

    def clock(self, config: RunConfig) -> Clock:
        """Where the run is: at its end, or at its last checkpoint. Damaged checkpoints are reported when it is restored."""
        result = read_result(self.path)
        if result is not None:
            return Clock(result.steps, result.episodes)
        manifest = _last_manifest(self.path, config, lambda words: None)
        if manifest is None:
            return Clock(0, 0)
        return Clock(manifest.step, len(read_log(self.path / LOG, upto=manifest.log.bytes)["episode"]))

    def write_result(self, result: RunResult) -> None:
        """Writes result.json, which marks the run as finished."""
        with writing(self.path / RESULT):
            files.write_atomically(self.path / RESULT, written_json(result.to_file()))

    def open_logs(
        self, columns: tuple[Column, ...], at: checkpoints.Manifest | None, config: RunConfig | None = None
    ) -> None:
        """Opens the logs, truncated to their length at a checkpoint. Best agents of a later step are deleted.

        The run is unfinished from then on. With `config`, it may have other limits; its checkpoints stay valid.
        """
        if at is None and any(os.path.lexists(self.path / name) for name in (_HAS_CHECKPOINTS, RESULT)):
            raise RunError(
                f"the checkpoints of {self.path} are missing, so it cannot be continued; put {self.path / CHECKPOINTS} "
                "back (is a disk not mounted?) or choose another folder."
            )
        with writing(self.path / RESULT):
            (self.path / RESULT).unlink(missing_ok=True)
            files.flush_folder(self.path)
        if config is not None and config != self.read_config():
            self.write_config(config)
        before, now = [] if at is None else at.versions, versions()
        self._versions = before if before[-1:] == [now] else [*before, now]
        checkpoints.delete_after(self.path / BEST, -1 if at is None else at.step)
        self._logs[LOG] = LogWriter(self.path / LOG, columns, keep=EMPTY.bytes if at is None else at.log.bytes)
        for name in (LEARNER_LOG, EVALUATIONS, RECORD):
            seen = EMPTY if at is None else at.other_logs.get(name, EMPTY)
            if not seen.bytes:
                (self.path / name).unlink(missing_ok=True)
            elif name == RECORD:
                self._record = GrowingFile(self.path / name, keep=seen.bytes)
            else:
                self._logs[name] = LogWriter(self.path / name, None, keep=seen.bytes)

    @property
    def record_is_empty(self) -> bool:
        """Whether nothing is recorded yet."""
        return self._record is None

    def add_to_record(self, line: bytes) -> None:
        """Appends a line to record.jsonl, which is created with the first."""
        if self._record is None:
            self._record = GrowingFile(self.path / RECORD)
        self._record.write(line)

    def append(self, name: str, rows: list[Row]) -> None:
        if rows and name not in self._logs:
            self._logs[name] = LogWriter(self.path / name, None)
        if rows:
            self._logs[name].append(rows)

    def note_event(self, *, steps: int, event: str) -> None:
        """Appends to events.csv, which is never truncated."""
        path = self.path / EVENTS
        with writing(path), io.TextIOWrapper(files.open_own(path, append=True), "utf-8", newline="") as f:
            rows = csv.writer(f, lineterminator="\n")
            if not f.seek(0, os.SEEK_END):
                rows.writerow(("time", "steps", "event"))
            rows.writerow((datetime.now(UTC).isoformat(timespec="milliseconds"), steps, event))

    def save_checkpoint(
        self, saved: Saved, *, step: int, config: RunConfig, seconds: float, best: bool = False
    ) -> checkpoints.Manifest:
        """Writes a checkpoint with the logs' current lengths; the best agent's goes to a folder of its own."""
        place = self.path / (BEST if best else CHECKPOINTS)
        if best:  # enough to act, not to continue training
            saved = saved._replace(arrays={}, segments={})
        logs: dict[str, GrowingFile] = self._logs | ({} if self._record is None else {RECORD: self._record})
        for log in logs.values():
            log.flush()
        stamps = {name: log.stamp() for name, log in logs.items()}
        with writing(place):
            manifest = checkpoints.save(
                place,
                saved,
                step=step,
                run=config.to_json(),
                seconds=seconds,
                log=stamps.pop(LOG),
                other_logs=stamps,
                versions=self._versions,
            )
            if not best:
                files.open_own(self.path / _HAS_CHECKPOINTS).close()
                checkpoints.delete_old(place)
            checkpoints.delete_all_but_best(self.path / BEST, self.path / CHECKPOINTS)
            return manifest

    def close(self) -> None:
        self._close_logs()
        self._lock.release()

    def _close_logs(self) -> None:
        for log in (*self._logs.values(), self._record):
            if log is not None:
                log.close()
        self._logs, self._record = {}, None


def make_folder(path: Path) -> None:
    """Creates a folder for runs if it does not exist."""
    with writing(path):
        if path.exists() and not path.is_dir():
            raise RunError(f"{path} is a file; choose another folder.")
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(13, "permission denied")


def find_runs(folder: Path) -> list[Path]:
    """The folders of all runs in a folder, including incomplete ones and those that cannot be read."""
    with reading(folder):
        inside = [folder / name for name in os.listdir(folder)]
    return sorted(filter(_may_be_run, inside), key=_natural)


def _may_be_run(folder: Path) -> bool:
    try:
        return not {CONFIG, LOG, RESULT, CHECKPOINTS}.isdisjoint(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _natural(path: Path) -> list[tuple[int, int, str]]:
    """A key that sorts 9 before 10."""
    parts = re.findall(r"\d+|\D+", path.name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


def read_config(folder: Path) -> RunConfig:
    return RunConfig.from_json(read_json(folder / CONFIG), folder / CONFIG)


def read_template(path: Path) -> Json:
    """Settings for a new run, from a config.json or a run's folder."""
    path = path / CONFIG if path.is_dir() else path
    return template(read_json(path), path)


def read_result(folder: Path) -> RunResult | None:
    """A run's result.json, or None if it has not finished. The checksums of result, config and log are verified."""
    path, log = folder / RESULT, folder / LOG
    if not os.path.lexists(path):
        return None
    result = RunResult.from_json(read_json(path), path)
    if not result.belongs_to(read_config(folder)):
        raise RunError(f"{path} is not the result of the run in {CONFIG}.")
    with reading(log):
        if result.log_sha256 is not None and not (log.exists() and files.sha256(log)[1] == result.log_sha256):
            raise RunError(f"{log} was changed after the run wrote it.")
    return result


def read_checked_log(folder: Path, config: RunConfig, result: RunResult | None, say: checkpoints.Say) -> Log:
    """A run's log: all of it if it has finished, otherwise up to its last checkpoint."""
    if result is not None:
        return read_log(folder / LOG)
    manifest = _last_manifest(folder, config, say)
    return read_log(folder / LOG, upto=None if manifest is None else manifest.log.bytes)


def best_return(evaluations: Log) -> float:
    """The best evaluation return during a run; -inf if there is none."""
    return float(evaluations["greedy_return"].max()) if evaluations else -math.inf


def verify(folder: Path) -> None:
    """Raises RunError unless config, result, log and a checkpoint match their checksums."""
    config, result = read_config(folder), read_result(folder)
    checkpoints.verify(folder / CHECKPOINTS, _reason_against(folder, config, result))


def evaluations_at(folder: Path, at: checkpoints.Manifest | None) -> Log:
    """A run's evaluations, up to a checkpoint if one is given; empty if there are none."""
    log = read_log(folder / EVALUATIONS, upto=None if at is None else at.other_logs.get(EVALUATIONS, EMPTY).bytes)
    if log and not log.keys() >= {"episode", "steps", "greedy_return"}:
        raise RunError(f"{folder / EVALUATIONS} lacks a column.")
    return log if log and len(log["episode"]) else {}


def read_evaluations(folder: Path, config: RunConfig, say: checkpoints.Say) -> Log:
    """A run's evaluations up to its last checkpoint; empty if there are none."""
    if not (folder / EVALUATIONS).exists():
        return {}
    return evaluations_at(folder, _last_manifest(folder, config, say))


def read_record(folder: Path, config: RunConfig, say: checkpoints.Say) -> snapshots.Record | None:
    """A run's record up to its last checkpoint; None if it was not recorded."""
    if not (folder / RECORD).exists():
        return None
    manifest = _last_manifest(folder, config, say)
    return snapshots.read(folder / RECORD, upto=None if manifest is None else manifest.other_logs.get(RECORD, EMPTY))


def _last_manifest(folder: Path, config: RunConfig, say: checkpoints.Say) -> checkpoints.Manifest | None:
    return checkpoints.latest_manifest(folder / CHECKPOINTS, _reason_against(folder, config), say)


def latest_checkpoint(
    folder: Path, config: RunConfig, like: Saved, say: checkpoints.Say, *, set_aside: bool
) -> tuple[Saved, checkpoints.Manifest] | None:
    """The newest usable checkpoint of this run and its logs; None if there are no checkpoints."""
    reason_against = _reason_against(folder, config)
    return checkpoints.load_latest(folder / CHECKPOINTS, like, reason_against, say, set_aside=set_aside)


def final_checkpoint(
    folder: Path, config: RunConfig, result: RunResult, like: Saved
) -> tuple[Saved, checkpoints.Manifest]:
    """The checkpoint of a finished run's last step."""
    try:
        return checkpoints.load_step(folder / CHECKPOINTS, result.steps, like, _reason_against(folder, config, result))
    except RunError as e:
        raise RunError(
            f"{folder} is finished, but its last checkpoint cannot be used ({e}); to get its agent, run it again in "
            "another folder."
        ) from None


def best_checkpoint(folder: Path, config: RunConfig, like: Saved) -> tuple[Saved, checkpoints.Manifest]:
    """The checkpoint with the best evaluation."""
    try:
        found = checkpoints.load_latest(folder / BEST, like, _reason_against(folder, config), lambda words: None)
    except RunError as e:
        raise RunError(f"the best agent of {folder} cannot be used ({e}).") from None
    if found is None:
        raise RunError(f"{folder} has no best agent; train with {setting('evaluate_every')} to keep one.")
    return found


def _reason_against(folder: Path, config: RunConfig, result: RunResult | None = None) -> checkpoints.ReasonAgainst:
    """Why a checkpoint is not one of this run, or with a result not the one of its last step."""
    run = without_limits(config.to_json())

    def reason_against(manifest: checkpoints.Manifest) -> str | None:
        if result is not None:
            if result.checkpoint_sha256 not in (None, manifest.sha256()):
                return f"it does not match {RESULT}"
            for name in (LEARNER_LOG, EVALUATIONS, RECORD):
                size = (folder / name).stat().st_size if (folder / name).exists() else 0
                if size != manifest.other_logs.get(name, EMPTY).bytes:
                    return f"it does not match {name}"
        if without_limits(manifest.run) != run:
            return "it belongs to another run"
        for name, stamp in ((LOG, manifest.log), *manifest.other_logs.items()):
            if not matches(folder / name, stamp):
                return f"it does not match {name}"
        return None

    return reason_against
