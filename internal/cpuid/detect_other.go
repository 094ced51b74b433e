//go:build !amd64 && !arm64

package cpuid

import "runtime"

func detect() Features { return 0 }

// Model tells processors apart as far as is known here: by architecture.
func Model() string { return runtime.GOARCH }
