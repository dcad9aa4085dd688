"""The original MNIST files, which the user provides, read as bsuite reads them."""

import array
import gzip
import os
import struct
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from tdu.errors import UserError

TRAINING_FILES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")
MNIST_FILES = (*TRAINING_FILES, "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")


def digits_folder() -> Path:
    return Path(os.environ.get("TDU_MNIST") or Path.home() / ".cache" / "tdu" / "mnist")


def complete_folder(experiment: str, files: Sequence[str]) -> Path:
    """The folder, after checking that it has all files of an experiment."""
    folder = digits_folder()
    missing = [f for f in files if not (folder / f).is_file()]
    if missing:
        raise UserError(f"{experiment} needs the MNIST files in {folder}; {missing[0]} is missing; see tdu mnist.")
    return folder


def unreadable(folder: Path, error: Exception) -> UserError:
    words = str(error).rstrip(".") or type(error).__name__
    return UserError(f"the MNIST files in {folder} cannot be read ({words}); see tdu mnist.")


@lru_cache(maxsize=1)
def training_digits(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images [N, 28, 28] and labels [N] of the training set. Bytes are signed as in bsuite: bright pixels are negative."""
    images, labels = (folder / name for name in TRAINING_FILES)
    try:
        with gzip.open(images) as file:
            _, count, rows, columns = struct.unpack(">IIII", file.read(16))
            pixels = np.array(array.array("B", file.read())).view(np.int8).reshape(count, rows, columns)
        with gzip.open(labels) as file:
            file.read(8)
            numbers = np.array(array.array("B", file.read()))
    except (OSError, EOFError, ValueError, struct.error) as e:
        raise unreadable(folder, e) from None
    if len(pixels) != len(numbers) or not len(numbers):
        raise unreadable(folder, ValueError(f"{len(pixels)} images and {len(numbers)} labels"))
    return pixels, numbers
