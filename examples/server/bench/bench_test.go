package main

import (
	"bytes"
	"os"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "--serve") { // the server that --overload starts
		main()
		return
	}
	os.Exit(m.Run())
}

func TestBench(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Bench Suite")
}

var _ = Describe("bench", func() {
	const digits = "../../quickstart/digits.onnx"

	DescribeTable("prints all ways of a subject, and what has a limit beside it", func(ctx SpecContext, subject, judged string) {
		var out bytes.Buffer
		Expect(run(ctx, &out, []string{"-small", digits, "-time", "100ms", "-callers", "2", "-only", subject})).To(Succeed())
		for _, name := range append([]string{bareLoop, queued, computing, loopback, bareGRPC}, served...) {
			Expect(out.String()).To(ContainSubstring("\n" + name + " "))
		}
		Expect(out.String()).To(ContainSubstring(judged))
		Expect(out.String()).To(ContainSubstring("p99 at 80 %, of p50"))
	},
		Entry(nil, "small", "added to a run at p50"),
		Entry(nil, "batched", "requests a second, of gRPC echo alone"),
		Entry("with what an echo with the run behind it reaches", "batched", "; an echo "),
		Entry(nil, "large", "added to a run at p50, of a round trip"),
	)

	It("finds under overload that each answer is that to its request, and none is lost", func(ctx SpecContext) {
		var out bytes.Buffer
		Expect(run(ctx, &out, []string{"-time", "200ms", "-overload", "2s"})).To(Succeed())
		Expect(out.String()).To(MatchRegexp(`answers to another request's input +0.0 +at most 0: met`))
		Expect(out.String()).To(MatchRegexp(`requests neither answered nor refused +0.0 +at most 0: met`))
		Expect(out.String()).To(ContainSubstring("that the server has turned down"))
	})
})
