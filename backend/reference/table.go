package reference

import (
	"fmt"
	"slices"
)

// kernel computes all versions of an operator from one on.
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
	{"", gridKernels},
	{"", recurrentKernels},
	{"", quantizeKernels},
	{"", lossKernels},
	{"", attentionKernels},
	{"", stateKernels},
	{"", einsumKernels},
	{"", signalKernels},
	{"", textKernels},
	{"", sequenceKernels},
	{"", imageKernels},
	{"ai.onnx.preview", previewKernels},
	{"ai.onnx.preview.training", trainingKernels},
	{"ai.onnx.ml", mlKernels},
	{"ai.onnx.ml", treeKernels},
	{"ai.onnx.ml", svmKernels},
}

// table holds all kernels. It is filled by init, since kernels with regions run other kernels.
var table = map[opKey]kernel{}

func init() {
	for _, f := range families {
		for _, k := range f.kernels {
			key := opKey{f.domain, k.name}
			if _, ok := table[key]; ok {
				panic(fmt.Sprintf("reference: two kernels for %v", key))
			}
			if f.domain == "" && slices.Contains(elementwise, k.name) {
				k.run = blockwise(k.run)
			}
			table[key] = k
		}
	}
}
