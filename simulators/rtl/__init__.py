"""Runs programs on the chip itself: the SystemVerilog of `hw/`, built by Verilator into a shared library."""
