//go:build !nonative

package cli

import _ "github.com/carve-dev/carve/backend/mkl" // a native backend: it makes the program a dynamic one
