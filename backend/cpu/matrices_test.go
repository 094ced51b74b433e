package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("matrices", func() {
	It("have determinants and inverses, in float32 and float64, as the reference kernels have them", seeds(40, func(m *model) {
		n := pick(m, 1, 2, 3, 4, 8, 15, 33)
		d := append(m.shape(m.between(0, 2), 1, 4), n, n)
		data := m.floats(d...)
		for i, v := range tensor.Of[float32](data) {
			if row, column := i/n%n, i%n; row == column && m.chance(2) {
				tensor.Of[float32](data)[i] = 0 // rows have to be exchanged
			} else if row == (column+1)%n {
				tensor.Of[float32](data)[i] = v + 3
			}
		}
		x := m.feed(data)
		if m.chance(2) {
			x = m.op("Cast", x, to(tensor.Float64))
		}
		m.g.Opsets[microsoft.Domain] = 1
		out := m.add(graph.NodeSpec{Op: graph.Op{Domain: microsoft.Domain, Name: "Inverse"}, Name: "i", Inputs: []*graph.Value{x}, Outputs: []string{"i"}})
		Expect(m.err).NotTo(HaveOccurred())
		m.check(m.op("Det", x), out[0])
	}))
})
