"""The lock of a run's folder: one process at a time. The system releases it when a process dies.

On a file system without locks, a file with the process's id and host takes its place.
"""

import errno
import fcntl
import os
import socket
from pathlib import Path

from tdu import files
from tdu.errors import RunError, writing

_LOCK = ".lock"
_LOCK_FILE = ".lock-held"
LOCKS = {_LOCK, _LOCK_FILE}
"""Files of the lock, which are not part of the run."""


class Lock:
    """Held from its creation until `release`."""

    def __init__(self, folder: Path):
        self._folder, self._held = folder, False
        with writing(folder):
            self._file = files.open_own(folder / _LOCK)  # held for as long as the run
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise RunError(f"{folder} is in use by another process; wait for it or choose another --out.") from None
        except OSError as e:
            self._file.close()
            if e.errno not in (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL):
                raise RunError(f"{folder} cannot be locked ({e.strerror or e}); choose another --out.") from None
            self._take_file()

    def _take_file(self) -> None:
        path, owner = self._folder / _LOCK_FILE, f"{os.getpid()} {socket.gethostname()}"
        for _ in range(2):
            try:
                with writing(path), open(path, "x") as f:
                    f.write(owner)
                self._held = True
                return
            except RunError as e:
                if not isinstance(e.__cause__, FileExistsError):
                    raise
            if not _is_stale(path):
                break
            path.unlink(missing_ok=True)
        raise RunError(
            f"{self._folder} is in use by another process; wait for it, or delete {path} if there is no such process."
        )

    def release(self) -> None:
        self._file.close()
        if self._held:
            (self._folder / _LOCK_FILE).unlink(missing_ok=True)
            self._held = False


def is_in_use(folder: Path) -> bool:
    if (folder / _LOCK_FILE).exists() and not _is_stale(folder / _LOCK_FILE):
        return True
    try:
        with files.open_own(folder / _LOCK, create=False) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass  # there is no lock
    return False


def _is_stale(path: Path) -> bool:
    """Whether a lock file is of a process on this machine that no longer exists."""
    try:
        pid, _, host = files.read_bytes(path, 1000).decode().partition(" ")
        if host != socket.gethostname():
            return False
        os.kill(int(pid), 0)
    except (ProcessLookupError, FileNotFoundError):
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return False
