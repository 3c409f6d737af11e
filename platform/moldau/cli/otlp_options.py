"""The options of what is pushed to an OTLP receiver: metrics, and spans of records."""

from __future__ import annotations

from argparse import ArgumentParser


def add_otlp_option(parser: ArgumentParser) -> None:
    """Add `--otlp URL`."""
    parser.add_argument(
        "--otlp",
        metavar="URL",
        help="push the metrics to that OTLP receiver; default: OTEL_EXPORTER_OTLP_ENDPOINT",
    )


def add_trace_options(parser: ArgumentParser) -> None:
    """Add `--traces URL` and `--trace-ratio R`."""
    parser.add_argument(
        "--traces",
        metavar="URL",
        help="push spans of records to that OTLP receiver, as http://localhost:4318; default: "
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    )
    parser.add_argument(
        "--trace-ratio",
        type=float,
        metavar="R",
        help="the part of new traces that is recorded, from 0 to 1; default: OTEL_TRACES_SAMPLER, "
        "or 1",
    )
