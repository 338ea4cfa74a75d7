"""The few constants of a machine that the cost of a fit follows from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from phimap._validation import check_real

#: Forms in which rows come, and the constant that says how fast each is decoded; rows in memory cost nothing.
FORMATS = {"memory": None, "csv": "csv", "parquet": "parquet", "npy": "npy"}


@dataclass(frozen=True)
class Machine:
    """Measured constants of one core, and of the process and the network around it.

    Attributes
    ----------
    name : str
        What was measured, and when.
    single, double : float
        Matrix products in 10^9 operations a second of one core, in float32 and in float64.
    bandwidth : float
        Bytes that one core moves between memory and itself in a second, where it adds one large array to another.
    dense, structured, ntk : float
        Seconds in which a core forms one feature of one row in float32: Fourier features of 28 columns with stored
        directions, with structured ones, and features of the neural tangent kernel.
    csv, parquet, npy : float
        Seconds in which a core reads one number from such a file, the system's cache being warm.
    network : float
        Bytes that go from one worker to another in a second. No measurement on one machine tells it.
    process : float
        Bytes of a process that has loaded the library and its compiled functions.

    Notes
    -----
    **Error.** A constant measured again differs by some 5 % on a quiet machine. **Cost** none.
    **Differs from the source in** nothing: these are measurements.
    """

    name: str
    single: float
    double: float
    bandwidth: float
    dense: float
    structured: float
    ntk: float
    csv: float
    parquet: float
    npy: float
    network: float
    process: float

    def __post_init__(self) -> None:
        for field in fields(self)[1:]:
            check_real(field.name, getattr(self, field.name), above=0.0)

    def to_dict(self) -> dict[str, Any]:
        """The constants by name, as `Machine(**constants)` takes them."""
        return asdict(self)

    def products(self, operations: float, itemsize: int) -> float:
        """Seconds of that many operations of matrix products, in numbers of `itemsize` bytes."""
        return operations / (1e9 * (self.single if itemsize == 4 else self.double))

    def moves(self, n_bytes: float) -> float:
        """Seconds of that many bytes from and to memory."""
        return n_bytes / self.bandwidth

    def reads(self, n_numbers: float, file_format: str) -> float:
        """Seconds in which one core decodes that many numbers."""
        constant = FORMATS[file_format]
        return 0.0 if constant is None else n_numbers * getattr(self, constant)


#: The machine of the figures in the documentation. Written by ``benchmarks/cost.py --machine``.
REFERENCE = Machine(
    name="AMD EPYC (Zen 4), one of two cores, 2026-11-22",
    single=91.1,
    double=50.5,
    bandwidth=19.0e9,
    dense=1.3e-9,
    structured=1.3e-9,
    ntk=4.2e-9,
    csv=60e-9,
    parquet=12.4e-9,
    npy=4.6e-9,
    network=1.25e9,
    process=357e6,
)
