//go:build !unix

package mxnet

// openFlags is empty where there are no FIFOs among the files.
const openFlags = 0
