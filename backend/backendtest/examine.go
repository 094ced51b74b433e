package backendtest

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

// Verdict is what a part of the suite says of a backend.
type Verdict struct {
	Section  string
	Cases    int      // subtests; 1 for a part without
	Failures []string // each begins with the name of its case
	Skipped  []string // why parts and cases were left out
}

// Examine runs the suite as Run does, without package testing: for programs that ask whether a backend keeps the contract.
// open returns a fresh backend, which Examine closes. tell, where it is not nil, is called at the end of each part. What is
// left when ctx ends is not run, and the error is then ctx's.
func Examine(ctx context.Context, open func() (backend.Backend, error), tell func(Verdict)) ([]Verdict, error) {
	var list []Verdict
	s := &suite{}
	for _, x := range s.sections() {
		v := examination{ctx: ctx}
		s.open = func() backend.Backend {
			b, err := open()
			if err != nil {
				v.current().Fatal(err)
			}
			return b
		}
		v.sub(x.name, x.run)
		if err := ctx.Err(); err != nil {
			return list, err
		}
		list = append(list, Verdict{Section: x.name, Cases: max(v.leaves, 1), Failures: v.said, Skipped: v.skipped})
		if tell != nil {
			tell(list[len(list)-1])
		}
	}
	return list, nil
}

// examination is a test that notes what is said of a backend. Its subtests run one after another.
type examination struct {
	ctx context.Context

	mu       sync.Mutex
	said     []string
	skipped  []string
	cleanups []func()
	leaves   int          // subtests that have none themselves
	inner    *examination // the subtest that runs
}

// current is the innermost test that runs.
func (v *examination) current() *examination {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.inner != nil {
		return v.inner.current()
	}
	return v
}

func (*examination) Helper()                        {}
func (*examination) Log(...any)                     {}
func (*examination) Logf(string, ...any)            {}
func (v *examination) Cleanup(f func())             { v.cleanups = append(v.cleanups, f) }
func (v *examination) Error(args ...any)            { v.Errorf("%s", fmt.Sprint(args...)) }
func (v *examination) Fatal(args ...any)            { v.Fatalf("%s", fmt.Sprint(args...)) }
func (v *examination) Fatalf(f string, args ...any) { v.Errorf(f, args...); runtime.Goexit() }
func (v *examination) Skip(args ...any) {
	v.mu.Lock()
	v.skipped = append(v.skipped, fmt.Sprint(args...))
	v.mu.Unlock()
	runtime.Goexit()
}

func (v *examination) Errorf(f string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said = append(v.said, fmt.Sprintf(f, args...))
}

// sub runs f on a goroutine of its own, which Fatal and Skip end. A panic of f is a failure.
func (v *examination) sub(name string, f func(t tester)) {
	t := &examination{ctx: v.ctx}
	v.mu.Lock()
	v.inner = t
	v.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, c := range slices.Backward(t.cleanups) {
				c()
			}
		}()
		defer func() {
			if r := recover(); r != nil {
				t.Errorf("panic: %v", r)
			}
		}()
		if t.ctx.Err() == nil {
			f(t)
		}
	}()
	<-done
	v.mu.Lock()
	defer v.mu.Unlock()
	v.inner = nil
	v.leaves += max(t.leaves, 1)
	for _, said := range t.said {
		v.said = append(v.said, name+": "+said)
	}
	for _, why := range t.skipped {
		v.skipped = append(v.skipped, name+": "+why)
	}
}

// Distance is how far a backend's results of an operator are from those of the reference kernels.
type Distance struct {
	Op    string
	Cases int // random cases whose operator the backend supports as it stands
	Ran   int // those of which it ran nodes: passes fold or replace the operator in others
	// Worst is the largest difference of an element, as a share of the largest element of its output; 0 where all are equal.
	Worst    float64
	Failures []string
}

// Distances runs n random cases of every operator that RandomOperators has, and tells about those that the backend supports.
// The error is ctx's.
func Distances(ctx context.Context, b backend.Backend, n uint64) ([]Distance, error) {
	var list []Distance
	for _, op := range RandomOperators() {
		d := Distance{Op: op}
		for seed := range n {
			if err := ctx.Err(); err != nil {
				return list, err
			}
			c, err := RandomOperator(op, seed)
			if err != nil || !c.TakenBy(b) {
				continue
			}
			d.Cases++
			if err := d.add(ctx, c, b); err != nil {
				d.Failures = append(d.Failures, fmt.Sprintf("%s, seed %d: %v", op, seed, err))
			}
		}
		if d.Cases > 0 {
			list = append(list, d)
		}
	}
	return list, nil
}

// add runs a case and notes the largest difference.
func (d *Distance) add(ctx context.Context, c *Case, b backend.Backend) error {
	name := b.Info().Name
	m := carve.FromGraph(c.Graph)
	defer m.Close()
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: name}}, Open: map[string]backend.Backend{name: b}, Placement: carve.Priority, Verify: true})
	if err != nil {
		return err
	}
	defer p.Close()
	got, err := p.Run(ctx, c.Feeds)
	if err != nil {
		return err
	}
	r, err := p.Report(ctx, nil)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(r.Groups, func(g carve.GroupReport) bool { return g.Backend == name }) {
		d.Ran++
	}
	for _, v := range c.Graph.Outputs {
		if t, ok := got[v.Name].(*tensor.Tensor); ok {
			d.Worst = max(d.Worst, apart(t, c.Values[v]))
		}
	}
	if why := c.Compare(got); why != "" {
		return fmt.Errorf("%s", why)
	}
	return nil
}

// apart returns the largest difference of two tensors as a share of the second's largest element.
func apart(got, want *tensor.Tensor) float64 {
	if got.DType != want.DType || got.Len() != want.Len() || want.DType == tensor.String || want.DType.IsComplex() {
		return 0
	}
	worst, large := 0.0, 0.0
	for i := range want.Len() {
		a, b := got.Float64At(i), want.Float64At(i)
		if math.IsInf(b, 0) || math.IsNaN(b) || math.IsInf(a, 0) || math.IsNaN(a) {
			continue // Compare looks at these
		}
		worst, large = max(worst, math.Abs(a-b)), max(large, math.Abs(b))
	}
	if worst == 0 {
		return 0
	}
	return worst / max(large, math.SmallestNonzeroFloat32)
}
