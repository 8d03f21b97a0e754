"""Measure coefficient inference: our default beside the paper's solvers, in one run.

All solvers get the same pairs, objective and tolerance; the contenders start where the paper
starts, ours at zero, its default. The dictionaries are learned from
the 5,000 digits within the run (``digit_operators``), because random ones would need dense
coefficients and give a picture that no training run ever shows.
"""

import statistics
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transop.errors import UserError
from transop.inference import ConvergenceWarning, InferenceResult, infer_coefficients
from transop.operators import TransportOperators, build_generator, transport
from transop.progress import Progress, silent
from transop_paper.bench.digit_operators import SPARSITY_WEIGHT, LearnedProblem, learn_operators
from transop_paper.bench.peak import measure_peak
from transop_paper.contenders import ALL_SOLVERS

OUR_SOLVER = "gauss-newton"
REFERENCE = "proximal-nesterov"  # what the paper's authors ran
CONTENDERS = (REFERENCE, "proximal", "subgradient", "conjugate-gradient")
TOLERANCE = 1e-5
START_SPREAD = 0.02  # the paper's: variance 4e-4


@dataclass(frozen=True)
class Size:
    """How large one inference problem is."""

    dimension: int
    n_operators: int
    n_pairs: int


PAPER_SIZES = (Size(10, 16, 250), Size(32, 40, 100))
QUICK_SIZES = (Size(4, 5, 16), Size(10, 16, 16))


@dataclass(frozen=True)
class SolverRun:
    """What one solver reached on one problem, and how long it took."""

    solver: str
    seconds: tuple[float, ...]  # of every repeat
    objective: float  # mean over pairs
    non_zeros: float  # mean number of coefficients used per pair
    converged: float  # share of pairs
    iterations: float  # mean per pair
    ratio: float  # its median time over ours
    # our objective over its own, on the pair where we compare worst among those where it
    # converged; None if there are none
    worst_pair: float | None


@dataclass(frozen=True)
class SizeReport:
    """All solvers on one problem."""

    size: Size
    runs: tuple[SolverRun, ...]  # ours first
    flops: float  # useful floating-point operations of one of our runs, see ``count_flops``
    peak_share: float  # their rate in our fastest repeat, over the machine's measured peak


@dataclass(frozen=True)
class SweepSize(Size):
    """A size of the sweep; with blocks, the operators are block diagonal."""

    n_blocks: int = 1


SWEEP = (
    SweepSize(10, 16, 250),
    SweepSize(32, 32, 250),
    SweepSize(64, 32, 250),
    SweepSize(128, 32, 60),
    SweepSize(256, 32, 30),
    SweepSize(512, 32, 15),
    SweepSize(512, 32, 15, n_blocks=8),
)
QUICK_SWEEP = (SweepSize(10, 6, 8), SweepSize(48, 4, 4, n_blocks=3))
DISTANCES = {"near": 0.3, "far": 0.7}  # of z1 from z0, as a share of |z0|
# Numbers in the generators of a batch, above which the reference is left out.
_BEARABLE = 60 * 128**2


@dataclass(frozen=True)
class SweepPoint:
    """Ours, and the reference where the batch is small enough for it, at one size."""

    size: SweepSize
    distance: str  # "near" or "far"
    seconds: float  # median of ours
    iterations: float  # mean of ours
    converged: float  # share of the pairs
    reference_seconds: float | None  # one run of the reference
    objective_ratio: float | None  # our mean objective over the reference's


@dataclass(frozen=True)
class InferenceBenchmark:
    """Everything one run of the benchmark measured."""

    n_threads: int
    peak_gflops: float
    sparsity_weight: float
    tolerance: float
    sizes: tuple[SizeReport, ...]
    sweep: tuple[SweepPoint, ...]


def bench_inference(
    sizes: Sequence[Size] = PAPER_SIZES,
    *,
    repeats: int = 30,
    learning_steps: int = 400,
    sweep: Sequence[SweepSize] = (),
    seed: int = 0,
    progress: Progress = silent,
) -> InferenceBenchmark:
    """Time our default solver and its contenders on the same pairs.

    Args:
        sizes: the problems; the paper's two by default.
        repeats: runs of ours at least, of which the median counts; contenders run once.
        learning_steps: how long the dictionaries are learned.
        sweep: further sizes, with near and far pairs and random operators.
        seed: for dictionary, pairs and start.
        progress: shows the solvers as they run.
    """
    if repeats < 1:
        raise UserError(f"repeats={repeats} must be at least 1")
    peak = measure_peak(torch.get_num_threads())
    reports = []
    for size in sizes:
        problem = learn_operators(
            size.dimension, size.n_operators, n_steps=learning_steps, seed=seed
        )
        reports.append(_compare(problem, size, repeats, peak, seed, progress))
    return InferenceBenchmark(
        n_threads=torch.get_num_threads(),
        peak_gflops=peak / 1e9,
        sparsity_weight=SPARSITY_WEIGHT,
        tolerance=TOLERANCE,
        sizes=tuple(reports),
        sweep=tuple(_sweep(sweep, max(3, repeats // 6), seed, progress)),
    )


def _compare(
    problem: LearnedProblem, size: Size, repeats: int, peak: float, seed: int, progress: Progress
) -> SizeReport:
    """Run all solvers; ours a few times before each contender and after the last.

    Ours takes milliseconds: all its repeats in one go could meet one busy moment of the machine
    that the contenders' seconds average out.
    """
    pairs = _draw(problem, size, seed)
    found: dict[str, InferenceResult] = {}
    seconds: dict[str, tuple[float, ...]] = {OUR_SOLVER: ()}
    share = -(-repeats // (len(CONTENDERS) + 1))
    label = f"latent {size.dimension}, {size.n_operators} operators, {size.n_pairs} pairs"
    for name in progress([*CONTENDERS, OUR_SOLVER], label):
        found[OUR_SOLVER], times = _time(problem, pairs, OUR_SOLVER, share)
        seconds[OUR_SOLVER] += times
        if name != OUR_SOLVER:
            found[name], seconds[name] = _time(problem, pairs, name, 1)
    runs = [_summarise(name, result, seconds, found[OUR_SOLVER]) for name, result in found.items()]
    flops = count_flops(problem.operators, found[OUR_SOLVER])
    return SizeReport(size, tuple(runs), flops, flops / min(seconds[OUR_SOLVER]) / peak)


_Pairs = tuple[Float[Tensor, "b d"], Float[Tensor, "b d"], Float[Tensor, "b m"]]


def _draw(problem: LearnedProblem, size: Size, seed: int) -> _Pairs:
    """Draw pairs the dictionary was not tuned to, and the paper's random start."""
    generator = torch.Generator().manual_seed(seed + 1)
    z0, z1 = problem.draw_pairs(size.n_pairs, generator)
    start = START_SPREAD * torch.randn(size.n_pairs, size.n_operators, generator=generator)
    return z0, z1, start


def _time(
    problem: LearnedProblem, pairs: _Pairs, solver: str, repeats: int
) -> tuple[InferenceResult, tuple[float, ...]]:
    z0, z1, start = pairs

    def solve(part: slice) -> InferenceResult:
        return infer_coefficients(
            problem.operators,
            z0[part],
            z1[part],
            sparsity_weight=problem.sparsity_weight,
            solver=ALL_SOLVERS[solver],
            initial=None if solver == OUR_SOLVER else start[part],
            tolerance=TOLERANCE,
        )

    seconds = []
    with warnings.catch_warnings():
        # Not converging is a result here, and it stands in the table.
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = solve(slice(2))  # whatever is done on first use is not the solver's time
        for _ in range(repeats):
            begin = time.perf_counter()
            found = solve(slice(None))
            seconds.append(time.perf_counter() - begin)
    return found, tuple(seconds)


def _summarise(
    name: str,
    found: InferenceResult,
    seconds: dict[str, tuple[float, ...]],
    ours: InferenceResult,
) -> SolverRun:
    ratios = (ours.objective / found.objective.clamp_min(1e-30))[found.converged]
    return SolverRun(
        solver=name,
        seconds=seconds[name],
        objective=float(found.objective.mean()),
        non_zeros=float((found.coefficients != 0).sum(-1).double().mean()),
        converged=float(found.converged.double().mean()),
        iterations=float(found.iterations.double().mean()),
        ratio=statistics.median(seconds[name]) / statistics.median(seconds[OUR_SOLVER]),
        worst_pair=float(ratios.max()) if len(ratios) else None,
    )


def count_flops(operators: Float[Tensor, "m d d"], found: InferenceResult) -> float:
    """Count the useful floating-point operations of a Gauss-Newton run, multiply-adds as two.

    Per pair and iteration, with n coefficients in use and T terms of the series: generator and
    gradient (m d^2 each), flow there and back (T d^2 each) with its values at seven nodes, their
    outer products (7 d^2), n columns (2 d^2 each) and their Gram matrix. Coordinate sweeps and
    work on padding or on other pairs' operators are not counted: the share is a lower bound.
    """
    m, d, _ = operators.shape
    norms = torch.linalg.matrix_norm(build_generator(operators, found.coefficients), 2)
    terms = torch.ones_like(norms)
    size = norms.clone()
    while bool((size > 1e-8).any()):
        terms = terms + (size > 1e-8)
        size = size * norms / terms.clamp_min(1)
    n = (found.coefficients != 0).sum(-1).to(norms.dtype)
    per_iteration = (
        2 * m * d**2
        + 2 * terms * d**2
        + 16 * (terms + 1) * d
        + 7 * d**2
        + 2 * n * d**2
        + n * (n + 1) / 2 * d
    )
    return float((2 * per_iteration * found.iterations).double().sum())


def _sweep(
    sizes: Sequence[SweepSize], repeats: int, seed: int, progress: Progress
) -> list[SweepPoint]:
    """Time ours and the reference from few to many dimensions, on near and far pairs."""
    cases = [(size, distance) for size in sizes for distance in DISTANCES]
    points = []
    for size, distance in progress(cases, "sweep"):
        problem, pairs = _draw_apart(size, DISTANCES[distance], seed)
        ours, seconds = _time(problem, pairs, OUR_SOLVER, repeats)
        theirs, ratio = None, None
        if size.n_pairs * size.dimension**2 // size.n_blocks <= _BEARABLE:
            found, (theirs,) = _time(problem, pairs, REFERENCE, 1)
            ratio = float(ours.objective.mean() / found.objective.mean())
        points.append(
            SweepPoint(
                size,
                distance,
                statistics.median(seconds),
                float(ours.iterations.double().mean()),
                float(ours.converged.double().mean()),
                theirs,
                ratio,
            )
        )
    return points


def _draw_apart(size: SweepSize, distance: float, seed: int) -> tuple[LearnedProblem, _Pairs]:
    """Draw operators of norm two, and pairs that three operators explain half.

    The other half of the way from z0 to z1 is noise.
    """
    generator = torch.Generator().manual_seed(seed)
    d, m, n = size.dimension, size.n_operators, size.n_pairs
    operators = (
        2
        * TransportOperators(
            m, d, n_blocks=size.n_blocks, block_layout="diagonal", generator=generator
        ).operators.detach()
    )
    z0 = torch.nn.functional.normalize(torch.randn(n, d, generator=generator))
    planted = torch.randn(n, m, generator=generator)
    planted *= torch.rand(n, m, generator=generator).argsort(1) < 3
    reached = transport(operators, planted, z0) - z0
    noise = torch.randn(n, d, generator=generator)
    direction = torch.nn.functional.normalize(
        torch.nn.functional.normalize(reached) + torch.nn.functional.normalize(noise)
    )
    start = START_SPREAD * torch.randn(n, m, generator=generator)
    weight = 0.05 * distance
    none = torch.empty(n, 0, dtype=torch.int64)
    return LearnedProblem(operators, z0, none, weight), (z0, z0 + distance * direction, start)
