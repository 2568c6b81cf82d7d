"""Choice of the program that a start runs."""

from ..compiler.compiler import Compiled
from ..program import Program

__all__ = ["program_of"]


def program_of(compiled: Compiled, calibrate: bool, learns: bool) -> Program:
    """The program of a batch that calibrates, or else one in which the predictor learns or doesn't.

    Raises ValueError if the network was compiled for batches alone from which it learns.
    """
    if learns or calibrate:
        return compiled.calibrating if calibrate else compiled.program
    if compiled.untaught is None:
        raise ValueError("learns = False takes a network with predictor_every above 1")
    return compiled.untaught
