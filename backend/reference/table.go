package reference

import "fmt"

// kernel computes all forms of an operator since a version.
type kernel struct {
	name  string
	since int
	run   func(*Call)
}

type opKey struct{ domain, name string }

// families lists the kernels of every file by domain.
var families = []struct {
	domain  string
	kernels []kernel
}{
	{"", unaryKernels},
	{"", activationKernels},
	{"", binaryKernels},
	{"", variadicKernels},
	{"", castKernels},
	{"", reduceKernels},
	{"", softmaxKernels},
	{"", matmulKernels},
	{"", convKernels},
	{"", poolKernels},
	{"", normKernels},
	{"", shapeKernels},
	{"", moveKernels},
	{"", gatherKernels},
	{"", scatterKernels},
	{"", selectKernels},
	{"", generateKernels},
	{"", resizeKernels},
	{"", recurrentKernels},
}

var table = index()

func index() map[opKey]kernel {
	m := map[opKey]kernel{}
	for _, f := range families {
		for _, k := range f.kernels {
			key := opKey{f.domain, k.name}
			if _, ok := m[key]; ok {
				panic(fmt.Sprintf("reference: two kernels for %v", key))
			}
			m[key] = k
		}
	}
	return m
}
