"""Supervises running queries: starts, restarts, suspends, reports on and feeds ticks to them."""
