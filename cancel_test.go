package carve_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

// promptly is how soon work has to stop after its context ended.
const promptly = 100 * time.Millisecond

// stops calls work with a context that is cancelled after a while, and expects that it returns the context's error soon
// afterwards. A machine that is busy with other things is given three tries.
func stops(after time.Duration, work func(ctx context.Context) error) {
	GinkgoHelper()
	var late time.Duration
	for range 3 {
		ctx, cancel := context.WithCancel(context.Background())
		var at time.Time
		timer := time.AfterFunc(after, func() { at = time.Now(); cancel() })
		err := work(ctx)
		late = time.Since(at)
		if timer.Stop() { // it was over before
			cancel()
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(MatchError(context.Canceled))
		if late <= promptly {
			return
		}
	}
	Expect(late).To(BeNumerically("<=", promptly))
}

var onReference = []backend.Config{{Name: "reference"}}

var _ = Describe("a context that ends", func() {
	for _, after := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond} {
		It("stops loading and Compile after "+after.String(), func() {
			openZoo(context.Background(), "vgg11") // or skip
			path := zooPath("vgg11")
			stops(after, func(ctx context.Context) error {
				m, err := carve.Open(ctx, path)
				if err != nil {
					return err
				}
				defer m.Close()
				p, err := carve.Compile(ctx, m, nil)
				if err != nil {
					return err
				}
				return p.Close()
			})
		})
	}

	for _, name := range []string{"vgg11", "unet"} {
		for _, list := range [][]backend.Config{nil, onReference} {
			backends := "cpu"
			if list != nil {
				backends = "reference"
			}
			It("stops a run of "+name+" on "+backends, func() {
				z := openZoo(context.Background(), name)
				p := compile(context.Background(), z.Model, &carve.Options{Backends: list})
				in, out := []*tensor.Tensor{}, make([]*tensor.Tensor, len(p.Outputs()))
				for _, port := range p.Inputs() {
					in = append(in, z.feeds[port.Name].(*tensor.Tensor))
				}
				for _, after := range []time.Duration{time.Millisecond, 30 * time.Millisecond, 150 * time.Millisecond} {
					stops(after, func(ctx context.Context) error {
						_, err := p.Run(ctx, z.feeds)
						return err
					})
					stops(after, func(ctx context.Context) error { return p.RunInto(ctx, in, out) })
				}
				if list == nil {
					res, err := p.Run(context.Background(), z.feeds)
					Expect(err).NotTo(HaveOccurred())
					_, err = z.ref.Compare(res)
					Expect(err).NotTo(HaveOccurred())
				}
			})
		}
	}

	It("is seen before anything is done", func() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errors.New("gone"))
		m := textModel(smallNet())
		_, err := carve.Compile(ctx, m, nil)
		Expect(err).To(MatchError(context.Canceled))
		p := compile(context.Background(), m, nil)
		feeds := map[string]tensor.Value{"x": wave(1, 3, 8, 8)}
		_, err = p.Run(ctx, feeds)
		Expect(err).To(MatchError(context.Canceled))
		_, err = p.Run(context.Background(), feeds)
		Expect(err).NotTo(HaveOccurred())
	})

	It("stops an endless loop", func() {
		p := compile(context.Background(), textModel(`graph {
  opset 17
  input %x: f32[2]
  const %m = i64[]{9223372036854775807}
  const %c = bool[]{true}
  %y = Loop(%m, %c, %x |) "forever" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: f32[2]
      %w = Sin(%v)
      %l = Identity(%k)
      output %l, %w
    }
  }
  output %y
}`), nil)
		stops(50*time.Millisecond, func(ctx context.Context) error {
			_, err := p.Run(ctx, map[string]tensor.Value{"x": wave(2)})
			return err
		})
	})
})
