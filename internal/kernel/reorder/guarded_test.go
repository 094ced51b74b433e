package reorder_test

import (
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/guard"
)

// guarded returns n zeros whose end (or, if front, whose start) touches a page that faults when it is read or written, and
// a function that checks what lies on the other side and gives them back.
func guarded(n int, front bool) ([]float32, func()) {
	side := guard.End
	if front {
		side = guard.Start
	}
	b, err := guard.New(n, side)
	Expect(err).NotTo(HaveOccurred())
	clear(b.Data)
	return b.Data, func() {
		Expect(b.Check()).To(Succeed())
		Expect(b.Free()).To(Succeed())
	}
}
