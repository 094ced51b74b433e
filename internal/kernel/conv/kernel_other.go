//go:build !amd64

package conv

import "github.com/carve-dev/carve/internal/cpuid"

func kernelOf(_ cpuid.Level, k kind, _ int) (kernelID, []uintptr) { return portableKernel(k) }

func runKernel(id kernelID, c *tileCall) { runPortable(id, c) }
