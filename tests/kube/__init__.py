"""Tests of kube."""
