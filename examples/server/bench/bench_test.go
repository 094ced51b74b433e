package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "--serve") { // the server that --overload and --apart start
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
		if subject == "batched" {
			Expect(out.String()).To(ContainSubstring("\n" + bareTripLoop + " "))
		}
		Expect(out.String()).To(ContainSubstring("p99 at 80 %, of p50"))
	},
		Entry(nil, "small", "added to a run at p50"),
		Entry(nil, "batched", "requests a second, of gRPC echo alone"),
		Entry("with what an echo with the run behind it reaches", "batched", "; an echo "),
		Entry(nil, "large", "added to a run at p50, of a round trip"),
	)

	It("measures latencies of a server in another process beside an echo's", func(ctx SpecContext) {
		var out bytes.Buffer
		Expect(run(ctx, &out, []string{"-apart", "-small", digits, "-time", "100ms", "-rounds", "2", "-callers", "2"})).To(Succeed())
		for _, name := range []string{bareGRPC, gRPC, sharedGRPC, plainBinary} {
			Expect(out.String()).To(ContainSubstring("\n" + name + ": p99 at 80 %, of p50"))
		}
		Expect(out.String()).To(MatchRegexp(`resident memory of the server: [1-9]`))
	})

	It("counts what a request waits for a caller, and not what a timer is late", func() {
		first := true
		times, late, kept, err := pace(func() error {
			if first {
				first = false
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		}, 1000, 300*time.Millisecond, 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(len(times)).To(BeNumerically("~", 299, 1), "none is left out")
		Expect(late).To(HaveLen(len(times)))
		Expect(kept).To(BeNumerically("~", 1, 0.1))
		for i, due := range times[1:51] { // the second was due a millisecond behind the first, and so on
			Expect(due).To(BeNumerically(">", time.Duration(99-i-1)*time.Millisecond))
			Expect(late[1+i]).To(BeNumerically("<", due))
		}
	})

	It("asks once at least, however busy the machine is", func() {
		times, rate, _, err := many(func() error { return nil }, 0, 3)
		Expect(err).NotTo(HaveOccurred())
		Expect(times).To(HaveLen(3))
		Expect(rate).To(BeNumerically(">", 0))
	})

	It("says how late each call of a rate is", func() {
		var lates []time.Duration
		steps(func() float64 { return 1000 }, 100*time.Millisecond, 200*time.Millisecond, func(i int, late time.Duration) {
			Expect(i).To(Equal(len(lates)))
			Expect(late).To(BeNumerically(">=", -time.Microsecond))
			if i == 20 {
				time.Sleep(50 * time.Millisecond)
			}
			lates = append(lates, late)
		})
		Expect(len(lates)).To(BeNumerically(">", 150), "what is late is made up for")
		Expect(slices.Max(lates)).To(BeNumerically(">=", 45*time.Millisecond))
	})

	It("adds the times of a period to those before", func() {
		var a, b histogram
		a.add(time.Millisecond)
		b.add(3 * time.Millisecond)
		b.add(9 * time.Millisecond)
		a.join(&b)
		Expect(a.n).To(Equal(uint64(3)))
		Expect(a.most).To(Equal(9 * time.Millisecond))
		Expect(a.quick()).To(BeNumerically("~", 66.7, 0.1))
		Expect(a.at(50)).To(BeNumerically("~", 3*time.Millisecond, 60*time.Microsecond))
	})

	It("finds under overload that each answer is that to its request, and none is lost", func(ctx SpecContext) {
		var out bytes.Buffer
		Expect(run(ctx, &out, []string{"-time", "200ms", "-overload", "2s"})).To(Succeed())
		Expect(out.String()).To(MatchRegexp(`answers to another request's input +0.0 +at most 0: met`))
		Expect(out.String()).To(MatchRegexp(`requests neither answered nor refused +0.0 +at most 0: met`))
		Expect(out.String()).To(ContainSubstring("that the server has turned down, by its own clock"))
		Expect(out.String()).To(ContainSubstring("requests were sent later than due by"))
		Expect(strings.Count(out.String(), " MB ")).To(BeNumerically(">=", 20), "lines of the server's memory")
	})
})
