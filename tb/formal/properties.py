"""All jobs, registered by the modules that describe them."""

from . import (
    jobs_axi,
    jobs_control,
    jobs_engines,
    jobs_gate,
    jobs_issue,
    jobs_link,
    jobs_memory,
    jobs_narrow,
    jobs_phases,
    jobs_predictor,
    jobs_registers,
    jobs_reorganise,
    jobs_streams,
    jobs_update,
)
from .registry import JOBS

__all__ = ["JOBS"]

assert jobs_axi and jobs_control and jobs_engines and jobs_gate and jobs_issue
assert jobs_link and jobs_memory and jobs_narrow and jobs_phases and jobs_predictor
assert jobs_registers and jobs_reorganise and jobs_streams and jobs_update
