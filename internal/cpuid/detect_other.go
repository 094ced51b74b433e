//go:build !amd64

package cpuid

// detected is Generic: only amd64 has kernels in assembly.
const detected = Generic
