//go:build !nonative

package main

import (
	_ "github.com/carve-dev/carve/backend/cuda"
	_ "github.com/carve-dev/carve/backend/mkl"
	_ "github.com/carve-dev/carve/backend/opencl"
	"github.com/carve-dev/carve/backend/plugin"
)

// hostPlugin lets the program be the process in which a plugin runs apart from the server.
func hostPlugin() { plugin.HostMain() }
