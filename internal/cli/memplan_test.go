package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/cli"
)

var _ = Describe("memplan", func() {
	csv := func(text string) string {
		path := filepath.Join(GinkgoT().TempDir(), "buffers.csv")
		writeFile(path, []byte(text))
		return path
	}
	const three = "id,lower,upper,size\na,0,10,4\nb,0,5,3\nc,5,10,3\n"

	type report struct {
		Status             string
		Height, LowerBound int64
		Ratio              float64
		Optimal            bool
		Buffers            int
	}
	parse := func(s string) (r report) {
		GinkgoHelper()
		var keys map[string]json.RawMessage
		Expect(json.Unmarshal([]byte(s), &keys)).To(Succeed())
		for _, k := range []string{"status", "height", "lower_bound", "ratio", "optimal", "method", "seconds", "buffers", "nodes"} {
			Expect(keys).To(HaveKey(k))
		}
		Expect(json.Unmarshal([]byte(s), &r)).To(Succeed())
		return r
	}

	It("has the best plan so far where it is interrupted", func(ctx SpecContext) {
		path := filepath.Join("..", "..", "..", "shared", "memplan-benchmarks", "D.1048576.csv")
		if _, err := os.Stat(path); err != nil {
			Skip("the published instances are not at hand")
		}
		soon, stop := context.WithTimeout(ctx, 500*time.Millisecond)
		defer stop()
		out := filepath.Join(GinkgoT().TempDir(), "out.csv")
		got := parse(succeeds(soon, "memplan", path, "--timeout", "10m", "--json", "--output", out).stdout)
		Expect(got.Status).To(Equal("solved"))
		Expect(got.Height).To(BeNumerically(">=", got.LowerBound))
		Expect(out).To(BeAnExistingFile())
	})

	It("draws the arena", func(ctx SpecContext) {
		out := filepath.Join(GinkgoT().TempDir(), "arena.svg")
		succeeds(ctx, "memplan", csv(three), "--svg", out)
		b, err := os.ReadFile(out)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(b)).To(HavePrefix("<svg"))
	})

	It("packs, prints and writes offsets", func(ctx SpecContext) {
		out := filepath.Join(GinkgoT().TempDir(), "out.csv")
		r := succeeds(ctx, "memplan", csv(three), "--json", "--output", out)
		p := parse(r.stdout)
		Expect(p).To(And(HaveField("Status", "solved"), HaveField("Height", int64(7)), HaveField("Ratio", 1.0), HaveField("Optimal", true), HaveField("Buffers", 3)))
		b, err := os.ReadFile(out)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(b)).To(HavePrefix("id,lower,upper,size,offset\na,0,10,4,"))
		Expect(succeeds(ctx, "memplan", csv(three)).stdout).To(MatchRegexp(`(?m)^height +7 \(optimal\)$`))
	})

	It("tells a proof from a lack of time", func(ctx SpecContext) {
		r := carve(ctx, "memplan", csv(three), "--capacity", "6", "--json")
		Expect(r.code).To(Equal(cli.ExitInfeasible))
		Expect(parse(r.stdout).Status).To(Equal("infeasible"))
		Expect(r.stderr).To(BeEmpty())
		Expect(carve(ctx, "memplan", csv(three), "--capacity", "7").code).To(Equal(cli.ExitOK))
	})

	DescribeTable("names the line of a fault", func(ctx SpecContext, text, want string) {
		Expect(fails(ctx, "memplan", csv(text))).To(ContainSubstring(want))
	},
		Entry("no number", "id,lower,upper,size\na,0,10,4\nb,0,x,3\n", "line 3"),
		Entry("inverted", "id,lower,upper,size\na,10,0,4\n", "line 2"),
		Entry("no column", "id,lower,upper\na,0,10\n", "line 1"),
		Entry("windows", "id,lower,upper,size,gaps\na,0,10,4,2-3@0:4\n", "line 2"),
		Entry("twice", "id,lower,upper,size\na,0,10,4\na,0,1,3\n", "line 3"),
	)
})
