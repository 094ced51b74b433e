package conv_test

import (
	"errors"
	"os/exec"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

var _ = Describe("generated files", func() {
	It("are what the generator writes", func(ctx SpecContext) {
		err := asm.Verify(ctx, "gen_main.go", "gen_neon.go", "gen_neon_float16.go", "gen_tile.go", "gen_taps.go", "gen_point.go", "gen_line.go", "gen_along.go", "gen_planar.go", "gen_rows.go", "gen_serve.go", "gen_channel.go", "gen_portable.go")
		if errors.Is(err, exec.ErrNotFound) {
			Skip("no go command to run the generator with")
		}
		Expect(err).NotTo(HaveOccurred())
	})
})
