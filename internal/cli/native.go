//go:build !nonative

package cli

// Native backends: they make the program a dynamic one.
import (
	_ "github.com/carve-dev/carve/backend/mkl"
	_ "github.com/carve-dev/carve/backend/plugin"
)
