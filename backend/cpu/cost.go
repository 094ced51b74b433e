package cpu

import (
	_ "embed"
	"maps"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// efficiencyText has what the kernels achieve, by class of processors. See internal/bench/cost.
//
//go:embed efficiency.txt
var efficiencyText string

// efficiencyOf returns what is achieved by a class of processors.
var efficiencyOf = backend.EfficiencySets(efficiencyText)

// efficiency returns what is achieved with the options. Signatures with weights of 16 bits have no laws that were measured: theirs follow from
// those with weights of float32, as an instruction on bfloat16 or float16 does twice the work, and a product of few rows reads half of the bytes.
func (b cpu) efficiency() *backend.Efficiency {
	e := efficiencyOf(b.target.Class())
	if e == nil || b.pairs == pairs.Float32 && b.weights == "f32" || b.target.Set == isa.Portable {
		return e
	}
	out := *e
	out.Laws = maps.Clone(e.Laws)
	for class, law := range e.Laws {
		names, share := []string{"packed"}, 0.5 // of the bytes
		if !strings.HasPrefix(class, "product") {
			names, share = []string{"nchw16c", "ncw"}, 1
		}
		if share == 1 && (b.pairs == pairs.Float32 || !strings.HasPrefix(class, "conv")) {
			continue
		}
		law.Variants = maps.Clone(law.Variants)
		if law.Variants == nil {
			law.Variants = map[string]backend.Law{}
		}
		for _, name := range names {
			l, _ := e.For(class, name)
			if l.Variants = nil; b.pairs != pairs.Float32 {
				l.Work /= 2
			}
			l.Bytes, l.Far = share*l.Bytes, share*l.Far
			law.Variants[name+"-"+b.narrow()] = l
		}
		out.Laws[class] = law
	}
	return &out
}
