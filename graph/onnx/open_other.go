//go:build !unix

package onnx

// openFlags is empty where there are no FIFOs among the files.
const openFlags = 0
