"""Turn images into perceptual features: a pretrained classifier's pre-logit layer."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.thread import BrokenThreadPool
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from transop.data import ImageDataset
from transop.errors import UserError
from transop.extras import plugged_in
from transop.files import digest_of_file, reason_of
from transop.networks import prefer_channels_last
from transop.networks.efficientnet_lite import load_efficientnet_lite0
from transop.progress import Progress, silent
from transop.sharing import ALONE, Ranks

ImageFunction = Callable[[Tensor], Tensor]

# Feature maps of about so many input pixels stay in a core's cache: larger batches are slower.
_PIXELS_PER_BATCH = 2**18
_LARGEST_BATCH = 256


@dataclass(frozen=True)
class FeatureExtractor:
    """A function from images in [0, 1] to features, and how best to call it."""

    function: ImageFunction  # (b, channels, h, w) floats to (b, f) floats
    batch_size: int  # images per call
    key: str | None  # names function and settings for the cache; None if that is impossible
    module: nn.Module | None = None  # the network inside, moved to the device before use


def input_size_for(image_size: int) -> int:
    """Choose the side to which images are enlarged before an ImageNet network sees them.

    ImageNet networks halve an image five times, so 28 pixels would shrink to one. The 224 pixels
    they were trained on take 25 times as long as 40, and enlarging blurs: for 28 pixels,
    nothing below 96 was clearly better than 40. docs/pairs.md has the measurements. So: about one
    and a half times the side, in steps of 8, between 40 and 224.
    """
    return min(max(8 * round(1.5 * image_size / 8), 40), 224)


def batch_size_for(input_size: int) -> int:
    """Choose how many images of a size go through a network at once."""
    return max(1, min(_PIXELS_PER_BATCH // input_size**2, _LARGEST_BATCH))


def prepare_images(images: Float[Tensor, "b c h w"], input_size: int) -> Float[Tensor, "b 3 s s"]:
    """Bring images in [0, 1] to a size and to three channels, in the layout CPUs like best."""
    shrinks = images.shape[-1] > input_size  # enlarging needs no filter against aliasing
    if images.shape[-1] != input_size:
        images = F.interpolate(
            images, size=(input_size, input_size), mode="bilinear", antialias=shrinks
        )
    return images.expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last)


def extract_features(
    dataset: ImageDataset,
    rows: Int64[Tensor, " n"],
    extractor: FeatureExtractor,
    *,
    progress: Progress = silent,
) -> Float[Tensor, "n f"]:
    """Run images through an extractor: float16 on the CPU, one row per image."""
    return collect_rows(feature_blocks(dataset, rows, extractor, progress=progress), len(rows))


def collect_rows(blocks: Iterable[Float[Tensor, "b f"]], n_rows: int) -> Float[Tensor, "n f"]:
    """Put blocks of rows together in memory, without ever holding them twice."""
    collected, start = torch.empty(0), 0
    for block in blocks:
        if start == 0:
            collected = block.new_empty(n_rows, block.shape[1])
        collected[start : start + len(block)] = block
        start += len(block)
    return collected


def feature_blocks(
    dataset: ImageDataset,
    rows: Int64[Tensor, " n"],
    extractor: FeatureExtractor,
    *,
    device: torch.device | str = "cpu",
    ranks: Ranks = ALONE,
    progress: Progress = silent,
) -> Iterator[Float[Tensor, "b f"]]:
    """Run images through an extractor, a batch at a time, in half precision.

    Half precision halves memory and disk; rounding to three digits reorders only neighbours
    that are equally near for any practical purpose.

    On the CPU, batches run side by side, one per thread; all processes of a data-parallel run
    share the work and get all features.
    """
    if extractor.module is not None:
        extractor.module.to(device)

    def features_of(start: int) -> Tensor:
        with torch.inference_mode():  # thread-local, so every worker enters it
            chosen = rows[start : start + extractor.batch_size]
            found = extractor.function(dataset.batch(chosen, device=device))
            _check_output(found, len(chosen))
            return found.flatten(1).half().cpu()

    starts = range(0, len(rows), extractor.batch_size)
    own = starts[ranks.rank :: ranks.n_ranks]
    n_threads = torch.get_num_threads() if torch.device(device).type == "cpu" else 1
    found = map(features_of, own) if n_threads == 1 else _side_by_side(features_of, own, n_threads)
    for block in progress(ranks.collect(found, len(starts)), "perceptual features", len(starts)):
        yield block.clone()  # leaves inference mode: callers may use it with autograd


def _side_by_side(
    features_of: Callable[[int], Tensor], starts: range, n_threads: int
) -> Iterator[Tensor]:
    """Compute several batches at a time, each on one thread; give them in order.

    Splitting batches between threads beats splitting every layer: no thread waits for another
    at the end of each of a hundred small layers.
    """
    remaining = iter(starts)
    with ThreadPoolExecutor(n_threads, initializer=_use_one_thread) as pool:

        def submit(n_batches: int) -> list[Future[Tensor]]:
            try:
                return [pool.submit(features_of, start) for start in islice(remaining, n_batches)]
            except RuntimeError as error:  # a thread that cannot start
                raise BrokenThreadPool from error

        try:
            # Waiting for the oldest of a few batches keeps order and bounds what is in memory.
            waiting = submit(2 * n_threads)
            while waiting:
                block = waiting.pop(0).result()
                waiting += submit(1)
                yield block
        except BrokenThreadPool as error:
            raise UserError(
                f"{n_threads} threads for features cannot be started; use fewer: OMP_NUM_THREADS=1"
            ) from error
        finally:
            # The workers' setting also became the default of threads yet to come: put that back.
            torch.set_num_threads(n_threads)


def _use_one_thread() -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()  # torch fixes a thread's number at the first question


def _check_output(found: object, n_images: int) -> None:
    if not isinstance(found, Tensor) or found.ndim < 2 or len(found) != n_images:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise UserError(
            f"features: the function returned {shape} for {n_images} images; "
            "it must return a tensor with one row per image"
        )


def efficientnet_lite0(input_size: int, weights: Path | None, cache_dir: Path) -> FeatureExtractor:
    """Offer the 1280 pre-logit features of EfficientNet-Lite0, whose weights are a package."""
    del cache_dir
    origin = "package" if weights is None else digest_of_weights(weights)
    network = load_efficientnet_lite0(weights)
    return pre_logits("efficientnet-lite0", network, input_size, origin)


# From the side of the network's input, a weights file and the root of the cache.
Backbone = Callable[[int, Path | None, Path], FeatureExtractor]
BACKBONES: dict[str, Backbone] = {
    "auto": efficientnet_lite0,
    "efficientnet-lite0": efficientnet_lite0,
}


def known_backbones() -> dict[str, Backbone]:
    """List the networks by name: ours, and the entry points ``transop.backbones`` of others."""
    return {**BACKBONES, **plugged_in("transop.backbones")}


def pre_logits(name: str, network: Any, input_size: int, origin: str) -> FeatureExtractor:
    """Wrap a network with a method ``features`` so that it takes images of any size and colour.

    ``origin`` tells its weights from others, for the cache.
    """
    network.requires_grad_(False)
    prefer_channels_last(network)

    def describe(images: Tensor) -> Tensor:
        found: Tensor = network.features(prepare_images(images, input_size))
        return found

    return FeatureExtractor(
        describe, batch_size_for(input_size), f"{name}/{origin}/{input_size}", module=network
    )


def digest_of_weights(path: Path) -> str:
    """Tell a weights file from others by its content; a file that cannot be read is named."""
    try:
        return digest_of_file(path)[:16]
    except OSError as error:
        raise UserError(f"weights='{path}' cannot be read ({reason_of(error)})") from error
