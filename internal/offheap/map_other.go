//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd && !windows

package offheap

import (
	"errors"
	"os"
)

// granularity returns the alignment of what reserve returns, in bytes: nothing is promised for a Go slice.
func granularity() int { return 1 }

func reserve(n int) ([]byte, error) { return slice(n) }

func release([]byte) error { return nil }

func view(*os.File, int64, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unview([]byte) error { return nil }

func evict([]byte) error { return nil }
