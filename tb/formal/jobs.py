"""All jobs, registered by the modules that describe them."""

from . import jobs_axi, jobs_control, jobs_engines, jobs_memory, jobs_registers, jobs_update
from .registry import JOBS

__all__ = ["JOBS"]

assert jobs_axi and jobs_control and jobs_engines and jobs_memory and jobs_registers and jobs_update
