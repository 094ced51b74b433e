package mkl_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/graph"
)

// preferring offers for each node the signature of a name alone, where the backend has it.
type preferring struct {
	backend.Backend
	name string
}

// Supports implements backend.Backend.
func (p preferring) Supports(n *graph.Node) backend.Support {
	all := p.Backend.Supports(n)
	for _, s := range all.Signatures {
		if s.Name == p.name {
			all.Signatures = []graph.Signature{s}
			break
		}
	}
	return all
}

var _ = Describe("an operand with one number per channel", func() {
	for _, lib := range libraries() {
		for _, layout := range []string{"NCHW16c", "NCHW8c", "NHWC"} {
			for _, channels := range []int{1, 7, 8, 17} {
				It(strings.TrimSpace(fmt.Sprintf("meets %d channels in %s %s", channels, layout, lib)), func(ctx SpecContext) {
					open(lib)
					c := mklWith(lib)
					if c.Options == nil {
						c.Options = map[string]string{}
					}
					c.Options["layout"] = layout
					for _, op := range []string{"Add", "Sub", "Mul", "Div", "Max", "Min"} {
						for _, batch := range [][2]int{{1, 1}, {2, 1}, {2, 2}} {
							g := parse(fmt.Sprintf(`
  input %%x: f32[%d,%d,2,3]
  input %%y: f32[%d,%d,1,1]
  %%a = Neg(%%x)
  %%b = %s(%%a, %%y)
  %%c = Neg(%%b)
  output %%c`, batch[0], channels, batch[1], channels, op))
							b, err := mkl.Open(c)
							Expect(err).NotTo(HaveOccurred())
							o := carve.Options{Placement: carve.Priority, Verify: true, Poison: true, Backends: []backend.Config{c}}
							o.Open = map[string]backend.Backend{"mkl": preferring{b, "per-channel"}}
							expectAgreement(ctx, program(ctx, g, o), g)
						}
					}
				})
			}
		}
	}
})
