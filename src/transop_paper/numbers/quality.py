"""Tables of what was learned and of what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean
from typing import Any

from transop_paper.numbers.layout import (
    Measurements,
    amount,
    from_file,
    interval,
    percent,
    table,
)

Measured = dict[str, Any]  # the content of a JSON file

_RECIPES = ("mnist", "fashion")
_AGAINST = {"person": "against anyone else", "person_same_sex": "against others of the same sex"}


def _kept_identity(measured: Measured, title: str) -> str:
    lengths = [f"{length:.1f}" for length in measured["runs"][0]["curves"][0]["length"]]
    names = {
        "labels": "coefficient encoder, labels",
        "graph": "coefficient encoder, graph",
        "one fixed scale": "one fixed scale",
    }
    rows = [
        [names[source], *(f"{100 * centre:.1f} ± {100 * half:.1f}" for centre, half in row)]
        for source, row in measured["mean"].items()
    ]
    return table([f"{title}, scales from", *lengths], rows)


def _kept_person(measured: Measured, key: str, title: str) -> str:
    """Give one score of moved faces by way of moving and length, mean over runs."""
    runs, lengths = measured["runs"], measured["lengths"]

    def cell(found: list[Any]) -> str:
        if isinstance(found[0], float):
            return interval(found)
        centre = interval([value for value, _ in found])
        return centre if len(found) > 1 else f"{centre} ± {100 * found[0][1]:.1f}"

    rows = [
        [way, *(cell([run["moves"][way][i][key] for run in runs]) for i in range(len(lengths)))]
        for way in runs[0]["moves"]
    ]
    still = cell([run["unmoved"][key] for run in runs])
    return table(
        [f"{title}, moved by", *(f"{length:g}" for length in lengths)],
        [["not moved", *[still] * len(lengths)], *rows],
    )


def _fidelity(measured: Measured) -> str:
    """Compare the reconstructions of several runs."""
    runs = measured["runs"]
    measures = [name for name in next(iter(runs.values())) if name != "attributes of photographs"]
    rows = [[name, *(f"{found[key]:.3g}" for key in measures)] for name, found in runs.items()]
    return table(["autoencoder", *measures], rows)


def _verification(measured: Measured) -> str:
    """Say how well the measure of likeness knows people it was not fitted on."""
    runs = measured["runs"]
    rows = [
        [
            name,
            *(interval([run["measure"][name][key][0] for run in runs]) for key in _AGAINST),
        ]
        for name in runs[0]["measure"]
    ]
    return table(["compared with photographs", *_AGAINST.values()], rows)


def _input_size(measured: Measured) -> str:
    """Give the agreement of neighbours on both data sets by the size of images."""
    sets = measured["datasets"]
    rows = []
    for mnist, fashion in zip(sets["mnist"], sets["fashion-mnist"], strict=True):
        size = mnist["input_size"]
        first = ["pixel values, no network", ""]
        if size is not None:
            first = [str(size), amount(mnist["images_per_second"], 2)]
        rows.append([*first, *(f"{one['agreement']:.3f}" for one in (mnist, fashion))])
    return table(["side in pixels", "images/s", "MNIST", "Fashion-MNIST"], rows)


def _coverage(measured: Measured) -> str:
    keys = ("label errors", "missed", "misled")
    rows = [
        [row["title"], *(f"{100 * row[key]:.1f} %" for key in keys)] for row in measured["rows"]
    ]
    return table(["images", "wrong labels", "missed", "misled"], rows)


def _operator_names(measured: Measured) -> str:
    facts, arrays = measured["facts"], measured["arrays"]
    measures, units = facts["measures"], facts["units"]
    rows = []
    for place, (operator, name) in enumerate(zip(facts["operators"], facts["names"], strict=True)):
        effect = [abs(value) for value in arrays["effect"][place]]
        first, second = sorted(range(len(effect)), key=lambda k: -effect[k])[:2]
        unit = units[first].replace("degrees", "°")
        rows.append(
            [
                str(operator),
                name,
                measures[first],
                f"{effect[first]:.2f} ± {arrays['half_width'][place][first]:.2f}",
                f"{abs(arrays['slope'][place][first]):.1f} {unit}",
                percent(arrays["agreement"][place][first]),
                f"{measures[second]} {effect[second]:.2f}",
            ]
        )
    head = ["operator", "name", "changes most", "change", "in its unit", "agree", "second"]
    return table(head, rows)


def _attributes(measured: Measured) -> str:
    facts, arrays = measured["facts"], measured["arrays"]
    columns = (
        *(facts[key] for key in ("attributes", "best", "best_share")),
        *(arrays[key] for key in ("n_starts", "recognised", "mistaken")),
    )
    rows = [
        [name.replace("_", " "), str(best), percent(share), f"{starts:.0f}", *map(percent, seen)]
        for name, best, share, starts, *seen in sorted(
            zip(*columns, strict=True), key=lambda row: -row[2]
        )
    ]
    head = ["attribute", "best operator", "share", "starts", "recognised", "mistaken"]
    return table(head, rows)


def _kill_and_resume(measured: Measured) -> str:
    aims = ", ".join(
        f"{aim.replace('_', ' ')} {count}"
        for aim, count in sorted(measured["kills_by_aim"].items())
    )
    rows = [
        ["kills", f"{measured['n_kills']} ({aims})"],
        ["kills during a write", str(measured["n_while_writing"])],
        ["runs compared", str(measured["n_runs_compared"])],
        ["runs that ended differently", str(len(measured["different"]))],
    ]
    return table(
        ["stored run, [kill-and-resume.json](measurements/kill-and-resume.json)", ""], rows
    )


def _attack(measured: Measured) -> str:
    kinds = measured["by_kind"]
    keys = ("tried", "used", "refused")
    total = {key: sum(row.get(key, 0) for row in kinds.values()) for key in keys}
    rows = [
        [kind, *(str(row.get(key, 0)) for key in keys)]
        for kind, row in {**kinds, "all": total}.items()
    ]
    return table(["kind", *keys], rows)


def _recipes(measured: Measured) -> str:
    """One column of all seeds, separated by slashes."""
    runs = measured["runs"]

    def each(phase: str, fact: str, form: str, factor: float = 1) -> str:
        values = [run["phases"].get(phase, {}).get(fact) for run in runs]
        return " / ".join("–" if v is None else format(factor * v, form) for v in values)

    seconds = [sum(phase["seconds"] for phase in run["phases"].values()) for run in runs]
    kept = [
        each("coefficient_encoder", f"kept_{how}_at_0.3", ".1f", 100)
        for how in ("encoded", "fixed")
    ]
    error = each("autoencoder", "test_mse", ".4f")
    rows = [
        ["seconds of all phases", " / ".join(f"{total:.0f}" for total in seconds)],
        ["of these the autoencoder", each("autoencoder", "seconds", ".0f")],
        ["test reconstruction, squared error per pixel", error],
        ["the same after fine-tuning", each("fine_tuning", "test_mse", ".4f")],
        ["living operators", each("fine_tuning", "living", ".0f")],
        ["largest real part", each("fine_tuning", "largest_real_part", ".2f")],
        ["training pairs with equal labels", each("operators", "label_agreement", ".3f")],
        ["accuracy of the run's classifier, %", each("classifier", "test_accuracy", ".1f", 100)],
        ["moves of length 0.3 that keep the classifier's label, %", kept[0]],
        ["the same with one fixed scale, %", kept[1]],
    ]
    seeds = " / ".join(str(run["seed"]) for run in runs)
    return table(["quantity", f"{'seeds' if len(runs) > 1 else 'seed'} {seeds}"], rows)


def _extrapolation(measured: Measured) -> str:
    """Accuracy of paths and control by position, mean over seeds."""
    runs = measured["runs"]
    times = runs[0]["times"]

    def row(
        name: str, values: Callable[[Mapping[str, Any], int], float], **style: Any
    ) -> list[str]:
        cells = [interval([values(run, i) for run in runs], **style) for i in range(len(times))]
        return [name, *cells]

    rows = [
        row("operators", lambda run, i: run["paths"][i]),
        row("control", lambda run, i: run["control"][i]),
        row("curvature", lambda run, i: run["paths"][i] - run["control"][i], sign="+"),
    ]
    return table(["t", *(f"{t:g}" for t in times)], rows)


def _longer(measured: Measured) -> str:
    """Compare two ways of training, seed by seed."""
    ways = (measured["longer"], measured["mnist"])

    def row(name: str, values: Callable[[Measured], list[float]], digits: int = 1) -> list[str]:
        longer, recipe = (values(way) for way in ways)
        cells = [" / ".join(f"{one:.{digits}f}" for one in found) for found in (longer, recipe)]
        return [name, *cells, f"{mean(recipe) - mean(longer):+.{digits}f}"]

    def phase(name: str, fact: str, factor: float = 1) -> Callable[[Measured], list[float]]:
        return lambda way: [factor * run["phases"][name][fact] for run in way["runs"]]

    def along(how: str, t: float, curvature: bool = False) -> Callable[[Measured], list[float]]:
        def values(way: Measured) -> list[float]:
            found = []
            for run in way[how]:
                i = run["times"].index(t)
                found.append(100 * (run["paths"][i] - curvature * run["control"][i]))
            return found

        return values

    kept = phase("coefficient_encoder", "kept_encoded_at_0.3", 100)
    rows = [
        row("test error, after fine-tuning", phase("fine_tuning", "test_mse"), 4),
        row("label kept by moves of length 0.3, %", kept),
        row("share covered at a residual of 0.12", lambda way: _covered(way["residual"]), 2),
    ]
    for how, told in (("residual", "residual 0.12"), ("covered", "0.8 covered")):
        rows += [row(f"accuracy at t = {t:g}, {told}", along(how, t)) for t in (1.5, 2.0, 3.0)]
        rows.append(row(f"curvature at t = 3, {told}", along(how, 3.0, curvature=True)))
    seeds = " / ".join(str(run["seed"]) for run in measured["mnist"]["runs"])
    return table([f"seeds {seeds}", "trained longer", "recipe", "mean difference"], rows)


def _covered(runs: list[Measured]) -> list[float]:
    return [run["covered"] for run in runs]


def _along_paths(measured: Measured) -> tuple[list[float], dict[str, list[list[float]]]]:
    """Give the positions, and of every method its accuracies there: of each position all runs."""
    runs = measured["runs"]
    names = runs[0]["facts"]["series"]
    of_runs = [run["arrays"]["accuracy"] for run in runs]
    accuracy = {
        name: [list(found) for found in zip(*(one[k] for one in of_runs), strict=True)]
        for k, name in enumerate(names)
    }
    return runs[0]["arrays"]["times"], accuracy


def _rivals(measured: Measured) -> str:
    """Accuracy of every method by position on the path."""
    times, accuracy = _along_paths(measured)
    shown = [times.index(t) for t in (0.5, 1, 1.5, 2, 2.5, 3)]
    names = {"mae": "operators", "control": "control", "ae": "straight lines, plain autoencoder"}
    names |= {"cae": "straight lines, contractive", "beta-vae": "straight lines, beta-VAE"}
    rows = [[names[key], *(interval(found[i]) for i in shown)] for key, found in accuracy.items()]
    return table(["t", *(f"{times[i]:g}" for i in shown)], rows)


def _identity(read: Measurements) -> str:
    """Give the share of labels kept by moves of length 0.3 on both data sets."""
    words = {
        "labels": "learned, with all labels",
        "graph": "learned, without any label",
        "one fixed scale": "one fixed scale of the same length (control)",
    }
    found = [read(f"kept-identity-{name}") for name in _RECIPES]
    place = [f"{x:.1f}" for x in found[0]["runs"][0]["curves"][0]["length"]].index("0.3")
    rows = [
        [
            told,
            *(
                "{:.1f} ± {:.1f}".format(*(100 * x for x in one["mean"][source][place]))
                for one in found
            ),
        ]
        for source, told in words.items()
    ]
    return table(["ranges (label kept, %)", "MNIST", "Fashion-MNIST"], rows)


def _extrapolation_in_short(read: Measurements) -> str:
    """Give the share of MNIST pairs that keep their class on the way of our paths and of lines."""
    times, accuracy = _along_paths(read("rivals-mnist"))
    places = [times.index(t) for t in (1, 2, 3)]
    words = {
        "mae": "learned paths",
        "control": "straight lines to the same end points, same network (control)",
        "ae": "straight lines, plain autoencoder",
    }
    rows = [[told, *(interval(accuracy[key][i]) for i in places)] for key, told in words.items()]
    return table(["paths (class kept, %)", "at the end", "twice as far", "three times"], rows)


# Name in a page's mark, and how the table is written.
QUALITY: dict[str, Callable[[Measurements], str]] = {
    "kept-identity-mnist": from_file("kept-identity-mnist", _kept_identity, title="MNIST"),
    "kept-identity-fashion": from_file(
        "kept-identity-fashion", _kept_identity, title="Fashion-MNIST"
    ),
    "kept-identity-celeba": from_file(
        "kept-identity-celeba", _kept_identity, title="CelebA, sixteen attributes"
    ),
    "fidelity-celeba": from_file("fidelity-celeba", _fidelity),
    "verification-celeba": from_file("kept-person-celeba", _verification),
    **{
        f"kept-{key.replace('_', '-')}-celeba": from_file(
            "kept-person-celeba", _kept_person, key=key, title=title
        )
        for key, title in (
            ("person", "same person, against anyone"),
            ("person_same_sex", "same person, against the same sex"),
            ("attributes", "attributes kept"),
        )
    },
    "input-size": from_file("input-size", _input_size),
    "coverage-mnist": from_file("coverage-mnist", _coverage),
    "operator-names-mnist": from_file("operator-names-mnist", _operator_names),
    **{
        f"attributes-{name}": from_file(f"attributes-{name}", _attributes)
        for name in ("celeba", "faces")
    },
    "kill-and-resume": from_file("kill-and-resume", _kill_and_resume),
    "attack": from_file("attack", _attack),
    **{f"recipe-{name}": from_file(f"recipe-{name}", _recipes) for name in (*_RECIPES, "celeba")},
    "recipe-faces": from_file("faces", _recipes),
    **{
        f"extrapolation-{name}": from_file(f"extrapolation-{name}", _extrapolation)
        for name in _RECIPES
    },
    **{f"rivals-{name}": from_file(f"rivals-{name}", _rivals) for name in _RECIPES},
    "longer-mnist": from_file("longer-mnist", _longer),
    "identity": _identity,
    "extrapolation": _extrapolation_in_short,
}
