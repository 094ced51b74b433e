package tune_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/measurements"
	"github.com/carve-dev/carve/internal/tune"
)

// fake is a Subject that says how long it takes.
type fake struct {
	name   string
	takes  []time.Duration // by turns
	fails  error
	log    *[]string
	runs   int
	closed int
}

func (f *fake) Run(context.Context) (time.Duration, error) {
	if f.log != nil {
		*f.log = append(*f.log, f.name)
	}
	f.runs++
	return f.takes[f.runs%len(f.takes)], f.fails
}

func (f *fake) Close() error {
	f.closed++
	return nil
}

// endless runs until its context ends.
type endless struct{ fake }

func (*endless) Run(ctx context.Context) (time.Duration, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

var errFake = errors.New("it does not run")

var _ = Describe("Measure", func() {
	const text = "  input %x: f32[8,8]\n  %a = Relu(%x) \"a\"\n  %c = Add(%a, %x) \"c\"\n  output %c"

	// measure runs the tasks of two operators on two backends, as these fakes.
	measure := func(ctx context.Context, fakes map[string]*fake, m *tune.Measuring) (tasks []*tune.Task, done int, err error) {
		GinkgoHelper()
		n := nodes(text)
		s := tune.NewSurvey(host(), nil)
		for _, name := range []string{"a", "c"} {
			for _, b := range []string{"a", "b"} {
				s.Node(n[name], b, sig("s", n[name]), 1e5)
			}
		}
		m.Make = func(_ context.Context, t *tune.Task) (tune.Subject, error) {
			f := fakes[t.String()]
			if f == nil {
				return nil, errFake
			}
			f.name = t.String()
			return f, nil
		}
		tasks = s.Tasks()
		done, err = tune.Measure(ctx, tasks, m)
		return tasks, done, err
	}
	measuring := func(cache *measurements.Cache) *tune.Measuring {
		return &tune.Measuring{Keep: cache.Add, Deadline: time.Now().Add(time.Hour), Progress: func(int, *tune.Task) {}, Failed: func(*tune.Task, error) {}}
	}
	open := func() *measurements.Cache {
		GinkgoHelper()
		cache, err := measurements.Open(GinkgoT().TempDir(), nil)
		Expect(err).NotTo(HaveOccurred())
		return cache
	}
	ms := func(list ...float64) (out []time.Duration) {
		for _, x := range list {
			out = append(out, time.Duration(x*float64(time.Millisecond)))
		}
		return out
	}

	It("keeps the least time of each, by turns with its rivals, more often of those that are close", func(ctx SpecContext) {
		var log []string
		fakes := map[string]*fake{
			"Relu/14 on a": {takes: ms(2, 1, 3), log: &log}, "Relu/14 on b": {takes: ms(29), log: &log},
			"Add/14 on a": {takes: ms(1.00, 1.2), log: &log}, "Add/14 on b": {takes: ms(1.01, 1.3), log: &log},
		}
		cache := open()
		m := measuring(cache)
		progress := []int{}
		m.Progress = func(done int, _ *tune.Task) { progress = append(progress, done) }
		tasks, done, err := measure(ctx, fakes, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(done).To(Equal(4))
		Expect(progress).To(Equal([]int{0, 4}))
		nanos := map[string]float64{}
		for _, t := range tasks {
			e, ok := cache.Get(t.Key)
			Expect(ok).To(BeTrue())
			nanos[t.String()] = e.Nanos
			Expect(fakes[t.String()].closed).To(Equal(1))
		}
		Expect(nanos).To(Equal(map[string]float64{"Relu/14 on a": 1e6, "Relu/14 on b": 29e6, "Add/14 on a": 1e6, "Add/14 on b": 1.01e6}))
		turns := map[string]int{} // how often it runs in one depends on the clock
		for i, name := range log {
			if i == 0 || name != log[i-1] {
				turns[name]++
			}
		}
		Expect(turns["Relu/14 on b"]).To(BeNumerically("<", turns["Relu/14 on a"]), "it has no hope")
		Expect(turns["Add/14 on b"]).To(BeNumerically(">", turns["Relu/14 on a"]))
		Expect(turns["Add/14 on b"]).To(Equal(turns["Add/14 on a"]))
	})

	It("leaves out what does not run", func(ctx SpecContext) {
		fakes := map[string]*fake{"Relu/14 on a": {takes: ms(1)}, "Add/14 on a": {takes: ms(1), fails: errFake}}
		cache := open()
		m := measuring(cache)
		var failed []string
		m.Failed = func(t *tune.Task, err error) {
			Expect(err).To(Equal(errFake))
			failed = append(failed, t.String())
		}
		_, done, err := measure(ctx, fakes, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(done).To(Equal(4))
		Expect(failed).To(ConsistOf("Relu/14 on b", "Add/14 on a", "Add/14 on b"))
		Expect(cache.Len()).To(Equal(1))
	})

	It("begins nothing behind the deadline", func(ctx SpecContext) {
		m := measuring(open())
		m.Deadline = time.Now()
		_, done, err := measure(ctx, nil, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(done).To(BeZero())
	})

	It("ends with its context", func(ctx SpecContext) {
		over, cancel := context.WithCancel(ctx)
		cancel()
		_, done, err := measure(over, nil, measuring(open()))
		Expect(err).To(MatchError(context.Canceled))
		Expect(done).To(BeZero())
	})

	It("says where nothing can be kept", func(ctx SpecContext) {
		m := measuring(open())
		m.Keep = func(measurements.Key, measurements.Entry) (measurements.Entry, error) {
			return measurements.Entry{}, errFake
		}
		_, _, err := measure(ctx, map[string]*fake{"Relu/14 on a": {takes: ms(1)}}, m)
		Expect(err).To(Equal(errFake))
	})
})

var _ = Describe("Race", func() {
	It("orders wholes by their usual times, the earlier of equal ones first, without those that fail", func(ctx SpecContext) {
		list := []tune.Whole{
			{Name: "slow", Subject: &fake{takes: []time.Duration{9e6}}}, {Name: "one", Subject: &fake{takes: []time.Duration{5e6, 3e6}}},
			{Name: "broken", Subject: &fake{takes: []time.Duration{1}, fails: errFake}}, {Name: "two", Subject: &fake{takes: []time.Duration{3e6, 4e6}}},
		}
		var failed []string
		runs, err := tune.Race(ctx, list, time.Now().Add(time.Hour), func(name string, _ error) { failed = append(failed, name) })
		Expect(err).NotTo(HaveOccurred())
		Expect(failed).To(Equal([]string{"broken"}))
		Expect(runs).To(HaveExactElements(
			HaveField("Nanos", 3e6), And(HaveField("Whole", "two"), HaveField("Nanos", 3e6)), And(HaveField("Whole", "slow"), HaveField("Nanos", 9e6))))
		Expect(runs[0].Whole).To(Equal("one"))
	})

	It("spends its rounds on those that are close", func(ctx SpecContext) {
		slow, first, second := &fake{takes: []time.Duration{15e6}}, &fake{takes: []time.Duration{7e6}}, &fake{takes: []time.Duration{71e5}}
		runs, err := tune.Race(ctx, []tune.Whole{{Name: "slow", Subject: slow}, {Name: "second", Subject: second}, {Name: "first", Subject: first}},
			time.Now().Add(time.Hour), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(runs[0].Whole).To(Equal("first"))
		Expect(slow.runs).To(Equal(5), "one run warm, and four rounds of one run")
		Expect(first.runs).To(BeNumerically(">", 40))
		Expect(second.runs).To(Equal(first.runs))
	})

	It("does not give up what was held up once", func(ctx SpecContext) {
		held, other := &fake{takes: []time.Duration{7e6, 7e6, 500e6, 7e6, 7e6, 7e6, 7e6}}, &fake{takes: []time.Duration{8e6}}
		runs, err := tune.Race(ctx, []tune.Whole{{Name: "other", Subject: other}, {Name: "held", Subject: held}}, time.Now().Add(time.Hour), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(runs[0]).To(And(HaveField("Whole", "held"), HaveField("Nanos", 7e6)))
	})

	It("does not wait for one that takes much longer than another", func(ctx SpecContext) {
		list := []tune.Whole{{Name: "endless", Subject: &endless{}}, {Name: "it", Subject: &fake{takes: []time.Duration{1e6}}}, {Name: "last", Subject: &endless{}}}
		var failed []string
		runs, err := tune.Race(ctx, list, time.Now(), func(name string, err error) {
			Expect(err).To(MatchError(context.DeadlineExceeded))
			failed = append(failed, name)
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(runs).To(ConsistOf(HaveField("Whole", "it")))
		Expect(failed).To(Equal([]string{"endless", "last"}))
	})

	It("runs each three times at the deadline", func(ctx SpecContext) {
		f := &fake{takes: []time.Duration{200 * time.Millisecond}}
		_, err := tune.Race(ctx, []tune.Whole{{Name: "it", Subject: f}}, time.Now(), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(f.runs).To(Equal(4), "one of them warm")
	})
})
