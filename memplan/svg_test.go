package memplan_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/memplan"
)

var _ = Describe("SVG", func() {
	It("draws one rectangle per interval in which a buffer takes space", func() {
		bufs := []memplan.Buffer{
			{ID: "<a>&", Size: 8, Lower: 0, Upper: 10, Gaps: []memplan.Interval{{Lower: 3, Upper: 6}}},
			{ID: "b", Size: 8, Lower: 3, Upper: 6},
			{ID: "void", Size: 0, Lower: 3, Upper: 6},
		}
		plan, err := memplan.Greedy(bufs)
		Expect(err).NotTo(HaveOccurred())
		var out bytes.Buffer
		Expect(memplan.WriteSVG(&out, bufs, plan, &memplan.SVGOptions{Title: "a < b", Capacity: 9})).To(Succeed())
		Expect(strings.Count(out.String(), `<rect class="b"`)).To(Equal(3))
		Expect(out.String()).To(ContainSubstring("&lt;a&gt;&amp;: size 8"))
		Expect(out.String()).To(ContainSubstring("capacity 9"))
		wellFormed(out.Bytes())
	})

	It("is well formed and of moderate size for 500 buffers", func() {
		bufs := randomBuffers(rand.New(rand.NewPCG(1, 1)), 500, 4096, 1000)
		plan, err := memplan.Greedy(bufs)
		Expect(err).NotTo(HaveOccurred())
		var out bytes.Buffer
		Expect(memplan.WriteSVG(&out, bufs, plan, nil)).To(Succeed())
		wellFormed(out.Bytes())
		Expect(out.Len()).To(BeNumerically("<", 200<<10))
	})

	It("draws nothing at all", func() {
		var out bytes.Buffer
		Expect(memplan.WriteSVG(&out, nil, memplan.Plan{}, nil)).To(Succeed())
		wellFormed(out.Bytes())
	})

	It("refuses plans and sizes that do not fit", func() {
		Expect(memplan.WriteSVG(io.Discard, []memplan.Buffer{buf(1, 0, 1)}, memplan.Plan{}, nil)).
			To(BeAssignableToTypeOf(&memplan.ConflictError{}))
		Expect(memplan.WriteSVG(io.Discard, nil, memplan.Plan{}, &memplan.SVGOptions{Width: -1})).
			To(BeAssignableToTypeOf(&memplan.InputError{}))
	})
})

func wellFormed(text []byte) {
	GinkgoHelper()
	in := xml.NewDecoder(bytes.NewReader(text))
	for {
		_, err := in.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		Expect(err).NotTo(HaveOccurred())
	}
}
