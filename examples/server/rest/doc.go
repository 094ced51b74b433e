// Package rest serves the Open Inference Protocol over HTTP: an http.Handler that can be mounted under a prefix with
// http.StripPrefix. It knows the protocol's six calls and Triton's extensions: tensors in binary, configuration, statistics,
// repository, classification, sequences, and bodies in gzip and deflate. Every error has a body {"error": "…"}.
package rest
