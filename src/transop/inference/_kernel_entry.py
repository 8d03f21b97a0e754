"""The compiled kernel's one door: plain addresses in, so that any caller can use it.

Only this module and the ``_lanes`` ones it calls need numba; they are imported to compile.
"""

from typing import Any

from numba import carray, njit, types  # type: ignore[attr-defined]
from numba.np.unsafe.ndarray import to_fixed_tuple

from transop.inference._group_lanes import solve_range
from transop.inference._lanes import compiled_for, take_ticket
from transop.inference._rooms import (
    ANSWER_COLUMNS,
    MAX_TERMS,
    N_ROOMS,
    OPERATORS_AT_ONCE,
    REGISTER_BYTES,
    STATE_ROWS,
    Quadrature,
    Rooms,
    round_up,
)

_round_up: Any = njit(round_up)
_fixed: Any = to_fixed_tuple  # the compiler hands over an argument that its signature shows


def _solve_chunks(
    ws_at: Any,
    rooms_at: Any,
    state_at: Any,
    listed_at: Any,
    counter_at: Any,
    psi_at: Any,
    columns_at: Any,
    norms_at: Any,
    pairs_at: Any,
    answers_at: Any,
    table_at: Any,
    counts_at: Any,
    numbers_at: Any,
) -> int:
    """Solve chunks of pairs until no ticket is left; see ``gauss_newton_numba`` for the arrays."""
    rooms = Rooms(*_fixed(carray(rooms_at, (N_ROOMS,)), N_ROOMS))
    n_chunks, n_pairs, few, many, max_iterations = _fixed(carray(counts_at, (5,)), 5)
    norm_for_few, precision, rounding, tolerance = _fixed(carray(numbers_at, (4,)), 4)
    m, d = rooms.n_operators, rooms.dimension
    table = carray(table_at, (2 * (few + many + 2) * MAX_TERMS,))
    rule = Quadrature(table, few, many, norm_for_few, precision, rounding)
    ws = carray(ws_at, (rooms.total,))
    state = carray(state_at, (STATE_ROWS, REGISTER_BYTES // ws.itemsize))
    listed = carray(listed_at, (m + OPERATORS_AT_ONCE,))
    counter = carray(counter_at, (1,))
    psi = carray(psi_at, (_round_up(m, OPERATORS_AT_ONCE) * d * d,))
    columns = carray(columns_at, ((m + 1) * d * rooms.padded,))
    norms = carray(norms_at, (m,))
    pairs = carray(pairs_at, (n_pairs, 2 * d + 2 * m))
    answers = carray(answers_at, (n_pairs, m + ANSWER_COLUMNS))
    while True:
        chunk = take_ticket(counter)
        if chunk >= n_chunks:
            return 0
        solve_range(
            ws,
            rooms,
            state,
            listed,
            chunk * n_pairs // n_chunks,
            (chunk + 1) * n_pairs // n_chunks,
            psi,
            columns,
            norms,
            pairs,
            answers,
            rule,
            max_iterations,
            tolerance,
        )


def compile_kernel(precision: str) -> tuple[str, str]:
    """Compile the kernel for a precision, ``"float32"`` or ``"float64"``.

    Returns:
        Its optimised LLVM assembly and the name of the function in it, which takes the
        addresses of a place for the result and one for an exception before the arguments.
    """
    pointer: Any = types.CPointer
    real, whole = pointer(getattr(types, precision)), pointer(types.int64)
    double = pointer(types.float64)
    arguments = (
        *(real, whole, double, whole, whole),
        *(real, real, double, real, real, real),
        *(whole, double),
    )
    function = compiled_for(types.int64(*arguments))(_solve_chunks)
    made = function.overloads[arguments]
    return made.library.get_llvm_str(), made.fndesc.llvm_func_name
