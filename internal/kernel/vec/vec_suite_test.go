package vec_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
)

func TestVec(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "vec")
}

var _ = Describe("generated files", func() {
	It("are up to date", func() {
		err := asm.Verify(context.Background(), "gen.go", "gen_math.go", "gen_neon.go", "gen_unary.go", "gen_binary.go", "gen_rows.go", "gen_softmax.go", "gen_gates.go", "gen_stage.go", "gen_columns.go")
		if errors.Is(err, exec.ErrNotFound) {
			Skip("no go command")
		}
		Expect(err).NotTo(HaveOccurred())
	})
})

// host are the kernels that plans get here.
var host = vec.For(isa.Host())

// onTargets runs body once per target of this machine.
func onTargets(body func(isa.Target, vec.Kernels)) {
	for _, t := range isa.Targets() {
		body(t, vec.For(t))
	}
}

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

// ulp returns the distance of float32 numbers at x.
func ulp(x float64) float64 {
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e, -125)-24)
}

// same reports whether got is within tol of want, with NaN equal to NaN and infinities to themselves; what rounds to an
// infinity or to a subnormal number may be one.
func same(got float32, want, tol float64) bool {
	g := float64(got)
	switch {
	case math.IsNaN(want):
		return math.IsNaN(g)
	case math.IsInf(want, 0), math.Abs(want) > math.MaxFloat32:
		return g == math.Inf(1) && want > 0 || g == math.Inf(-1) && want < 0 || math.Abs(g) > math.MaxFloat32*(1-1e-6)
	}
	return math.Abs(g-want) <= tol
}

// matrix is a guarded [rows, cols] matrix with row stride ld.
type matrix struct {
	*guard.Buffer
	rows, cols, ld int
}

// newMatrix fills a matrix with value(r, c); between rows stays what spoils results.
func newMatrix(rows, cols, ld int, side guard.Side, value func(r, c int) float32) *matrix {
	n := 0
	if rows > 0 {
		n = (rows-1)*ld + cols
	}
	b, err := guard.New(n, side)
	Expect(err).NotTo(HaveOccurred())
	m := &matrix{b, rows, cols, ld}
	if value != nil {
		for r := range rows {
			for c := range cols {
				b.Data[r*ld+c] = value(r, c)
			}
		}
	}
	return m
}

func (m *matrix) at(r, c int) float32 { return m.Data[r*m.ld+c] }

// verify compares every element with want, checks the margins and frees the memory of m and of others.
func (m *matrix) verify(what string, want func(r, c int) (value, tol float64), others ...*matrix) {
	GinkgoHelper()
	Expect(m.compare(want)).To(Succeed(), what)
	for _, o := range append(others, m) {
		Expect(o.Check()).To(Succeed(), what)
		Expect(o.CheckGaps(o.cols, max(o.ld, 1))).To(Succeed(), what)
		Expect(o.Free()).To(Succeed())
	}
}

func (m *matrix) compare(want func(r, c int) (value, tol float64)) error {
	for r := range m.rows {
		for c := range m.cols {
			v, tol := want(r, c)
			if !same(m.at(r, c), v, tol) {
				return fmt.Errorf("[%d, %d] = %v, not %v (tolerance %v)", r, c, m.at(r, c), v, tol)
			}
		}
	}
	return nil
}
