"""Refreshes that leave figures, without a plan that is run."""

from __future__ import annotations

from dataclasses import replace

from relstate.storage import RefreshFigures, Store

from .views import progressed, refresh


def refreshed(store: Store, name: str, figures: RefreshFigures) -> int:
    """Commit a refresh of a view up to the latest epoch, with figures; return its epoch."""
    return refresh(store, replace(progressed(store, name), figures=figures))
