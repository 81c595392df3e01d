"""Operators: what to compute, with numpy references, inputs, error bounds and work. One file each, found by listing."""

from .operator import PATTERNS, Arrays, Operator, Parameter, TensorSpec, Work, Workload
from .registry import operator, operator_names, parse_workload, workload_from_mapping

__all__ = [
    "PATTERNS",
    "Arrays",
    "Operator",
    "Parameter",
    "TensorSpec",
    "Work",
    "Workload",
    "operator",
    "operator_names",
    "parse_workload",
    "workload_from_mapping",
]
