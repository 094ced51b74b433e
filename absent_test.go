package carve_test

import (
	"context"
	"io"
	"io/fs"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/tensor"
)

// noContext is the context of callers that have none.
var noContext context.Context

var _ = Describe("values that nobody made", func() {
	DescribeTable("programs are closed", func(ctx SpecContext, p *carve.Program) {
		_, err := p.Run(ctx, nil)
		Expect(err).To(MatchError(carve.ErrClosed))
		Expect(p.RunInto(ctx, nil, nil)).To(MatchError(carve.ErrClosed))
		_, _, err = p.RunProfiled(ctx, nil)
		Expect(err).To(MatchError(carve.ErrClosed))
		_, err = p.Check(ctx, nil)
		Expect(err).To(MatchError(carve.ErrClosed))
		_, err = p.NewSession()
		Expect(err).To(MatchError(carve.ErrClosed))
		_, err = p.Report(ctx, nil)
		Expect(err).To(MatchError(carve.ErrClosed))
		_, err = p.Plan(ctx, nil)
		Expect(err).To(MatchError(carve.ErrClosed))
		Expect(p.Inputs()).To(BeEmpty())
		Expect(p.Outputs()).To(BeEmpty())
		Expect(p.Memory()).To(BeZero())
		Expect(p.Close()).To(Succeed())
		Expect(p.Close()).To(Succeed())
	}, Entry("the zero one", &carve.Program{}), Entry("nil", nil))

	DescribeTable("sessions are closed", func(ctx SpecContext, s *carve.Session) {
		_, err := s.Run(ctx, nil)
		Expect(err).To(MatchError(carve.ErrClosed))
		Expect(s.RunInto(ctx, nil, nil)).To(MatchError(carve.ErrClosed))
		Expect(s.Close()).To(Succeed())
	}, Entry("the zero one", &carve.Session{}), Entry("nil", nil))

	DescribeTable("models are no input", func(ctx SpecContext, m *carve.Model) {
		Expect(m.Graph()).To(BeNil())
		Expect(m.Source()).To(BeNil())
		_, err := carve.Compile(ctx, m, nil)
		Expect(err).To(MatchError(carve.ErrInput))
		Expect(m.Close()).To(Succeed())
	}, Entry("the zero one", &carve.Model{}), Entry("nil", nil), Entry("of no graph", carve.FromGraph(nil)), Entry("of no file", carve.FromONNX(nil)),
		Entry("of an MXNet model that nobody made", carve.FromMXNet(&mxnet.Model{})))

	It("no file system has no model", func(ctx SpecContext) {
		for _, name := range []string{"examples/quickstart/digits.onnx", "net-symbol.json"} {
			_, err := carve.OpenFS(ctx, nil, name)
			Expect(err).To(MatchError(fs.ErrInvalid), name)
			Expect(err).To(MatchError(ContainSubstring(name)))
		}
	})

	It("tell nothing", func() {
		_, _, found := (&carve.Report{}).Why("x")
		Expect(found).To(BeFalse())
		Expect((&carve.Profile{}).Slowest(-1)).To(BeEmpty())
		Expect((&carve.Profile{}).WriteChromeTrace(io.Discard)).To(Succeed())
		Expect((&carve.MemoryPlan{}).WriteSVG(io.Discard)).To(Succeed())
		Expect((&carve.Difference{}).String()).NotTo(BeEmpty())
		for _, err := range []error{&carve.PassError{}, &carve.StepError{}, &carve.InputError{}} {
			Expect(err.Error()).NotTo(BeEmpty())
		}
	})

	It("contexts never end", func(ctx SpecContext) {
		feeds := openZoo(ctx, "bert_tiny").feeds // or skips
		m, err := carve.Open(noContext, zooPath("bert_tiny"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(m.Close)
		p := compile(noContext, m, nil)
		_, err = p.Run(noContext, feeds)
		Expect(err).NotTo(HaveOccurred())
		_, _, err = p.RunProfiled(noContext, feeds)
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Check(noContext, feeds)
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Report(noContext, nil)
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Plan(noContext, nil)
		Expect(err).NotTo(HaveOccurred())
		s, err := p.NewSession()
		Expect(err).NotTo(HaveOccurred())
		_, err = s.Run(noContext, feeds)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.RunInto(noContext, []*tensor.Tensor{}, nil)).To(MatchError(carve.ErrInput))
		Expect(s.Close()).To(Succeed())
		_, err = s.Run(noContext, feeds)
		Expect(err).To(MatchError(carve.ErrClosed))
		Expect(s.Close()).To(Succeed())
	})

	It("numbers of threads below 0 are refused", func(ctx SpecContext) {
		_, err := carve.Compile(ctx, openZoo(ctx, "bert_tiny").Model, &carve.Options{Threads: -1})
		Expect(err).To(MatchError(carve.ErrInput))
	})
})
