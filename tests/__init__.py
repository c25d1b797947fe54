"""Tests. A package, so that `tests.kube` is never taken for `kube`."""
