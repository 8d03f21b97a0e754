"""Tables of the study with known angles: turntables and moving light."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean
from typing import Any

from transop_paper.numbers.layout import Measurements, from_file, table

Measured = Mapping[str, Any]  # the content of a JSON file
Place = tuple[str, ...]  # where a number stands in the measurements of a seed

_FEWEST = 2  # seeds for which a range is shown
_AWAY = 100  # times the length of the real turn: such a path ran away
_BEST = ", best start"
_OPERATORS = {
    "operators, neighbours, 16": "16 operators, neighbours",
    "operators, time, 16": "16 operators, time",
}
_ONE = {
    f"operators, neighbours, 1{_BEST}": "one operator, neighbours",
    f"operators, time, 1{_BEST}": "one operator, time",
}
_LINES = {
    "straight lines": "straight lines",
    "cae": "straight lines, contractive autoencoder",
    "beta-vae": "straight lines, β-VAE, β = 1",
}
_FITTED = {
    "fitted with the angle, all": "one generator for all objects, fitted with the angle",
    "fitted with the angle, each": "one generator for each object, fitted with the angle",
}
_DEGREES = ("6", "12", "24", "48")


def _values(measured: Measured, place: Place) -> list[float | None]:
    """Find one number of every seed; None where it was not measured or is not finite."""
    found = []
    for seed in measured["seeds"].values():
        for key in place:
            seed = None if seed is None else seed.get(key)
        found.append(seed)
    return found


def _cell(
    measured: Measured, *place: str, digits: int = 2, unit: float = 1, spread: bool = True
) -> str:
    """Write the mean over seeds, with the smallest and the largest in brackets."""
    every = _values(measured, place)
    values = [unit * value for value in every if value is not None]
    if not values:
        return ""
    if len(values) < min(_FEWEST, len(every)):
        return f"{_number(values[0], digits)} (one seed)"
    if not spread or len(values) < _FEWEST:
        return _number(mean(values), digits)
    centre, least, most = (_number(f(values), digits) for f in (mean, min, max))
    return f"{centre} ({least} to {most})"


def _number(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}"  # no minus before a zero


def _follows(measured: Measured, factor: str, columns: Mapping[str, str]) -> str:
    """R squared of every reading with a known change."""
    names = {**_OPERATORS, **_ONE, **_LINES}
    if factor == "angle":
        names |= _FITTED
    rows = [
        [name, *(_cell(measured, part, factor, column) for column in columns)]
        for part, name in names.items()
    ]
    return table([f"R² with the {factor}", *columns.values()], rows)


def _turns(measured: Measured) -> str:
    """Whole turns by the flow of mean coefficients."""
    best, every = "turn, best operator", "turn, all operators"
    flows = [(part, every, name.replace("16", "all 16")) for part, name in _OPERATORS.items()]
    flows += [(part, best, f"best of {name}") for part, name in _OPERATORS.items()]
    flows += [(part, best, name) for part, name in {**_ONE, **_FITTED}.items()]
    rows = []
    for part, turn, name in flows:
        ends = zip(
            *(_values(measured, (part, turn, k)) for k in ("closing", "length")), strict=True
        )
        ran_away = any(end is not None and (far is None or far > _AWAY) for end, far in ends)
        length = "runs away" if ran_away else _cell(measured, part, turn, "length")
        angle = _cell(measured, part, turn, "angle error", digits=0)
        cells = [_cell(measured, part, turn, key) for key in ("closing", "shown")]
        rows.append([name, cells[0], angle, cells[1], length])
    return table(["a whole turn", "closing", "angle error, °", "shown", "length"], rows)


def _ahead(measured: Measured, where: Mapping[str, str], flows: Mapping[str, str]) -> str:
    """Turns that are continued, by operators and by straight lines."""
    rows = []
    for part, words in where.items():
        ahead = f"ahead, {part}"
        places: dict[str, Place] = {"straight line": ("straight lines", ahead, "straight line")}
        for flow, name in flows.items():
            places[name] = (flow, ahead, "operators")
            short = (flow, ahead, "straight line of their length")
            places[f"straight line as short as {name}"] = short
        for number, (name, place) in enumerate(places.items()):
            cells = [_cell(measured, *place, degrees, spread=False) for degrees in _DEGREES]
            rows.append(["" if number else words, name, *cells])
    return table(["", "turned on by", *(f"{degrees}°" for degrees in _DEGREES)], rows)


def _smoothness(measured: Measured) -> str:
    """Cosines between steps of the turn."""
    names = {
        "photographs, 32 pixels": "images, 32 pixels",
        "photographs, 8 pixels": "images averaged to 8 pixels",
        "straight lines": "latents of the network",
        "cae": "latents of the contractive autoencoder",
        "beta-vae": "latents of the β-VAE",
    }
    rows = [
        [name, *(_cell(measured, part, "smoothness", degrees) for degrees in _DEGREES)]
        for part, name in names.items()
    ]
    return table(["cosine of steps", *(f"{degrees}°" for degrees in _DEGREES)], rows)


def _starts(measured: Measured) -> str:
    """What learning from one random start and from the best of many ends with."""
    rows = []
    for m, words in (("1", "one operator"), ("16", "16 operators")):
        for kind in ("neighbours", "time"):
            for start, told in (("", "a random start"), (_BEST, "the best start")):
                part = f"operators, {kind}, {m}{start}"
                rows.append(
                    [
                        f"{words}, {kind}, {told}",
                        _cell(measured, part, "facts", "starts as good", digits=1, unit=100),
                        _cell(measured, part, "facts", "objective", unit=1000),
                        _cell(measured, part, "facts", "living", digits=0, spread=False),
                        _cell(measured, part, "angle", "one way"),
                        _cell(measured, part, "angle", "held-out one"),
                        _cell(measured, part, "angle", "unseen one"),
                    ]
                )
    head = ["learned from", "as good, %", "objective × 1000", "alive", "one way"]
    return table([*head, "held-out, one", "unseen, one"], rows)


def _relight(measured: Measured) -> str:
    """Errors of unseen people relit by what others show."""
    shown, paths = "mean difference", "mean difference of their paths"
    places: dict[str, Place] = {
        **{name: (part, "relight", "operators") for part, name in {**_OPERATORS, **_ONE}.items()},
        shown: ("straight lines", "relight", shown),
        **{
            name.replace("straight lines", shown): (part, "relight", shown)
            for part, name in list(_LINES.items())[1:]
        },
        **{f"{shown} of the paths of {n}": (p, "relight", paths) for p, n in _OPERATORS.items()},
        "no move": ("straight lines", "relight", "standing still"),
        "the decoded photograph": ("straight lines", "relight", "reconstruction"),
    }
    rows = [
        [
            name,
            *(_cell(measured, *place, key) for key in ("near", "front")),
            _cell(measured, *place, "pixels", digits=3),
        ]
        for name, place in places.items()
    ]
    return table(["relit by", "near", "front", "error per pixel, front"], rows)


_TURN_COLUMNS = {
    "held-out one": "held-out angles, one",
    "held-out own": "own scale",
    "held-out all": "all",
    "unseen one": "unseen objects, one",
    "unseen all": "all",
}
_LIGHT_COLUMNS = {
    "held-out one": "held-out lights, one",
    "held-out all": "all",
    "unseen one": "unseen people, one",
    "unseen all": "all",
}
_UNSEEN = {"unseen": "unseen objects"}


def _turntable(
    name: str, where: Mapping[str, str], flows: Mapping[str, str]
) -> dict[str, Callable[[Measurements], str]]:
    """Name the tables of a turntable."""
    file = f"ground-truth-{name}"
    return {
        file: from_file(file, _follows, factor="angle", columns=_TURN_COLUMNS),
        f"{file}-turns": from_file(file, _turns),
        f"{file}-ahead": from_file(file, _ahead, where=where, flows=flows),
        f"{file}-smoothness": from_file(file, _smoothness),
        f"{file}-starts": from_file(file, _starts),
    }


_LIGHT = "ground-truth-yale"
# Name in a page's mark, and how the table is written.
TRUTH: dict[str, Callable[[Measurements], str]] = {
    **_turntable("turntable", {"held-out": "held-out angles", **_UNSEEN}, _OPERATORS),
    **_turntable("drawn", _UNSEEN, {**_OPERATORS, **_ONE}),
    **{
        f"{_LIGHT}-{factor}": from_file(_LIGHT, _follows, factor=factor, columns=_LIGHT_COLUMNS)
        for factor in ("azimuth", "elevation")
    },
    f"{_LIGHT}-relight": from_file(_LIGHT, _relight),
}
