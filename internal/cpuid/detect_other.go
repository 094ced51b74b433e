//go:build !amd64 && !arm64

package cpuid

func detect() Features { return 0 }
