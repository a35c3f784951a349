"""Roundhouse's own HTTP API: one table of routes that is both what answers and what the OpenAPI document says."""
