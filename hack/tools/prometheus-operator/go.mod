module github.com/unitedworkloads/united/hack/tools/prometheus-operator

go 1.26.0

// Only its CRDs are used: nothing of it is built.
require github.com/prometheus-operator/prometheus-operator v0.85.0
