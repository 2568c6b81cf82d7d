"""All jobs, registered by the modules that describe them."""

from . import (
    properties_axi,
    properties_control,
    properties_engines,
    properties_issue,
    properties_link,
    properties_memory,
    properties_narrow,
    properties_phases,
    properties_pool,
    properties_predictor,
    properties_quality_gate,
    properties_registers,
    properties_reorganise,
    properties_streams,
    properties_sums,
    properties_update,
    properties_windows,
)
from .registry import JOBS

__all__ = ["JOBS"]

assert properties_axi and properties_control and properties_engines and properties_quality_gate and properties_issue
assert properties_link and properties_memory and properties_narrow and properties_phases and properties_predictor
assert properties_pool and properties_registers and properties_reorganise and properties_streams and properties_sums
assert properties_update and properties_windows
