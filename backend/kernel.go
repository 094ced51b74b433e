package backend

import "github.com/carve-dev/carve/property"

// Kernels of users' properties; package property describes them. A backend finds them in CompileOptions.Properties, by the
// "pattern" of its fused nodes, as property.RuleOf(p).Kernel.
type (
	KernelProvider = property.KernelProvider
	Kernel         = property.Kernel
	KernelArgs     = property.KernelArgs
)
