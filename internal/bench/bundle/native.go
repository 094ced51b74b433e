//go:build !nonative

package main

import _ "github.com/carve-dev/carve/backend/mkl"
