//go:build !unix

package reorder_test

// guarded returns n floats; this platform has no guard pages.
func guarded(n int, _ bool) ([]float32, func()) { return make([]float32, n), func() {} }
