"""Tests against a real etcd and a real kube-apiserver; only `make conformance` runs them."""
