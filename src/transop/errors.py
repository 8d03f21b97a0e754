"""The errors a user can cause; the command line prints them as one line and exits with 2."""

import difflib
from collections.abc import Iterable
from typing import Any

_SHOWN = 60  # characters of a wrong value in a message
_SHOWN_OF_NAME = 160  # of a file name


def show(value: Any) -> str:
    """Write a wrong value for a message: one line, shortened, whatever it is."""
    try:
        shape = getattr(value, "shape", None)
        if shape is not None and tuple(shape):
            return f"{type(value).__name__} of shape {tuple(shape)}"
        text = " ".join(repr(value).split())
    except Exception:  # a value that cannot even be shown, such as an integer of 5,000 digits
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({type(value).__name__})"


def shorten(name: str) -> str:
    """Cut the middle out of a long file name."""
    half = _SHOWN_OF_NAME // 2
    return name if len(name) <= _SHOWN_OF_NAME else f"{name[:half]}...{name[-half:]}"


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Hint at the choice that a misspelt word is nearest to, if any is near."""
    near = difflib.get_close_matches(word, list(choices), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


class UserError(ValueError):
    """A mistake the user can mend; the message names what, the value and the remedy."""


class SettingsError(UserError):
    """A setting is unknown, of the wrong type or impossible."""


class TensorError(UserError):
    """A tensor has the wrong shape, type or contents."""


class DataError(UserError):
    """A data set cannot be found, read or used."""


class MissingExtra(UserError):
    """An optional part of the installation is not there."""


class ProcessLost(UserError):
    """A process of a data-parallel run ended before its work was done."""


class ArtifactError(UserError):
    """A file of a run folder is missing, damaged, foreign or from a newer version."""
