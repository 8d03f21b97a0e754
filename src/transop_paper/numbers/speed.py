"""Tables of time and memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from transop_paper.numbers.layout import Measurements, amount, table

_PHASES = ("autoencoder", "operators", "fine_tuning", "classifier", "coefficient_encoder")


def _large_sets(read: Measurements) -> str:
    measured = read("large-sets")
    sizes, growth = measured["results"], measured["growth"]
    names = list(sizes[0]["steps"])[1:]
    rows = []
    for name in names:
        seconds = [one["steps"][name]["cpu_seconds"] for one in sizes]
        overall, last = growth[name]["power_overall"], growth[name]["power_at_the_end"]
        words = f"n^{overall:.1f}, n^{last:.1f} at the end" if overall > 0.2 else "hardly any"
        shown = (f"{s:.1f}" if s < 10 else f"{s:.0f}" for s in seconds)
        rows.append([f"{name}: CPU seconds", *shown, words])
    recall = [f"{one['recall']:.3f}" for one in sizes]
    rows.append(["recall of the neighbours", *recall, ""])
    for words, steps in (("while training the autoencoder", names[:1]), ("of all steps", names)):
        peaks = [max(one["steps"][step]["peak_megabytes"] for step in steps) for one in sizes]
        per_image = f"{growth[steps[-1]]['bytes_per_image']:.0f} bytes per image"
        shown = (f"{peak:.0f}" for peak in peaks)
        rows.append([f"highest memory {words}, MB", *shown, per_image])
    return table(["images", *(f"{one['n_images']:,}" for one in sizes), "growth"], rows)


def _two_processes(read: Measurements) -> str:
    speed = read("two-processes")["speed_up"]
    columns = (*_PHASES, "whole command")
    rows = [
        [name, *(f"{row[column]:.1f}" for column in columns)]
        for name, row in list(speed.items())[1:]
    ]
    head = [column.replace("fine_t", "fine-t").replace("_", " ") for column in columns]
    return table(["", *head], rows)


def _inference(read: Measurements, *, place: int) -> str:
    report = read("inference")["sizes"][place]
    size = report["size"]
    rows = []
    for run in report["runs"]:
        seconds = sorted(run["seconds"])[len(run["seconds"]) // 2]
        worst = run["worst_pair"]
        rows.append(
            [
                run["solver"],
                amount(seconds),
                amount(run["ratio"]),
                f"{run['objective']:.5f}",
                "" if worst is None else f"{worst:.4f}",
                f"{run['non_zeros']:.1f}",
                _percent(run["converged"]),
            ]
        )
    title = f"latent {size['dimension']}, {size['n_operators']} operators, {size['n_pairs']} pairs"
    columns = ["seconds", "times ours", "mean objective", "worst pair", "non-zeros", "converged"]
    return table([title, *columns], rows)


def _inference_sweep(read: Measurements) -> str:
    found: dict[tuple[int, ...], list[dict[str, Any]]] = {}
    for point in read("inference")["sweep"]:
        size = point["size"]
        key = tuple(size[name] for name in ("dimension", "n_blocks", "n_operators", "n_pairs"))
        found.setdefault(key, []).append(point)
    rows = []
    for (dimension, blocks, operators, pairs), points in found.items():
        with_reference = [point for point in points if point["reference_seconds"] is not None]
        ratios = [point["reference_seconds"] / point["seconds"] for point in with_reference]
        rows.append(
            [
                str(dimension) if blocks == 1 else f"{dimension} in {blocks} blocks",
                str(operators),
                str(pairs),
                ", ".join(amount(1e3 * point["seconds"], 2) for point in points),
                ", ".join(amount(point["reference_seconds"]) for point in with_reference),
                ", ".join(amount(ratio) for ratio in ratios),
                ", ".join(f"{point['objective_ratio']:.3f}" for point in with_reference),
            ]
        )
    head = ["dimensions", "operators", "pairs", "ours near, far (ms)"]
    head += ["proximal-nesterov near, far (s)", "times ours", "our objective over its"]
    return table(head, rows)


def _operator_training(read: Measurements) -> str:
    measured = read("operator-training")
    size = measured["size"]
    rows = [
        [
            words,
            f"{amount(1e3 * run['seconds_per_batch'])} ms",
            f"{amount(run['epoch_seconds'])} s",
            f"{run['objective']:.5f}",
        ]
        for words, run in (
            ("ours", measured["ours"]),
            ("authors' algorithm", measured["authors"]),
        )
    ]
    batch, epoch = f"{size['batch_size']:,} pairs", f"{size['n_pairs']:,} pairs"
    return table(["", f"per batch of {batch}", f"per epoch of {epoch}", "objective"], rows)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _augmentation_speed(read: Measurements, *, side: int) -> str:
    speeds = [one for one in read("augmentation-speed")["speeds"] if one["image_size"] == side]
    rows = [
        [
            one["name"],
            amount(one["images_per_second"]),
            f"{one['over_elastic']:.2f}",
            "" if one["peak_share"] is None else _percent(one["peak_share"]),
        ]
        for one in speeds
    ]
    return table([f"{side} x {side}", "images/s", "/ elastic", "of peak"], rows)


def _training_loops(read: Measurements, *, side: int) -> str:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in read("training-loops")["speeds"]:
        if one["image_size"] == side:
            found.setdefault(one["augmentation"], []).append(one)
    rows = []
    for name, places in found.items():
        cells = [name]
        for one in sorted(places, key=lambda one: int(one["workers"])):
            cells += [amount(one["images_per_second"]), _percent(one["waiting"])]
            cells.append(f"{one['over_elastic']:.2f}")
        rows.append(cells)
    columns = ["images/s", "waiting", "time / elastic"]
    head = [*(f"main: {c}" for c in columns), *(f"workers: {c}" for c in columns)]
    return table([f"{side} x {side}", *head], rows)


SPEED: dict[str, Callable[[Measurements], str]] = {
    "large-sets": _large_sets,
    "two-processes": _two_processes,
    "inference-10": partial(_inference, place=0),
    "inference-32": partial(_inference, place=1),
    "inference-sweep": _inference_sweep,
    "operator-training": _operator_training,
    "augmentation-speed-28": partial(_augmentation_speed, side=28),
    "augmentation-speed-64": partial(_augmentation_speed, side=64),
    "training-loops-28": partial(_training_loops, side=28),
    "training-loops-64": partial(_training_loops, side=64),
}
