"""A few measured constants of a machine, from which the cost of a fit is computed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from phimap._validation import check_real

#: Formats of the rows. `Machine` has a constant for the time of decoding each; rows in memory take no time.
FORMATS = ("memory", "csv", "parquet", "npy")


@dataclass(frozen=True)
class Machine:
    """Measured constants of one core, of the network between workers, and of the process.

    Attributes
    ----------
    name : str
        Description of the machine, and date of the measurement.
    single, double : float
        Speed of one core in matrix products, in 10^9 operations per second, in float32 and in float64.
    bandwidth : float
        Bytes per second that one core moves from and to memory while it adds one large array to another.
    dense, structured, ntk : float
        Seconds in which one core forms one feature of one row in float32. `dense` and `structured` are for Fourier
        features of 28 columns, with stored and with structured directions. `ntk` is for features of the neural tangent
        kernel.
    csv, parquet, npy : float
        Seconds in which one core reads one number from a file of this format, with a warm system cache.
    network : float
        Bytes per second from one worker to another. This constant cannot be measured on one machine.
    process : float
        Memory in bytes of a process that has loaded the library and its compiled functions.

    Notes
    -----
    **Error.** Repeated measurements of a constant differ by about 5 % on a quiet machine. **Cost** none.
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
        """Return the constants by name, as keyword arguments of `Machine`."""
        return asdict(self)

    def products(self, operations: float, itemsize: int) -> float:
        """Return the seconds of matrix products with `operations` operations on numbers of `itemsize` bytes."""
        return operations / (1e9 * (self.single if itemsize == 4 else self.double))

    def moves(self, n_bytes: float) -> float:
        """Return the seconds in which one core moves `n_bytes` bytes from and to memory."""
        return n_bytes / self.bandwidth

    def reads(self, n_numbers: float, file_format: str) -> float:
        """Return the seconds in which one core reads `n_numbers` numbers from rows in `file_format`."""
        return 0.0 if file_format == "memory" else n_numbers * getattr(self, file_format)


#: Machine to which the times in the documentation refer. Measured and written by ``benchmarks/cost.py --machine``.
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
