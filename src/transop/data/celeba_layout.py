"""CelebA's published layout: names of files and attributes, and the two text tables.

::

    img_align_celeba/000001.jpg ...    or img_align_celeba.zip
    list_attr_celeba.txt               count, 40 names, then a file name and 40 times -1 or 1
    list_eval_partition.txt            a file name and 0 (train), 1 (validation) or 2 (test)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int8, Int64

from transop.errors import DataError

IMAGES = "img_align_celeba"
ATTRIBUTES_FILE = "list_attr_celeba.txt"
PARTITION_FILE = "list_eval_partition.txt"
FACTORS_FILE = "factors.npz"  # only beside generated faces

# fmt: off
CELEBA_ATTRIBUTES: tuple[str, ...] = (
    "5_o_Clock_Shadow", "Arched_Eyebrows", "Attractive", "Bags_Under_Eyes", "Bald", "Bangs",
    "Big_Lips", "Big_Nose", "Black_Hair", "Blond_Hair", "Blurry", "Brown_Hair",
    "Bushy_Eyebrows", "Chubby", "Double_Chin", "Eyeglasses", "Goatee", "Gray_Hair",
    "Heavy_Makeup", "High_Cheekbones", "Male", "Mouth_Slightly_Open", "Mustache",
    "Narrow_Eyes", "No_Beard", "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline",
    "Rosy_Cheeks", "Sideburns", "Smiling", "Straight_Hair", "Wavy_Hair", "Wearing_Earrings",
    "Wearing_Hat", "Wearing_Lipstick", "Wearing_Necklace", "Wearing_Necktie", "Young",
)
# The paper classifies 16 attributes and names some of them (smile, beard, hair colour, pale
# skin); these 16 are visible at 64 x 64 and are the ones the generated faces carry.
SIXTEEN_ATTRIBUTES: tuple[str, ...] = (
    "5_o_Clock_Shadow", "Bald", "Bangs", "Black_Hair", "Blond_Hair", "Brown_Hair", "Chubby",
    "Eyeglasses", "Gray_Hair", "Mouth_Slightly_Open", "Mustache", "No_Beard", "Pale_Skin",
    "Smiling", "Wearing_Hat", "Wearing_Lipstick",
)
# fmt: on


@dataclass(frozen=True)
class AttributeTable:
    """The content of ``list_attr_celeba.txt``."""

    files: tuple[str, ...]
    names: tuple[str, ...]
    values: Int8[np.ndarray, "files names"]  # -1 or 1


def parse_attributes(text: str, where: str) -> AttributeTable:
    """Read the attribute table.

    Args:
        text: the file's content.
        where: the file's name, for messages.

    Raises:
        DataError: the count, the names or a row is not as published.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 3 or not lines[0].strip().isdigit():
        raise DataError(
            f"'{where}' is not CelebA's attribute table: it must begin with the number of images "
            "and a line of 40 attribute names; get the file as published"
        )
    names = tuple(lines[1].split())
    if len(names) != len(CELEBA_ATTRIBUTES):
        raise DataError(
            f"'{where}' names {len(names)} attributes on line 2, CelebA has "
            f"{len(CELEBA_ATTRIBUTES)}; get the file as published"
        )
    rows = lines[2:]
    if len(rows) != int(lines[0]):
        raise DataError(
            f"'{where}' announces {lines[0].strip()} images but lists {len(rows)}; "
            "the file is cut short or edited: get it as published"
        )
    return AttributeTable(*_parse_rows(rows, names, where))


def _parse_rows(
    rows: list[str], names: tuple[str, ...], where: str
) -> tuple[tuple[str, ...], tuple[str, ...], Int8[np.ndarray, "files names"]]:
    files = []
    values = np.empty((len(rows), len(names)), dtype=np.int8)
    for i, row in enumerate(rows):
        file, *cells = row.split()
        if len(cells) != len(names):
            raise DataError(
                f"'{where}' has {len(cells)} attribute values for {file} (row {i + 1}) instead of "
                f"{len(names)}; get the file as published"
            )
        if not set(cells) <= {"-1", "1"}:
            odd = next(cell for cell in cells if cell not in {"-1", "1"})
            raise DataError(f"'{where}' has the attribute value {odd!r} for {file}; use -1 or 1")
        files.append(file)
        values[i] = [1 if cell == "1" else -1 for cell in cells]
    return tuple(files), names, values


def parse_partition(text: str, files: Sequence[str], where: str) -> Int64[np.ndarray, " files"]:
    """Read which part (0, 1 or 2) each of the given files belongs to.

    Raises:
        DataError: a row is malformed, or a file is not listed.
    """
    parts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        cells = line.split()
        if cells and (len(cells) != 2 or cells[1] not in {"0", "1", "2"}):
            raise DataError(
                f"'{where}' line {number} is {line.strip()[:60]!r}; expected a file name and 0 "
                "(train), 1 (validation) or 2 (test)"
            )
        if cells:
            parts[cells[0]] = int(cells[1])
    missing = [file for file in files if file not in parts]
    if missing:
        raise DataError(
            f"'{where}' does not say to which part {len(missing)} of {len(files)} images belong "
            f"(first: {missing[0]}); get the file as published"
        )
    return np.array([parts[file] for file in files], dtype=np.int64)
